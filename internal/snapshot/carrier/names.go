package carrier

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Ages of a temporary file since its last change, from which on it is removed: as soon as
// its lock is known to be free, and if the file system or the platform has no locks.
const (
	unlockedAge = time.Minute
	unknownAge  = time.Hour
)

const (
	// maxLinks is the largest number of symbolic links on the way to a file.
	maxLinks = 40
	// maxBase is the largest length in bytes of a name that a temporary file's name
	// contains. The sum of 255 bytes is the limit of most file systems.
	maxBase = 200
	// randomLength is the length of the random part of a temporary file's name.
	randomLength = 16
	suffix       = ".tmp"
)

// split cuts path behind its last separator. It cleans neither part: with symbolic links,
// a clean path may lead to another file.
func split(path string) (dir, base string) {
	dir, base = filepath.Split(path)
	if dir == "" {
		dir = "." + string(filepath.Separator)
	}
	return dir, base
}

// target is the file that path names, behind symbolic links. The file need not exist.
func target(path string) (string, error) {
	at := path
	for range maxLinks {
		about, err := os.Lstat(at)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("look at %s: %w", path, err)
		}
		_, base := split(at)
		switch {
		case err != nil && base != "" || err == nil && about.Mode().IsRegular():
			return at, nil
		case err != nil || about.IsDir():
			return "", fmt.Errorf("%s names a directory", path)
		case about.Mode()&fs.ModeSymlink == 0:
			return "", fmt.Errorf("%s is not a regular file", path)
		}
		next, err := os.Readlink(at)
		if err != nil {
			return "", fmt.Errorf("follow %s: %w", path, err)
		}
		if !filepath.IsAbs(next) {
			dir, _ := split(at)
			next = dir + next
		}
		at = next
	}
	return "", fmt.Errorf("%s has too many symbolic links", path)
}

// prefix is the part of a temporary file's name before the random part. For a name that
// does not fit, the prefix has its hash.
func prefix(base string) string {
	if len(base) > maxBase {
		sum := sha256.Sum256([]byte(base))
		base = hex.EncodeToString(sum[:])
	}
	return "." + base + "."
}

// temporary returns a new name for a temporary file.
func temporary(base string) string { return prefix(base) + rand.Text()[:randomLength] + suffix }

// isTemporary reports whether temporary can return name for base.
func isTemporary(name, base string) bool {
	random, ok := strings.CutPrefix(name, prefix(base))
	random, ok2 := strings.CutSuffix(random, suffix)
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" // the alphabet of rand.Text
	return ok && ok2 && len(random) == randomLength && strings.Trim(random, alphabet) == ""
}

// removeAbandoned removes the temporary files for path that no process writes any more.
// Files that cannot be removed stay.
func removeAbandoned(path string) {
	dir, base := split(path)
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(256) // the directory may be large
		for _, name := range names {
			if isTemporary(name, base) && abandoned(dir+name) {
				_ = os.Remove(dir + name)
			}
		}
		if err != nil {
			return
		}
	}
}

// abandoned reports whether no process writes the temporary file name any more. The lock
// of a dead process is free, and only the creator of a file keeps its lock for longer
// than a look.
func abandoned(name string) bool {
	about, err := os.Lstat(name)
	if err != nil || !about.Mode().IsRegular() {
		return false
	}
	age := time.Since(about.ModTime())
	if age < unlockedAge {
		return false // its lock may be about to be taken, or its rename to be done
	}
	f, err := os.OpenFile(name, os.O_WRONLY|lockFlags, 0)
	if err == nil {
		defer f.Close()
		err = lock(f)
	}
	return err == nil || age >= unknownAge && !errors.Is(err, errLocked)
}

var errLocked = errors.New("another process holds the lock")
