package servers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// ErrMissing is returned when the program of a server is not installed and
// cannot be installed.
var ErrMissing = errors.New("servers: a program is missing")

// Program returns the path of a server's program, which the Debian package pkg
// brings. Besides PATH it looks at globs of other places, newest first.
func Program(name, pkg string, globs ...string) (string, error) {
	if path, ok := find(name, globs); ok {
		return path, nil
	}
	if err := install(pkg); err != nil {
		return "", fmt.Errorf("%w: %s of the Debian package %s: %w", ErrMissing, name, pkg, err)
	}
	path, ok := find(name, globs)
	if !ok {
		return "", fmt.Errorf("%w: %s, although its package %s was installed", ErrMissing, name, pkg)
	}
	return path, nil
}

func find(name string, globs []string) (path string, ok bool) {
	var found []string
	if path, err := exec.LookPath(name); err == nil {
		found = append(found, path)
	}
	for _, glob := range globs {
		matches, err := filepath.Glob(glob)
		if err != nil {
			continue
		}
		slices.Sort(matches)
		slices.Reverse(matches)
		found = append(found, matches...)
	}
	if len(found) == 0 {
		return "", false
	}
	return found[0], true
}

// install installs a package, with a lock of apt's own against other processes
// that do the same. No daemon is started.
func install(pkg string) error {
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return errors.New("there is no apt-get to install it")
	}
	if os.Geteuid() != 0 {
		return errors.New("only root can install it")
	}
	options := []string{"-o", "DPkg::Lock::Timeout=300", "-y", "--no-install-recommends"}
	run := func(args ...string) ([]byte, error) {
		cmd := exec.Command(apt, append(slices.Clone(options), args...)...)
		cmd.Env = append(os.Environ(), "RUNLEVEL=1", "DEBIAN_FRONTEND=noninteractive")
		return cmd.CombinedOutput()
	}
	if _, err := run("install", pkg); err == nil {
		return nil
	}
	if out, err := run("update"); err != nil {
		return fmt.Errorf("apt-get update: %w\n%s", err, out)
	}
	if out, err := run("install", pkg); err != nil {
		return fmt.Errorf("apt-get install: %w\n%s", err, out)
	}
	return nil
}

// ErrNoNewer is returned when a newer server cannot be had.
var ErrNoNewer = errors.New("newer: the server of a newer Debian release cannot be had")

// Newer is a server of a newer Debian release than the machine may have. Its packages are unpacked
// in the user's cache directory, once, and the program runs with the loader and the libraries beside
// it. Nothing is installed.
type Newer struct {
	// Release is the name of the Debian release, Program the name of the program.
	Release, Program string
	// packages are the names of the program's packages, beside the C library.
	packages []string
}

// The newer servers, beside Redis 7.0, which Debian 12 has.
var (
	NewerMemcached = Newer{"trixie", "memcached", []string{ // read-only
		"memcached", "libevent-2.1-7t64", "libsasl2-2", "libssl3t64", "libdb5.3t64", "zlib1g", "libzstd1",
	}}
	Redis8  = Newer{"trixie", "redis-server", append([]string{"redis-server", "redis-tools", "libstdc++6", "libgcc-s1"}, ofRedis...)} // read-only
	Valkey8 = Newer{"trixie", "valkey-server", append([]string{"valkey-server", "valkey-tools"}, ofRedis...)}                         // read-only
	Valkey9 = Newer{"forky", "valkey-server", append([]string{"valkey-server", "valkey-tools"}, ofRedis...)}                          // read-only
)

// ofRedis are the libraries of Redis and Valkey.
var ofRedis = []string{"libatomic1", "libjemalloc2", "liblzf1", "libssl3t64", "libsystemd0", "libcap2", "zlib1g", "libzstd1"} // read-only

// Line returns the command line of the server. Its error matches [ErrNoNewer].
func (n *Newer) Line() (line []string, err error) {
	if line, err = n.line(); err != nil {
		return nil, fmt.Errorf("%w: %s of %s: %w", ErrNoNewer, n.Program, n.Release, err)
	}
	return line, nil
}

func (n *Newer) line() (line []string, err error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("packages of Debian are for Linux")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	home := filepath.Join(cache, "strata-servers", n.Release+"-"+n.Program)
	if line, err = n.unpacked(home); err == nil {
		return line, nil
	}
	if err = n.unpack(home); err != nil {
		return nil, err
	}
	return n.unpacked(home)
}

// unpacked returns the command line if the program is there.
func (n *Newer) unpacked(home string) ([]string, error) {
	loaders, err := filepath.Glob(filepath.Join(home, "usr/lib/*/ld-linux-*.so.*"))
	if err != nil || len(loaders) == 0 {
		return nil, fmt.Errorf("no loader in %s", home)
	}
	program := filepath.Join(home, "usr/bin", n.Program)
	if _, err := os.Stat(program); err != nil {
		return nil, err
	}
	return []string{loaders[0], "--library-path", filepath.Dir(loaders[0]), program}, nil
}

// unpack fetches the packages and unpacks them to home, whole or not at all.
func (n *Newer) unpack(home string) error {
	if err := os.MkdirAll(filepath.Dir(home), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(home), "unpack-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := n.fetch(work); err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil {
		return err
	}
	tree := filepath.Join(work, "tree")
	for _, p := range packages {
		if out, err := exec.Command("dpkg-deb", "-x", p, tree).CombinedOutput(); err != nil {
			return fmt.Errorf("dpkg-deb: %w\n%s", err, out)
		}
	}
	if err := os.Rename(tree, home); err != nil && !errors.Is(err, os.ErrExist) {
		if _, there := n.unpacked(home); there != nil { // another process was not first
			return err
		}
	}
	return nil
}

// fetch fetches the packages from the archive that the machine itself uses. The lists of packages are
// apart from the lists of the machine.
func (n *Newer) fetch(work string) error {
	archive, err := archive()
	if err != nil {
		return err
	}
	for _, dir := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(work, dir), 0o755); err != nil {
			return err
		}
	}
	source := "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] " + archive + " " + n.Release + " main\n"
	for name, text := range map[string]string{"sources.list": source, "status": ""} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	options := []string{
		"Dir::Etc::SourceList=" + work + "/sources.list", "Dir::Etc::SourceParts=/dev/null",
		"Dir::State::Lists=" + work + "/lists", "Dir::State::status=" + work + "/status",
		"Dir::Cache=" + work, "Dir::Cache::archives=" + work + "/archives",
		"Acquire::Languages=none", "Acquire::http::Timeout=20", "APT::Sandbox::User=root", "Debug::NoLocking=true",
	}
	for _, what := range [][]string{{"update"}, append([]string{"download", "libc6"}, n.packages...)} {
		args := []string{"-qq"}
		for _, o := range options {
			args = append(args, "-o", o)
		}
		cmd := exec.Command("apt-get", append(args, what...)...)
		cmd.Dir = work
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("the archive %s does not answer: apt-get %s: %w\n%s", archive, what[0], err, out)
		}
	}
	return nil
}

// archive returns the address of Debian's archive, as the machine's own sources have it.
func archive() (string, error) {
	const format = "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)"
	out, err := exec.Command("apt-get", "indextargets", "--format", format, "Created-By: Packages").Output()
	if err != nil {
		return "", fmt.Errorf("the sources of the machine: %w", err)
	}
	for line := range bytes.Lines(out) {
		if uri, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "Debian|Debian|main|"); ok {
			return uri, nil
		}
	}
	return "", errors.New("the sources of the machine have no archive of Debian")
}
