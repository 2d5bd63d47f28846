package servers

import (
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
var ErrNoNewer = errors.New("newer: no newer memcached can be had")

// release is the Debian release with the newer memcached.
const release = "trixie"

// libraries begin the names of the packages that memcached needs, beside its own.
var libraries = []string{"memcached_", "libc6_", "libevent-", "libsasl2-2_", "libssl", "libdb5", "zlib1g_", "libzstd1_"} // read-only

// newerMemcached returns the command line of the memcached of a newer Debian release. Its
// packages are unpacked in the user's cache directory, once, and the program runs with
// the loader and the libraries beside it. Nothing is installed. The error matches
// ErrMissing.
func newerMemcached() (line []string, err error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("%w: Debian's packages are for Linux", ErrNoNewer)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoNewer, err)
	}
	home := filepath.Join(cache, "strata-servers", release)
	if line, err = unpacked(home); err == nil {
		return line, nil
	}
	if err = unpack(home); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoNewer, err)
	}
	return unpacked(home)
}

// unpacked returns the command line if the program is there.
func unpacked(home string) ([]string, error) {
	loaders, err := filepath.Glob(filepath.Join(home, "usr/lib/*/ld-linux-*.so.*"))
	if err != nil || len(loaders) == 0 {
		return nil, fmt.Errorf("%w: no loader in %s", ErrNoNewer, home)
	}
	program := filepath.Join(home, "usr/bin/memcached")
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoNewer, err)
	}
	return []string{loaders[0], "--library-path", filepath.Dir(loaders[0]), program}, nil
}

// unpack fetches the packages and unpacks them to home, whole or not at all.
func unpack(home string) error {
	if err := os.MkdirAll(filepath.Dir(home), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(home), "unpack-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	packages, err := fetch(work)
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
		if _, there := unpacked(home); there != nil { // another process was not first
			return err
		}
	}
	return nil
}

// fetch fetches memcached and its libraries, and returns the files. Its lists of
// packages are apart from the lists of the machine.
func fetch(work string) (packages []string, err error) {
	for _, dir := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(work, dir), 0o755); err != nil {
			return nil, err
		}
	}
	source := "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian " + release + " main\n"
	for name, text := range map[string]string{"sources.list": source, "status": ""} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	options := []string{
		"Dir::Etc::SourceList=" + work + "/sources.list", "Dir::Etc::SourceParts=/dev/null",
		"Dir::State::Lists=" + work + "/lists", "Dir::State::status=" + work + "/status",
		"Dir::Cache=" + work, "Dir::Cache::archives=" + work + "/archives",
		"Acquire::Languages=none", "APT::Sandbox::User=root", "Debug::NoLocking=true",
	}
	for _, what := range []string{"update", "-y --no-install-recommends --download-only install memcached"} {
		args := []string{"-qq"}
		for _, o := range options {
			args = append(args, "-o", o)
		}
		if out, err := exec.Command("apt-get", append(args, strings.Fields(what)...)...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("apt-get %s: %w\n%s", what, err, out)
		}
	}
	all, err := filepath.Glob(filepath.Join(work, "archives", "*.deb"))
	return slices.DeleteFunc(all, func(path string) bool {
		return !slices.ContainsFunc(libraries, func(begin string) bool { return strings.HasPrefix(filepath.Base(path), begin) })
	}), err
}
