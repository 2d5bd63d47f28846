// Package carrier has the two ways of a snapshot between processes: a file on disk, which is
// replaced as a whole or stays as it is, and the answer of another instance's handler.
package carrier

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// WriteFile replaces the file at path by the output of write. The new file is written beside it
// under another name, synced and renamed, and the directory is synced. If any step before
// the rename fails or write panics, the old file stays as it was, and the new one is
// removed. An error of the last step says so: the new file is in place, but a failure of
// power may bring the old one back. A Write to the Writer that fails is an error even if
// write returns none. The Writer is for one goroutine at a time.
//
// The file has the rights perm, less the rights that the process masks. A symbolic link
// stays: the file that it names is replaced, or made if there is none. A path that names a
// directory, a device, a pipe or a socket is an error. A killed process leaves the
// temporary file, which a later Write of the same path removes. Of Writes at the same time
// the last rename wins.
func WriteFile(path string, perm fs.FileMode, write func(io.Writer) error) error {
	return replace(disk{}, path, perm, write)
}

// filesystem has the operations of the operating system that Write needs.
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

// replace is Write on a file system, which a test may choose.
func replace(on filesystem, path string, perm fs.FileMode, write func(io.Writer) error) error {
	path, err := target(path)
	if err != nil {
		return err
	}
	f, err := on.create(path, perm)
	if err != nil {
		return fmt.Errorf("create a file beside %s: %w", path, err)
	}
	removeAbandoned(path)
	if err := fillAndRename(on, f, path, write); err != nil {
		return err
	}
	// The rename is a change of the directory, which has to reach the disk as well.
	dir, _ := split(path)
	if err := on.syncDir(dir); err != nil {
		return fmt.Errorf("%s is replaced, but may come back after a failure of power: sync of its directory: %w", path, err)
	}
	return nil
}

// fillAndRename makes f the file at path, or removes it. The bytes are synced first: otherwise a
// failure of power after the rename may leave the new name without them.
func fillAndRename(on filesystem, f file, path string, write func(io.Writer) error) (err error) {
	done := false
	defer func() { // also after a panic
		if !done {
			_ = f.Close() // it may be closed
			err = errors.Join(err, on.remove(f.Name()))
		}
	}()
	to := &writer{to: f}
	err = write(to)
	if err == nil {
		err = to.err
	}
	if err != nil {
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

// writer writes to a file until an error, which it keeps.
type writer struct {
	to  io.Writer
	err error
}

// Write writes b, or returns the error of an earlier Write: bytes behind a hole are of no
// use.
func (w *writer) Write(b []byte) (n int, err error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err = w.to.Write(b)
	if n < len(b) && err == nil {
		err = io.ErrShortWrite
	}
	w.err = err
	return n, err
}
