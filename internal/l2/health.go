package l2

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	states "github.com/strata-cache/strata/internal/health"
	"github.com/strata-cache/strata/internal/limit"
	"github.com/strata-cache/strata/remote"
)

// wellAfter is how long no operation of a kind has to fail until the log says
// that L2 is well: an L2 that fails now and then answers in between.
const wellAfter = time.Second

// health is what the log was told of L2.
type health struct {
	silent  states.Record             // L2 does not answer
	refuses [operations]states.Record // L2 refuses operations of a kind
	broken  states.Record             // L2 is left alone
	full    states.Record             // nothing is stored in L2
}

// quiet reports whether an operation of a kind that L2 has answered is no news.
func (h *health) quiet(k operation) bool {
	return h.silent.Quiet() && h.refuses[k].Quiet() && h.broken.Quiet() && h.full.Quiet()
}

// operation is a kind of operation on L2. A server may refuse one kind and carry
// out the others: one without memory left refuses to store.
type operation uint8

const (
	reading  operation = iota
	storing            // also leases
	dropping           // also leases that are given back
	operations
)

// operationOf is the kind of the operation with a name.
func operationOf(op string) operation {
	switch op {
	case "get", "tags":
		return reading
	case "acquire", "put", "extend":
		return storing
	}
	return dropping
}

// Probes says which breakers the outcome of an operation decides on: the one of
// everything that L2 is asked, and the one of what is stored there.
type Probes struct{ All, Stores bool }

// Report counts how an operation on L2 under ctx has ended, tells the breakers,
// and logs changes. An operation whose caller has left says nothing about L2.
func (s *Store) Report(ctx context.Context, op string, err error, p Probes) {
	if errors.Is(err, remote.ErrKeyTooLong) || errors.Is(err, remote.ErrValueTooLarge) {
		return // nothing was sent
	}
	if err != nil && CallerLeft(ctx) != nil {
		return
	}
	k := operationOf(op)
	if refused := errors.Is(err, remote.ErrRefused); !refused || k == reading {
		s.report(err, p.All)
	}
	if k == storing {
		s.reportStore(err, p.Stores)
	}
	if err == nil {
		s.well(k)
		return
	}
	s.errors.Add(1)
	s.failed(op, k, err)
	s.o.Failed(ctx, op, err)
}

// failed logs that L2 fails, with its error.
func (s *Store) failed(op string, k operation, err error) {
	r, text := &s.health.silent, "strata: L2 does not answer"
	if errors.Is(err, remote.ErrRefused) {
		r, text = &s.health.refuses[k], "strata: L2 refuses"
	}
	if r.Failed(s.o.Now()) {
		s.o.Logger.Warn(text, slog.String("cache", s.o.Name), slog.String("op", op), slog.Any("error", err))
	}
}

// well logs that L2 is well again, if it was not.
func (s *Store) well(k operation) {
	if s.health.quiet(k) {
		return
	}
	now := s.o.Now()
	if s.health.silent.Well(now, wellAfter) {
		s.o.Logger.Info("strata: L2 answers again", slog.String("cache", s.o.Name))
	}
	if s.health.refuses[k].Well(now, wellAfter) {
		name := [operations]string{"reads", "stores", "drops"}[k]
		s.o.Logger.Info("strata: L2 refuses no more", slog.String("cache", s.o.Name), slog.String("kind", name))
	}
}

// report tells the breaker how an operation on L2 has ended. While the breaker
// is open, nothing is certain to tell this instance of what others drop.
func (s *Store) report(err error, probe bool) {
	if err == nil && s.all.Calm() && s.health.broken.Quiet() {
		return
	}
	if s.all.Report(s.o.Now(), probe, err != nil) {
		s.suspending.Lock() // the last call tells the last state
		s.o.Suspend(s.all.State() != limit.Closed)
		s.suspending.Unlock()
	}
	s.logBreaker(s.all, &s.health.broken, err, "strata: L2 is left alone", "strata: L2 is used again")
}

// reportStore tells the breaker of what is stored in L2. While it is open, loads
// take no leases and store in L1 alone; drops are announced all the same.
func (s *Store) reportStore(err error, probe bool) {
	if err == nil && s.stores.Calm() && s.health.full.Quiet() {
		return
	}
	s.stores.Report(s.o.Now(), probe, err != nil)
	s.logBreaker(s.stores, &s.health.full, err, "strata: nothing is stored in L2", "strata: values are stored in L2 again")
}

// logBreaker logs that b has opened or closed.
func (s *Store) logBreaker(b *limit.Breaker, r *states.Record, err error, opened, closed string) {
	now := s.o.Now()
	switch open := b.State() != limit.Closed; {
	case open && err != nil && r.Failed(now):
		s.o.Logger.Warn(opened, slog.String("cache", s.o.Name), slog.Any("error", err))
	case !open && r.Well(now, 0):
		s.o.Logger.Info(closed, slog.String("cache", s.o.Name))
	}
}

// LeftAlone reports whether L2 has failed too often and is not asked.
func (s *Store) LeftAlone() bool { return s.all.State() != limit.Closed }

// StoringStopped reports whether L2 has refused to store too often and is not
// asked to.
func (s *Store) StoringStopped() bool { return s.stores.State() != limit.Closed }

// StoresFreely reports whether nothing is known against storing in L2.
func (s *Store) StoresFreely() bool { return s.stores.Calm() }

// MayStore reports whether L2 is asked to store, and whether that is to find out
// if it does again.
func (s *Store) MayStore() (ok, probe bool) {
	if s.stores.Calm() {
		return true, false
	}
	return s.stores.Allow(s.o.Now())
}

// Errors returns how many operations L2 has not carried out.
func (s *Store) Errors() uint64 { return s.errors.Load() }

// foreignEvery is the least time between two log lines that say how many values
// of L2 cannot be read.
const foreignEvery = time.Minute

// foreignLog counts values in L2 that cannot be read.
type foreignLog struct {
	count atomic.Uint64
	told  atomic.Uint64 // how many the log was told of
	next  atomic.Int64  // when the log may be told again, in the time of L1
}

// Unreadable counts a value in L2 that cannot be read.
func (s *Store) Unreadable() { s.foreign.count.Add(1) }

// Foreign returns the number of values in L2 that could not be read.
func (s *Store) Foreign() uint64 {
	n := s.foreign.count.Load()
	if s.can.probe != nil {
		n += s.can.probe.Foreign()
	}
	return n
}

// LogForeign logs how many values in L2 could not be read since it last did.
func (s *Store) LogForeign() {
	l, n := &s.foreign, s.Foreign()
	told, now, next := l.told.Load(), s.o.Now(), l.next.Load()
	if n == told || now < next || !l.next.CompareAndSwap(next, now+int64(foreignEvery)) {
		return
	}
	l.told.Store(n)
	s.o.Logger.Warn("strata: values in L2 cannot be read: they are another program's or version's, or damaged",
		slog.String("cache", s.o.Name), slog.Uint64("count", n-told))
}
