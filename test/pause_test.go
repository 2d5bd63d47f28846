//go:build unix

package test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/strata-cache/strata"
)

const (
	// pausedReader is set in the environment of the process to pause.
	pausedReader = "STRATA_PAUSED_READER"
	// pauses is the number of pauses that must fall into the life of an entry.
	pauses = 20
	// shortTTL is the life of an entry in the paused process; a pause is longer.
	shortTTL, longPause = 20 * time.Millisecond, 50 * time.Millisecond
	// lateHits is the number of hits after which a reader looks at the system's
	// clock itself, and some.
	lateHits = 200
)

// TestTrap17PausedProcessDoesNotServeExpiredEntries stops a process and lets it go
// on: a reader may run before the goroutine that keeps the time, which is then
// as old as the pause was long. It must find out by itself, within a number of
// hits and not of milliseconds. The process has one processor, so that the
// reader keeps that goroutine from running.
func TestTrap17PausedProcessDoesNotServeExpiredEntries(t *testing.T) {
	if os.Getenv(pausedReader) != "" {
		readUntilPaused(t)
		return
	}
	if testing.Short() {
		t.Skip("-short")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), pausedReader+"=1", "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(shortTTL / 3):
			}
			_ = cmd.Process.Signal(syscall.SIGSTOP)
			<-time.After(longPause)
			_ = cmd.Process.Signal(syscall.SIGCONT)
		}
	}()
	most, paused := 0, 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var n int
		if _, err := fmt.Sscanf(lines.Text(), "late hits after a pause: %d", &n); err != nil {
			continue
		}
		paused++
		most = max(most, n)
	}
	close(ended)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the paused process: %v", err)
	}
	t.Logf("%d pauses, after which at most %d hits were of an entry whose time was over", paused, most)
	if paused < pauses || most > lateHits {
		t.Errorf("%d pauses, %d late hits; want %d, at most %d", paused, most, pauses, lateHits)
	}
}

// readUntilPaused reads entries over and over until their time is over. It
// prints the number of hits after the end of an entry, for each entry with a
// pause in its life.
func readUntilPaused(t *testing.T) {
	c, err := strata.New(strata.Options[string, int]{Name: "paused", TTL: shortTTL, Jitter: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	for paused := 0; paused < pauses; {
		if err := c.Set(t.Context(), "k", 1); err != nil {
			t.Fatal(err)
		}
		dead := time.Now().Add(shortTTL)
		late, stopped := 0, false
		for last := time.Now(); ; {
			now := time.Now()
			stopped = stopped || now.Sub(last) > shortTTL
			last = now
			if _, ok := c.Get(t.Context(), "k"); !ok {
				break
			}
			if now.Sub(dead) > time.Millisecond {
				late++
			}
		}
		if stopped {
			paused++
			fmt.Printf("late hits after a pause: %d\n", late)
		}
	}
}
