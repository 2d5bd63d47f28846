package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// program returns the path of a server's program, which the Debian package pkg
// brings. Besides PATH it looks at globs of other places, newest first.
func program(t testing.TB, name, pkg string, globs ...string) string {
	t.Helper()
	if path, ok := find(name, globs); ok {
		return path
	}
	if err := install(pkg); err != nil {
		t.Fatalf("%s is not installed (Debian package %s): %v", name, pkg, err)
	}
	path, ok := find(name, globs)
	if !ok {
		t.Fatalf("%s is still missing after its package %s was installed", name, pkg)
	}
	return path
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

// install installs a package, with a lock of apt's own against others who do
// the same. No daemon is started.
func install(pkg string) error {
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return fmt.Errorf("and it cannot be installed: no apt-get")
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("and it cannot be installed: not root")
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
