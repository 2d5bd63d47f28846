package carrier

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// aged sets the time of the last change of a file.
func aged(t *testing.T, path string, age time.Duration) {
	t.Helper()
	at := time.Now().Add(-age)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyAbandonedFilesOfThePathAreRemoved(t *testing.T) {
	const random = "ABCDEFGHIJKLMN27"
	path := filepath.Join(t.TempDir(), "file")
	beside := func(name string) string { return filepath.Join(filepath.Dir(path), name) }
	stay := []string{
		"file." + random + ".tmp", ".file." + random, ".file.tmp", ".files." + random + ".tmp", ".file.x." + random + ".tmp",
		".file." + strings.ToLower(random) + ".tmp", ".file." + random + "A.tmp", ".file.BACKUP.tmp",
	}
	for _, name := range append(stay, ".file."+random+".tmp", ".file.BCDEFGHIJKLMN27A.tmp") {
		if err := os.WriteFile(beside(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		aged(t, beside(name), unknownAge+time.Minute)
	}
	aged(t, beside(".file.BCDEFGHIJKLMN27A.tmp"), unlockedAge/2)
	if err := os.Mkdir(beside(".file.CDEFGHIJKLMN27AB.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	aged(t, beside(".file.CDEFGHIJKLMN27AB.tmp"), unknownAge+time.Minute)
	if err := WriteFile(path, 0o600, threeTimes("new ")); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(stay, "file", ".file.BCDEFGHIJKLMN27A.tmp", ".file.CDEFGHIJKLMN27AB.tmp") {
		if _, err := os.Lstat(beside(name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(beside(".file." + random + ".tmp")); err == nil {
		t.Error("the abandoned file stays")
	}
}

func TestFileOfAWriterThatPausesIsNotAbandoned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	err := WriteFile(path, 0o600, func(w io.Writer) error {
		if _, err := io.WriteString(w, "outer"); err != nil {
			return err
		}
		for name := range content(t, path) {
			aged(t, filepath.Join(filepath.Dir(path), name), unknownAge+time.Minute)
		}
		return WriteFile(path, 0o600, threeTimes("inner "))
	})
	if got := content(t, path); err != nil || len(got) != 1 || got["file"] != "outer" {
		t.Errorf("%v, the directory has %q", err, got)
	}
}

func TestEachNameOfATemporaryFileIsKnown(t *testing.T) {
	for _, base := range []string{"file", ".file", "a.b", strings.Repeat("n", maxBase+1)} {
		if name := temporary(base); !isTemporary(name, base) || isTemporary(name, base+"x") || len(name) > 255 {
			t.Errorf("%q is not of %q", name, base)
		}
	}
}
