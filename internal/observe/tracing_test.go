package observe

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/remote"
)

// TestTraceThatBlocksHoldsUpNoCommand has a Trace that blocks at the begin of a command, or at its end.
func TestTraceThatBlocksHoldsUpNoCommand(t *testing.T) {
	for _, begins := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			block := make(chan struct{})
			defer close(block)
			trace := BoundTrace(func(context.Context, remote.Command) func(remote.CommandEnd) {
				if begins {
					<-block
				}
				return func(remote.CommandEnd) { <-block }
			})
			begun, want, n := time.Now(), errors.New("the error of the command"), 0
			for range 1000 {
				err := RunTraced(t.Context(), trace, remote.Command{}, func() error { n++; return want }, func(error) (string, bool) { return "", false })
				if err != want {
					t.Fatal(err)
				}
			}
			if took := time.Since(begun); n != 1000 || took > 10*Patience {
				t.Errorf("%d commands took %v", n, took)
			}
		})
	}
	if BoundTrace(nil) != nil {
		t.Error("no Trace has become one")
	}
}

// TestTraceThatBeginsLateEnds has a Trace that begins during the command, and one that begins after it.
func TestTraceThatBeginsLateEnds(t *testing.T) {
	for _, after := range []time.Duration{2 * Patience, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var begun, ended atomic.Int64
			want := errors.New("the error of the command")
			trace := BoundTrace(func(context.Context, remote.Command) func(remote.CommandEnd) {
				begun.Add(1)
				time.Sleep(after)
				return func(e remote.CommandEnd) {
					if ended.Add(1); e.Err != want {
						t.Errorf("the end is %v", e)
					}
				}
			})
			for range mostRunning { // all places are taken by the time that the commands end
				go func() {
					_ = RunTraced(t.Context(), trace, remote.Command{}, func() error { time.Sleep(time.Minute); return want }, func(error) (string, bool) { return "", false })
				}()
			}
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			if n := begun.Load(); n != mostRunning || ended.Load() != n {
				t.Errorf("begun after %v, %d of %d have ended", after, ended.Load(), n)
			}
		})
	}
}
