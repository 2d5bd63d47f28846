package lab

import (
	"context"
	"sync"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// Wire is an instance's way to a tier. A slow operation is carried out after a while,
// also if its caller has given up by then. It is answered after another while.
type Wire struct {
	*stratatest.Tier
	slow *slowness
}

// slowness is the delay of the next operation of each name.
type slowness struct {
	mu   sync.Mutex // guards below
	next map[string][2]time.Duration

	carried sync.WaitGroup // the bubble waits for them
}

// NewWire returns a way to the tier of s on which nothing is slow.
func NewWire(s *Shared) Wire {
	return Wire{s.Tier, &slowness{next: map[string][2]time.Duration{}}}
}

// Slows makes the next operation of that name arrive after the duration sent. Its answer arrives
// after another duration, answered.
func (w Wire) Slows(op string, sent, answered time.Duration) {
	w.slow.mu.Lock()
	defer w.slow.mu.Unlock()
	w.slow.next[op] = [2]time.Duration{sent, answered}
}

// Use is a change of options.
func (w Wire) Use(o *strata.Options[string, int64]) { o.Remote.Tier = w }

// Bind returns the same way to the view of s.
func (w Wire) Bind(s remote.Space) remote.Tier {
	return Wire{w.Tier.Bind(s).(*stratatest.Tier), w.slow}
}

// carry carries f out. In a bubble.
func (w Wire) carry(ctx context.Context, op string, f func(context.Context) error) error {
	w.slow.mu.Lock()
	wait := w.slow.next[op]
	delete(w.slow.next, op)
	w.slow.mu.Unlock()
	if wait == [2]time.Duration{} {
		return f(ctx)
	}
	done := make(chan error, 1)
	w.slow.carried.Go(func() {
		time.Sleep(wait[0])
		err := f(context.WithoutCancel(ctx))
		time.Sleep(wait[1])
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Get implements remote.Tier.
func (w Wire) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	var held []remote.Held
	err := w.carry(ctx, "Get", func(ctx context.Context) (err error) {
		held, err = w.Tier.Get(ctx, keys, known...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

// Tags implements remote.Tier.
func (w Wire) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	var drops []remote.Tag
	err := w.carry(ctx, "Tags", func(ctx context.Context) (err error) {
		drops, err = w.Tier.Tags(ctx, tags)
		return err
	})
	if err != nil {
		return nil, err
	}
	return drops, nil
}

// Acquire implements remote.Tier.
func (w Wire) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	var acquired []remote.Acquired
	err := w.carry(ctx, "Acquire", func(ctx context.Context) (err error) {
		acquired, err = w.Tier.Acquire(ctx, r, d)
		return err
	})
	if err != nil {
		return nil, err
	}
	return acquired, nil
}

// Put implements remote.Tier.
func (w Wire) Put(ctx context.Context, p []remote.Put) ([]int, error) {
	var refused []int
	err := w.carry(ctx, "Put", func(ctx context.Context) (err error) {
		refused, err = w.Tier.Put(ctx, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return refused, nil
}

// Drop implements remote.Tier.
func (w Wire) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	var leases []remote.Lease
	err := w.carry(ctx, "Drop", func(ctx context.Context) (err error) {
		leases, err = w.Tier.Drop(ctx, d)
		return err
	})
	if err != nil {
		return nil, err
	}
	return leases, nil
}
