package l2

import (
	"sync"
	"sync/atomic"
)

// waits are the reads that wait for leases of other instances, by the names of
// their keys. The zero waits has none.
type waits struct {
	mu sync.Mutex // guards below
	of map[string]*wait
}

type wait struct {
	ended chan struct{}
	reads int
}

// Await returns a channel that is closed when the lease on the key with that
// name ends or the key is dropped. The caller calls leave when it stops
// waiting.
func (s *Store) Await(name string) (ended <-chan struct{}, leave func()) {
	w := &s.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[string]*wait{}
	}
	mine := w.of[name]
	if mine == nil {
		mine = &wait{ended: make(chan struct{})}
		w.of[name] = mine
	}
	mine.reads++
	return mine.ended, func() { w.leave(name, mine) }
}

func (w *waits) leave(name string, mine *wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if mine.reads--; mine.reads == 0 && w.of[name] == mine {
		delete(w.of, name)
	}
}

// LeaseEnded wakes the reads that wait for the key with that name.
func (s *Store) LeaseEnded(name string) {
	w := &s.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if mine := w.of[name]; mine != nil {
		close(mine.ended)
		delete(w.of, name)
	}
}

// share is the share of yes among the last dozens of answers. Of two answers
// that are added at the same time one may be forgotten. The zero share is none.
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
