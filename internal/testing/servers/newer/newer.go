// Package newer brings servers of a newer Debian release than that of the machine.
package newer

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

// ErrMissing is returned when a newer server cannot be had.
var ErrMissing = errors.New("newer: no newer memcached can be had")

// release is the Debian release with the newer memcached.
const release = "trixie"

// libraries begin the names of the packages that memcached needs, beside its own.
var libraries = []string{"memcached_", "libc6_", "libevent-", "libsasl2-2_", "libssl", "libdb5", "zlib1g_", "libzstd1_"} // read-only

// Memcached returns the command line of the memcached of a newer Debian release. Its
// packages are unpacked in the user's cache directory, once, and the program runs with
// the loader and the libraries beside it. Nothing is installed. The error matches
// ErrMissing.
func Memcached() (line []string, err error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("%w: Debian's packages are for Linux", ErrMissing)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	home := filepath.Join(cache, "strata-servers", release)
	if line, err = unpacked(home); err == nil {
		return line, nil
	}
	if err = unpack(home); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return unpacked(home)
}

// unpacked returns the command line if the program is there.
func unpacked(home string) ([]string, error) {
	loaders, err := filepath.Glob(filepath.Join(home, "usr/lib/*/ld-linux-*.so.*"))
	if err != nil || len(loaders) == 0 {
		return nil, fmt.Errorf("%w: no loader in %s", ErrMissing, home)
	}
	program := filepath.Join(home, "usr/bin/memcached")
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
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

// fetch fetches memcached and its libraries, with lists of packages apart from those of
// the machine, and returns the files.
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
