//go:build unix

package snapshotcmd_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPipesAreRead names a pipe in place of a file, as a shell does for <(…).
func TestPipesAreRead(t *testing.T) {
	_, from := instance(t, 100)
	dir := t.TempDir()
	path, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	if _, _, err := call(t, "", "get", from, path, authorised); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte(read(t, path)), 0) }()
	of, _, err := call(t, "", "inspect", pipe)
	want, _, _ := call(t, "", "inspect", path)
	if err != nil || <-written != nil || !strings.Contains(of, "100") || len(strings.Split(of, "\n")) != len(strings.Split(want, "\n")) {
		t.Errorf("inspect of a pipe: %v\n%s\nof the file:\n%s", err, of, want)
	}
}

// TestPipeThatNobodyWritesToEndsWithTheCommand opens a pipe without a writer, so that the opening
// does not return.
func TestPipeThatNobodyWritesToEndsWithTheCommand(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := callWith(t, ctx, strings.NewReader(""), "inspect", pipe); err == nil {
		t.Errorf("got %v", err)
	}
	// Ends the goroutine that opens it.
	if w, err := os.OpenFile(pipe, os.O_WRONLY, 0); err == nil {
		_ = w.Close()
	}
}
