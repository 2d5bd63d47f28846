package atomicfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// disk is the file system of the operating system.
type disk struct{}

// create makes a new file beside path. Its rights are perm from the first moment on.
func (disk) create(path string, perm fs.FileMode) (file, error) {
	for tries := 0; ; tries++ {
		name := filepath.Join(filepath.Dir(path), prefix(path)+rand.Text()[:10]+suffix)
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
		if errors.Is(err, fs.ErrExist) && tries < 10 {
			continue
		}
		if err != nil {
			return nil, err
		}
		return f, nil
	}
}

func (disk) rename(from, to string) error { return os.Rename(from, to) }
func (disk) remove(path string) error     { return os.Remove(path) }

// syncDir makes the names in a directory durable. Windows has no such call.
func (disk) syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
