package carrier

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

// disk is the file system of the operating system.
type disk struct{}

// create makes a new file beside path. Its rights are perm from the first moment on. The
// lock tells other processes that it is in use; where there are no locks, its age does.
func (disk) create(path string, perm fs.FileMode) (file, error) {
	dir, base := split(path)
	for tries := 0; ; tries++ {
		f, err := os.OpenFile(dir+temporary(base), os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm.Perm())
		if errors.Is(err, fs.ErrExist) && tries < 10 {
			continue
		}
		if err != nil {
			return nil, err
		}
		_ = lock(f)
		return f, nil
	}
}

func (disk) rename(from, to string) error { return os.Rename(from, to) }
func (disk) remove(path string) error     { return os.Remove(path) }

// syncDir makes the names in a directory durable. Windows has no such call, nor have some
// file systems: their names are as durable as they can be.
func (disk) syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return supported(d.Sync())
}

// supported returns err, but nil if err says that directories cannot be synced.
func supported(err error) error {
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}
