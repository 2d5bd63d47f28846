// Package atomicfile replaces a file by another one that is whole and on disk, or leaves
// it as it is.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// abandonedAfter is the time after which a temporary file without changes is taken for
// that of a process that was killed.
const abandonedAfter = time.Hour

// Write replaces the file at path by what write writes. The new file is written beside it
// under another name, synced and renamed, and the directory is synced. If any step before
// the rename fails or write panics, the old file stays as it was, and the new one is
// removed. An error of the last step says so: the new file is in place, but a failure of
// power may bring the old one back.
//
// The file has the rights perm, less those that the process masks. A symbolic link stays:
// the file that it names is replaced. A process that is killed leaves the temporary file,
// which a later Write of the same path removes once it is an hour old. Of Writes at the
// same time the last rename wins.
func Write(path string, perm fs.FileMode, write func(io.Writer) error) error {
	return replace(disk{}, path, perm, write)
}

// filesystem is what Write needs of the operating system.
type filesystem interface {
	create(path string, perm fs.FileMode) (file, error)
	rename(from, to string) error
	remove(path string) error
	syncDir(path string) error
}

// file is an open file.
type file interface {
	io.Writer
	Name() string
	Sync() error
	Close() error
}

// replace is Write on a file system.
func replace(on filesystem, path string, perm fs.FileMode, write func(io.Writer) error) error {
	path, err := target(path)
	if err != nil {
		return err
	}
	f, err := on.create(path, perm)
	if err != nil {
		return fmt.Errorf("create a file beside %s: %w", path, err)
	}
	removeAbandoned(path, f.Name())
	if err := fillAndRename(on, f, path, write); err != nil {
		return err
	}
	if err := on.syncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%s is replaced, but may come back after a failure of power: sync of its directory: %w", path, err)
	}
	return nil
}

// fillAndRename makes f the file at path, or removes it.
func fillAndRename(on filesystem, f file, path string, write func(io.Writer) error) (err error) {
	done := false
	defer func() { // also after a panic
		if !done {
			_ = f.Close() // it may be closed
			err = errors.Join(err, on.remove(f.Name()))
		}
	}()
	if err := write(f); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close %s: %w", path, err)
	}
	if err := on.rename(f.Name(), path); err != nil {
		return fmt.Errorf("rename to %s: %w", path, err)
	}
	done = true
	return nil
}

// target is the file that path names, behind symbolic links.
func target(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	if err != nil {
		return "", err
	}
	about, err := os.Stat(real)
	if err == nil && about.IsDir() {
		err = fmt.Errorf("%s is a directory", path)
	}
	return real, err
}

// prefix and suffix are around the random part of a temporary file's name.
func prefix(path string) string { return "." + filepath.Base(path) + "." }

const suffix = ".tmp"

// removeAbandoned removes the temporary files for path that no process writes any more,
// but not the one that is in use. Files that cannot be removed stay.
func removeAbandoned(path, inUse string) {
	dir := filepath.Dir(path)
	all, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range all {
		name := e.Name()
		if !strings.HasPrefix(name, prefix(path)) || !strings.HasSuffix(name, suffix) || name == filepath.Base(inUse) {
			continue
		}
		if about, err := e.Info(); err == nil && about.Mode().IsRegular() && time.Since(about.ModTime()) > abandonedAfter {
			_ = os.Remove(filepath.Join(dir, name))
		}
	}
}
