package observe

import (
	"context"
	"errors"
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
