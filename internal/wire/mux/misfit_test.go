package mux_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/wire/mux"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// TestReplyThatDoesNotFitEndsTheConnection: the calls behind it would get replies of
// others, too.
func TestReplyThatDoesNotFitEndsTheConnection(t *testing.T) {
	s := &server{serve: echo(func(line string) {
		if line == "misfit" {
			time.Sleep(time.Millisecond) // in the bubble
		}
	})}
	muxed(t, s, func(ctx context.Context, do doer, p *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		var wg sync.WaitGroup
		for _, c := range []string{"misfit", "a", "b"} {
			wg.Go(func() {
				got, out, err := do(ctx, c)
				if f := new(failure); !errors.Is(err, errBroken) || !errors.As(err, &f) || !f.sent || got != "" || out.Lost {
					t.Errorf("%s: %q, %+v, %v", c, got, out, err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if got, _, err := do(ctx, "c"); got != "re c" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if n := s.dials.Load(); n != 2 || p.Stats().Open != 1 {
			t.Errorf("%d dials, %+v", n, p.Stats())
		}
	})
}
