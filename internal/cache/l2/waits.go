// Waits for leases. A read waits for the lease of another instance until that ends, and a caller with a context for the
// answer to its question for one.
// Invariant: a lease is released if it is granted after the caller has left.

package l2

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/limit"
	"github.com/strata-cache/strata/remote"
)

// waits are the reads that wait for leases of other instances, by the names of
// their keys.
type waits struct {
	asks *limit.Background // questions for leases, see [Store.AcquireInTime]; nil without a Tier

	mu sync.Mutex // guards below, and each Wait
	of map[string]*Wait
}

// Wait is the wait of reads for the end of the lease on one key.
type Wait struct {
	at    *waits
	name  string
	reads int
	over  bool
	ended chan struct{} // nil until it is asked for
}

// Await begins a wait for the end of the lease on the key with that name, or for a
// drop of the key. The caller calls Leave when it stops waiting.
func (s *Store) Await(name string) *Wait {
	w := &s.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[string]*Wait{}
	}
	mine := w.of[name]
	if mine == nil {
		mine = &Wait{at: w, name: name}
		w.of[name] = mine
	}
	mine.reads++
	return mine
}

// Ended returns a channel, closed when the lease has ended since Await.
func (w *Wait) Ended() <-chan struct{} {
	w.at.mu.Lock()
	defer w.at.mu.Unlock()
	// Many waits end before they are asked for a channel, and cost none.
	if w.ended == nil {
		w.ended = make(chan struct{})
		if w.over {
			close(w.ended)
		}
	}
	return w.ended
}

// Leave ends the wait of one read.
func (w *Wait) Leave() {
	w.at.mu.Lock()
	defer w.at.mu.Unlock()
	if w.reads--; w.reads == 0 && w.at.of[w.name] == w {
		delete(w.at.of, w.name)
	}
}

// LeaseEnded wakes the reads that wait for the key with that name.
func (s *Store) LeaseEnded(name string) {
	w := &s.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	mine := w.of[name]
	if mine == nil {
		return
	}
	if mine.over = true; mine.ended != nil {
		close(mine.ended)
	}
	// A later Await is about the next lease.
	delete(w.of, name)
}

// share is the share of yes among the last dozens of answers. If two answers
// are added at the same time, one may be forgotten. The zero share is zero.
type share struct{ parts atomic.Int32 }

const (
	shareWhole  = 1 << 16
	shareWeight = 32 // of the answers so far against one
)

func (s *share) add(yes bool) {
	old, target := s.parts.Load(), int32(0)
	if yes {
		target = shareWhole
	}
	s.parts.Store(old + (target-old)/shareWeight)
}

// mostly reports whether four of five answers were yes.
func (s *share) mostly() bool { return s.parts.Load() > shareWhole/5*4 }

// AcquireInTime asks for one lease, for a caller that leaves when ctx ends. The question goes on then, and releases the lease
// that it is granted. The caller gets a panic of the Tier, unless it has left.
func (s *Store) AcquireInTime(ctx context.Context, r remote.Request, d time.Duration) (a remote.Acquired) {
	answer, panicked := make(chan remote.Acquired), make(chan any, 1)
	if !s.waits.asks.Run(&answer, func(func()) {
		asked := false
		defer func() {
			if p := recover(); p != nil || !asked {
				panicked <- p
			}
		}()
		op, cancel := s.Bound(context.WithoutCancel(ctx))
		defer cancel()
		late := s.Acquire(op, []remote.Request{r}, d)[0]
		asked = true
		select {
		case answer <- late:
		case <-ctx.Done():
			x := Session{Name: r.Key}
			x.Release(ctx, s, late.Lease)
		}
	}) {
		a.Err = errClosed
		return a
	}
	select {
	case a = <-answer:
	case p := <-panicked:
		if p != nil {
			panic(p)
		}
		a.Err = errExited
	case <-ctx.Done():
		a.Err = ctx.Err()
	}
	return a
}

var (
	// errClosed is the error of a question after Close.
	errClosed = errors.New("l2: closed")
	// errExited is the error of a question whose goroutine the Tier has ended.
	errExited = errors.New("l2: the Tier has ended the goroutine")
)

// close ends AcquireInTime, and waits until its questions have ended, or ctx has.
func (w *waits) close(ctx context.Context) {
	if w.asks == nil {
		return // there is no Tier
	}
	w.asks.Close()
	within, ended := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer ended()
		w.asks.Wait()
	})
	<-within.Done()
}
