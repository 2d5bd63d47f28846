// The health of L2, for two breakers (all operations, stores only) and the log. Each
// breaker is closed, open or half open; one operation at a time probes it then.
// Invariant: an operation that its caller has cut short, or that was not sent, opens
// and closes no breaker. A refusal counts as a failure of stores and of reads, not
// as silence.

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

// wellAfter is the time without a failure of any operation of a kind after
// which the log says that L2 is well. An L2 that fails now and then answers in
// between.
const wellAfter = time.Second

// health is the state of L2 that the log has reported.
type health struct {
	foreign foreignLog                // values that cannot be read
	errors  atomic.Uint64             // operations that were not executed
	changes atomic.Uint64             // of the breaker for all operations
	silent  states.Record             // L2 does not answer
	refuses [operations]states.Record // L2 refuses operations of a kind
	broken  states.Record             // L2 is left alone
	full    states.Record             // nothing is stored in L2
}

// quiet reports whether a successful operation of a kind needs no log line.
func (h *health) quiet(k operation) bool {
	return h.silent.Quiet() && h.refuses[k].Quiet() && h.broken.Quiet() && h.full.Quiet()
}

// operation is a kind of operation on L2. A server may refuse one kind and
// execute the others: without memory left it refuses to store.
type operation uint8

const (
	reading  operation = iota
	storing            // also leases
	dropping           // also releases of leases
	operations
)

// operationOf returns the kind of the operation with a name.
func operationOf(op string) operation {
	switch op {
	case "get", "tags":
		return reading
	case "acquire", "put", "extend":
		return storing
	}
	return dropping
}

// Probes tells which breakers the outcome of an operation decides on: All is
// the breaker for all operations on L2, Stores the breaker for stores.
type Probes struct{ All, Stores bool }

// Report counts the outcome of an operation on L2 under ctx, tells the
// breakers, and logs changes. An operation that its caller has cut short tells
// nothing about L2.
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
	s.health.errors.Add(1)
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

// report tells the breaker the outcome of an operation on L2. While the breaker
// is open, this instance may miss the drops of others.
func (s *Store) report(err error, probe bool) {
	if err == nil && s.all.Calm() && s.health.broken.Quiet() {
		return
	}
	if s.all.Report(s.o.Now(), probe, err != nil) {
		s.health.changes.Add(1)
		s.suspending.Lock() // so that the last call has the last state
		s.o.Suspend(s.all.State() != limit.Closed)
		s.suspending.Unlock()
	}
	s.logBreaker(s.all, &s.health.broken, err, "strata: L2 is left alone", "strata: L2 is used again")
}

// reportStore tells the breaker for stores the outcome of an operation. While
// it is open, loads take no leases and store in L1 only; drops are announced
// all the same.
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

// LeftAlone reports whether L2 has failed too often and gets no requests.
func (s *Store) LeftAlone() bool { return s.all.State() != limit.Closed }

// BreakerChanges returns how often L2 was left alone or used again.
func (s *Store) BreakerChanges() uint64 { return s.health.changes.Load() }

// StoringStopped reports whether L2 has refused stores too often and gets none.
func (s *Store) StoringStopped() bool { return s.stores.State() != limit.Closed }

// StoresFreely reports whether no store has failed lately.
func (s *Store) StoresFreely() bool { return s.stores.Calm() }

// MayStore reports whether L2 gets stores, and whether the next one is a probe
// of the breaker.
func (s *Store) MayStore() (ok, probe bool) {
	if s.stores.Calm() {
		return true, false
	}
	return s.stores.Allow(s.o.Now())
}

// Errors returns the number of operations that L2 has not executed.
func (s *Store) Errors() uint64 { return s.health.errors.Load() }

// foreignEvery is the least time between two log lines about values in L2 that
// cannot be read.
const foreignEvery = time.Minute

// foreignLog counts values in L2 that cannot be read.
type foreignLog struct {
	count atomic.Uint64
	told  atomic.Uint64 // those that are in the log
	next  atomic.Int64  // the earliest time of the next log line, by the clock of L1
}

// Unreadable counts a value in L2 that cannot be read.
func (s *Store) Unreadable() { s.health.foreign.count.Add(1) }

// Foreign returns the number of values in L2 that could not be read.
func (s *Store) Foreign() uint64 {
	n := s.health.foreign.count.Load()
	if s.can.probe != nil {
		n += s.can.probe.Foreign()
	}
	return n
}

// LogForeign logs the number of unreadable values in L2 since its last line.
func (s *Store) LogForeign() {
	l, n := &s.health.foreign, s.Foreign()
	told, next := l.told.Load(), l.next.Load()
	if n == told {
		return
	}
	now := s.o.Now()
	if now < next || !l.next.CompareAndSwap(next, now+int64(foreignEvery)) {
		return
	}
	l.told.Store(n)
	s.o.Logger.Warn("strata: values in L2 cannot be read: they are another program's or version's, or damaged",
		slog.String("cache", s.o.Name), slog.Uint64("count", n-told))
}
