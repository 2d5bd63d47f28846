// Waits for the end of the operations begun before a moment, while later ones begin and
// end. It is the grace period of read-copy-update (McKenney and Slingwine, 1998), with
// counters.

package flight

import (
	"context"
	"sync/atomic"
	"time"
)

// poll is the time between two looks at the counters. Operations take a round trip to a
// server.
const poll = time.Millisecond

// Period counts operations. The zero Period has none. It is safe for concurrent use.
type Period struct {
	side    atomic.Uint32 // its lowest bit has the counter for operations that begin
	running [2]atomic.Int64
	waiting atomic.Bool // a Wait may change side
}

// Enter notes that an operation begins. Leave ends it, with the result of Enter.
func (p *Period) Enter() (side uint32) {
	for {
		side = p.side.Load()
		// The operation counts on this side only if the side is still the same after it has been
		// counted.
		p.running[side&1].Add(1)
		if p.side.Load() == side {
			return side
		}
		p.running[side&1].Add(-1) // a Wait may not have seen it
	}
}

// Leave notes that an operation has ended.
func (p *Period) Leave(side uint32) { p.running[side&1].Add(-1) }

// Wait returns when all operations begun before its call have ended, or with ctx.Err().
func (p *Period) Wait(ctx context.Context) error {
	if err := until(ctx, func() bool { return p.waiting.CompareAndSwap(false, true) }); err != nil {
		return err
	}
	defer p.waiting.Store(false)
	// First the other side has to be empty. Then operations that begin count there, and the present
	// side can only become empty.
	next := p.side.Load() + 1
	if err := p.drained(ctx, next); err != nil { // operations left by a Wait whose ctx had ended
		return err
	}
	p.side.Store(next)
	return p.drained(ctx, next+1)
}

// drained waits until no operation of a side runs.
func (p *Period) drained(ctx context.Context, side uint32) error {
	return until(ctx, func() bool { return p.running[side&1].Load() == 0 })
}

// until waits until ready reports true.
func until(ctx context.Context, ready func() bool) error {
	for !ready() {
		t := time.NewTimer(poll)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
	return nil
}
