package mux_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/internal/wire/mux"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// seeded is a run of callers that come and go, at a slow server. With every other
// seed their connections are cut, or stall.
type seeded struct {
	t        *testing.T
	seed     uint64
	faulty   bool
	patience int64

	mu         sync.Mutex // guards below
	dice       *rand.Rand
	good, gone int
}

func (r *seeded) roll(n int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dice.Int64N(n)
}

func (r *seeded) fault(_ int, nc *netsim.Conn) {
	nc.Slice(1 + int(r.roll(40)))
	switch n := int(r.roll(2000)); {
	case !r.faulty:
	case n%4 == 0:
		nc.CutAfter(n)
	case n%4 == 1:
		nc.StallAfter(n)
	}
}

// call makes one call. Its caller waits, leaves or has a deadline.
func (r *seeded) call(ctx context.Context, do doer, c string) {
	cancel := context.CancelFunc(func() {})
	kind, patience := r.roll(3), time.Duration(r.roll(r.patience))
	switch kind {
	case 0:
		ctx, cancel = context.WithTimeout(ctx, patience)
	case 1:
		ctx, cancel = context.WithCancel(ctx)
		time.AfterFunc(patience, cancel)
	}
	defer cancel()
	start := time.Now()
	got, _, err := do(ctx, c)
	if took := time.Since(start); took > time.Second {
		r.t.Errorf("seed %d: %s took %v", r.seed, c, took)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil && got == "re "+c:
		r.good++
	case err == nil:
		r.t.Errorf("seed %d: %s got %q", r.seed, c, got)
	default:
		r.gone++
		if kind == 2 && !r.faulty {
			r.t.Errorf("seed %d: %s, whom nothing disturbs: %v", r.seed, c, err)
		}
	}
}

// run makes the calls that the seed decides.
func (r *seeded) run() {
	delay := 1 + r.roll(int64(time.Millisecond))
	window := 1 + int(r.roll(200))
	if !r.faulty { // the server need not wait for replies to be read
		window += 10_000
	}
	s := &server{window: window, change: r.fault}
	s.serve = echo(func(string) { time.Sleep(time.Duration(r.roll(delay))) }) // in the bubble
	muxed(r.t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		var wg sync.WaitGroup
		for g := range 1 + r.roll(12) {
			wg.Go(func() {
				for i := range 30 {
					r.call(ctx, do, fmt.Sprint(g, "-", i))
				}
			})
		}
		wg.Wait()
	})
}

func TestSeededFaultsNeverMixReplies(t *testing.T) {
	seeds := kit.Rounds(300)
	good, gone := 0, 0
	for seed := range uint64(seeds) {
		r := &seeded{t: t, seed: seed, faulty: seed%2 == 0, dice: rand.New(rand.NewPCG(seed, 1))}
		r.patience = 1 + r.roll(int64(20*time.Millisecond))
		r.run()
		good, gone = good+r.good, gone+r.gone
	}
	if t.Logf("%d replies, %d failures", good, gone); good < 10*seeds || gone < 10*seeds {
		t.Errorf("%d replies, %d failures: the test proves little", good, gone)
	}
}

// TestTicketThatIsUsedAgainIsNotTakenForLate has replies come at the moment at which
// their callers' time ends.
func TestTicketThatIsUsedAgainIsNotTakenForLate(t *testing.T) {
	const callers, rounds = 100, 50
	s := &server{window: 1 << 20, serve: echo(func(line string) {
		if line == "first" {
			time.Sleep(10 * time.Millisecond) // in the bubble
		}
	})}
	muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], m *mux.Mux[*wire]) {
		do(ctx, "x") // opens the connection
		for range rounds {
			deadline := time.Now().Add(10 * time.Millisecond)
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					short, cancel := context.WithDeadline(ctx, deadline)
					defer cancel()
					r := &reply{t: t}
					command := "short\n"
					if i == 0 {
						command = "first\n"
					}
					out, err := m.Do(short, time.Now(), &r.Ticket, []byte(command), r)
					if out.Kept || err != nil {
						return
					}
					if _, err = m.Do(ctx, time.Now(), &r.Ticket, []byte("again\n"), r); err != nil {
						t.Errorf("again: %v", err)
					}
				})
			}
			wg.Wait()
		}
	})
}
