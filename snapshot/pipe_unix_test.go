//go:build unix

package snapshot_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/strata-cache/strata/snapshot"
)

// TestWhatIsNoRegularFileIsRefusedAtOnce has pipes without a writer and without a
// reader.
func TestWhatIsNoRegularFileIsRefusedAtOnce(t *testing.T) {
	dir := t.TempDir()
	pipe, link, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "s")
	must(t, syscall.Mkfifo(pipe, 0o600))
	must(t, os.Symlink(pipe, link))
	l, err := net.Listen("unix", socket)
	must(t, err)
	defer l.Close()
	c := alone(t, "users", 10)
	for name, f := range map[string]func(context.Context, string, snapshot.Options, ...snapshot.Cache) (snapshot.Report, error){
		"Load": snapshot.Load, "WarmKeys": snapshot.WarmKeys, "Save": snapshot.Save, "SaveKeys": snapshot.SaveKeys,
	} {
		for _, path := range []string{pipe, link, socket, dir, os.DevNull} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			failed := make(chan error, 1)
			go func() {
				_, err := f(ctx, path, snapshot.Options{}, c)
				failed <- err
			}()
			select {
			case err := <-failed:
				if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "regular file") && !strings.Contains(err.Error(), "directory") {
					t.Errorf("%s of %s: %v", name, path, err)
				}
			case <-ctx.Done():
				t.Fatalf("%s of %s does not return", name, path)
			}
			cancel()
		}
	}
	if about, err := os.Stat(os.DevNull); err != nil || about.Mode()&os.ModeCharDevice == 0 {
		t.Fatalf("%s is replaced: %v", os.DevNull, err)
	}
}
