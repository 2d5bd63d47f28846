// The health of L2, for two breakers of each server (all operations, stores only) and the
// log. Each breaker is closed, open or half open; half open, it lets one operation at a
// time probe the server.
// Invariant: an operation cut short by its caller, or not sent, opens and closes no
// breaker. A refusal counts as a failure of stores and of reads, not as silence.

package l2

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/cache/limit"
	states "github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/remote"
)

// wellAfter is the time without a failure of any operation of a kind after which the log says that
// L2 is well. One answer is not enough: an L2 that fails now and then answers in between.
const wellAfter = time.Second

// health is the state of L2 in the log, apart from the states of its servers.
type health struct {
	log     *states.Member // of the servers, for all caches of the client; nil without a tier
	server  string         // the name of the server, or of all
	foreign foreignLog     // values that cannot be read
	errors  atomic.Uint64  // operations not executed
	late    atomic.Uint64  // operations without an answer in time, a part of errors
	changes atomic.Uint64  // of the breakers for all operations
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

// Probes are the breakers on which the outcome of an operation decides: All is the
// breaker for all operations on L2, Stores the breaker for stores.
type Probes struct{ All, Stores bool }

// Report counts the outcome of an operation on L2 under ctx, tells the breakers of the
// server, and logs changes. name is the name of a key of the server, or empty for an
// operation on no key. An operation cut short by its caller tells nothing about L2.
func (s *Store) Report(ctx context.Context, op, name string, err error, p Probes) {
	if errors.Is(err, remote.ErrKeyTooLong) || unkept(err) {
		return // it says nothing about the server
	}
	if err != nil && CallerLeft(ctx) != nil {
		return
	}
	k := operationOf(op)
	if g := s.guards.about(name, err); g != nil {
		s.reportOn(g, op, k, err, p)
	}
	if err != nil {
		s.health.errors.Add(1)
		if timedOut(err) {
			s.health.late.Add(1)
		}
		s.o.Failed(ctx, op, err)
	}
}

// unkept reports whether an error says that L2 cannot keep one value, because the value is too large or
// lives for too short a time. L2 executes the other operations of the key.
func unkept(err error) bool {
	return errors.Is(err, remote.ErrValueTooLarge) || errors.Is(err, entryrules.ErrTooShort)
}

// reportDrops is Report for drops, which probe the breaker for all operations if probe
// reports so.
func (s *Store) reportDrops(ctx context.Context, drops []remote.Drop, err error, probe func(i int) bool) {
	if err == nil && s.guards.alike() || len(drops) == 1 {
		s.Report(ctx, "drop", drops[0].Key, err, Probes{All: probe(0)})
		return
	}
	for _, part := range s.guards.split(len(drops), err != nil, nameOf(drops)) {
		at, e := firstOf(part, func(i int) error { return remote.ErrorOf(err, i) })
		s.Report(ctx, "drop", drops[at].Key, e, Probes{All: probe(part[0])})
	}
}

// reportOn is Report for the guard of the server.
func (s *Store) reportOn(g *guard, op string, k operation, err error, p Probes) {
	if refused := errors.Is(err, remote.ErrRefused); !refused || k == reading {
		s.report(g, err, p.All)
	}
	if k == storing {
		s.reportStore(g, err, p.Stores)
	}
	if err == nil {
		s.well(g, k)
	} else {
		s.failed(g, op, k, err)
	}
	s.guards.settle()
}

// The states of a server in the log, for all caches of the client.
const (
	isSilent   = "does not answer"
	isRefusing = "refuses "
	isBroken   = "breaker is open"
	isFull     = "nothing is stored"
)

// kinds are the names of operations. They are read-only.
var kinds = [operations]string{"reads", "stores", "drops"}

// begins writes a line about a server that has entered a state, by the record of this
// cache. The line is an event of the cache if the state is news to it, and in the log if
// no cache has written it there.
func (s *Store) begins(g *guard, r *states.Health, state, text string, more ...any) {
	news := r.Failed(s.o.Now())
	if !r.Bad() {
		return
	}
	if say := s.health.log.Begins(g.server, state); say || news {
		s.write(g, say, slog.LevelWarn, text, more...)
	}
}

// ends writes a line about a server that has left a state. The line is an event of the cache, and
// in the log if no other cache still finds the server in the state.
func (s *Store) ends(g *guard, state, text string, more ...any) {
	s.write(g, s.health.log.Ends(g.server, state), slog.LevelInfo, text, more...)
}

// write writes a line about a server: an event of this cache, and in the log if say is true.
func (s *Store) write(g *guard, say bool, level slog.Level, text string, more ...any) {
	s.health.log.Write(s.o.Logger, say, level, cmp.Or(g.server, s.health.server), text, more...)
}

// failed logs that L2 fails, with its error.
func (s *Store) failed(g *guard, op string, k operation, err error) {
	more := []any{slog.String("op", op), slog.Any("error", err)}
	if errors.Is(err, remote.ErrRefused) {
		s.begins(g, &g.refuses[k], isRefusing+kinds[k], "strata: L2 refuses", more...)
		return
	}
	s.begins(g, &g.silent, isSilent, "strata: L2 does not answer", more...)
}

// well logs that L2 is well again, if it was not.
func (s *Store) well(g *guard, k operation) {
	if g.quiet(k) {
		return
	}
	now := s.o.Now()
	if g.silent.Well(now, wellAfter) {
		s.ends(g, isSilent, "strata: L2 answers again")
	}
	if g.refuses[k].Well(now, wellAfter) {
		s.ends(g, isRefusing+kinds[k], "strata: L2 refuses no more", slog.String("kind", kinds[k]))
	}
}

// report tells the breaker of a server the outcome of an operation. While L2 as a whole is
// left alone, this instance may miss the drops of others. While one of several servers is
// left alone, the others confirm drops, and a drop of its own keys is an error for the
// caller.
func (s *Store) report(g *guard, err error, probe bool) {
	if err == nil && g.all.Calm() && g.broken.Quiet() {
		return
	}
	if g.all.Report(s.o.Now(), probe, err != nil) {
		s.health.changes.Add(1)
		s.guards.settle()
		s.suspend()
	}
	s.logBreaker(g, g.all, &g.broken, err, isBroken, "strata: circuit breaker of L2 is open", "strata: circuit breaker of L2 is closed")
}

// suspend calls Options.Suspend when L2 as a whole begins or ceases to be left alone.
func (s *Store) suspend() {
	s.suspending.Lock() // so that the last call has the last state
	defer s.suspending.Unlock()
	if alone := s.LeftAlone(); alone != s.suspended {
		s.suspended = alone
		s.o.Suspend(alone)
	}
}

// reportStore tells the breaker for stores the outcome of an operation. While it is open,
// loads take no leases and store in L1 only; drops are still announced.
func (s *Store) reportStore(g *guard, err error, probe bool) {
	if err == nil && g.stores.Calm() && g.full.Quiet() {
		return
	}
	text := "strata: nothing is stored in L2"
	if err != nil {
		refused := errors.Is(err, remote.ErrRefused)
		if g.refusing.Store(refused); !refused {
			text = "strata: nothing is stored in L2: stores get no answer"
		}
	}
	g.stores.Report(s.o.Now(), probe, err != nil)
	s.logBreaker(g, g.stores, &g.full, err, isFull, text, "strata: values are stored in L2 again")
}

// logBreaker logs that b has opened or closed.
func (s *Store) logBreaker(g *guard, b *limit.Breaker, r *states.Health, err error, state, opened, closed string) {
	switch isOpen := open(b); {
	case isOpen && err != nil:
		s.begins(g, r, state, opened, slog.Any("error", err))
	case !isOpen && r.Well(s.o.Now(), 0):
		s.ends(g, state, closed)
	}
}

// LeftAlone reports whether L2 has failed too often and gets no requests: all of its
// servers, if there are several.
func (s *Store) LeftAlone() bool { return s.guards.whenAll(leftAlone) }

// LeavesAlone is LeftAlone for the server of a name.
func (s *Store) LeavesAlone(name string) bool {
	g := s.guards.at(name)
	return g != nil && leftAlone(g)
}

// ServersLeftAlone returns the names of the servers that get no requests after too many
// failures, if L2 has several servers.
func (s *Store) ServersLeftAlone() []string { return s.guards.where(leftAlone) }

// ServersWithoutStores returns the names of the servers that get no stores after too many
// refusals, if L2 has several servers.
func (s *Store) ServersWithoutStores() []string { return s.guards.where(stopsStores) }

// BreakerChanges returns how often a server of L2 was left alone or used again.
func (s *Store) BreakerChanges() uint64 { return s.health.changes.Load() }

// StoringStopped reports whether L2 has refused stores too often and gets none: all of its
// servers, if there are several.
func (s *Store) StoringStopped() bool { return s.guards.whenAll(stopsStores) }

// StoresFreely reports whether no store has failed lately.
func (s *Store) StoresFreely() bool {
	if s.guards.fleet == nil {
		return s.guards.whole.stores.Calm()
	}
	return s.guards.uneasy.Load() == 0
}

// Errors returns the number of operations that L2 has not executed.
func (s *Store) Errors() uint64 { return s.health.errors.Load() }

// TimedOut returns the number of operations without an answer in time. Errors counts
// them, too.
func (s *Store) TimedOut() uint64 { return s.health.late.Load() }

// timedOut reports whether err means that no answer has come in time. The caller has not
// left.
func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// foreignEvery is the least time between two log lines about values in L2 that
// cannot be read.
const foreignEvery = time.Minute

// foreignLog counts values in L2 that cannot be read.
type foreignLog struct {
	count atomic.Uint64
	told  atomic.Uint64 // the count in the last log line
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

// The pauses between attempts to probe the tier.
const (
	firstProbe = 50 * time.Millisecond
	lastProbe  = time.Second
)

// Probe asks the tier, until it answers or ctx ends, for settings that weaken the promises of
// the cache, and logs them.
func (s *Store) Probe(ctx context.Context) {
	if s.can.probe == nil {
		return
	}
	// The server may not be there yet when the cache is made. The warnings are worth the wait,
	// since they are about settings that nothing else would show.
	for pause := firstProbe; ; pause = min(2*pause, lastProbe) {
		warnings, err := s.probe(ctx)
		if err == nil {
			for _, w := range warnings {
				s.o.Logger.Warn("strata: "+w, slog.String("cache", s.o.Name))
			}
			return
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

func (s *Store) probe(ctx context.Context) (warnings []string, err error) {
	ctx, cancel := s.Bound(states.OwnerOf(s.Space()).Own(ctx)) // not every Prober knows the cache
	defer cancel()
	return s.can.probe.Probe(ctx)
}
