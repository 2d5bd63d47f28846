package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
