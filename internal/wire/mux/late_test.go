package mux_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/internal/wire/mux"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// rounds is a number of rounds so large that two timers of one instant, which run in a random
// order, run in either order in some of them.
const rounds = 30

func TestCallAtTheInstantAtWhichAConnectionHasOwedForTooLongGetsAnother(t *testing.T) {
	for range rounds {
		s := &server{}
		s.serve = func(n int, nc *netsim.Conn) {
			if n == 0 {
				io.Copy(io.Discard, nc) // and never a word
				return
			}
			echo(func(string) {})(n, nc)
		}
		muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], _ *mux.Mux[*wire]) {
			start := time.Now()
			left, cancel := context.WithTimeout(ctx, time.Second) // as long as the timeout
			defer cancel()
			if _, _, err := do(left, "x"); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if got, _, err := do(ctx, "y"); got != "re y" || err != nil || time.Since(start) != time.Second {
				t.Errorf("%q, %v after %v", got, err, time.Since(start))
			}
		})
	}
}

func TestConnectionThatFailsAtTheDeadlineOfACallerIsNotItsError(t *testing.T) {
	s := &server{serve: func(_ int, nc *netsim.Conn) {
		time.Sleep(time.Second / 2) // in the bubble
		nc.Close()
	}}
	muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		ctx = kit.Hasty(ctx, time.Second/2)
		if _, _, err := do(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestDialThatFailsAtTheDeadlineOfACallerIsNotItsError(t *testing.T) {
	s := &server{deaf: true}
	muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		ctx = kit.Hasty(ctx, time.Second) // as long as a dial
		if _, _, err := do(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
