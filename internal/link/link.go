package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/generation"
	"github.com/strata-cache/strata/internal/health"
	"github.com/strata-cache/strata/remote"
)

const (
	// beatEvery is how often a heartbeat goes over the bus, or up to a quarter less
	// often, from the instance that comes first; signEvery is that of a bus that
	// checks itself: such a heartbeat carries a digest, which costs a look at the
	// tier.
	beatEvery = time.Second
	signEvery = 2400 * time.Millisecond
	// lookEvery is how often the tier is asked whether anything was dropped,
	// while nothing is. It answers for all caches together, and seldom asks its
	// server.
	lookEvery = 600 * time.Millisecond
	// SilentAfter is how long nothing comes over the bus until it counts as
	// silent, although it says that it is connected.
	SilentAfter = 3 * time.Second
	// settleAfter is the time for messages to arrive that explain the tier's
	// position.
	settleAfter = time.Second
	// overdueAfter is the time for messages to arrive that a heartbeat has
	// overtaken on another way.
	overdueAfter = 500 * time.Millisecond
	// verifyWithin is how long the tier may take to explain a heartbeat from an
	// unknown state.
	verifyWithin = 2 * time.Second
	// firstRetry and lastRetry are the pauses between attempts to learn the
	// tier's position.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second
)

// Options are what a Link needs of its cache. Fields are required unless they
// say otherwise. The functions do not wait, but for Position.
type Options struct {
	Name     string
	Instance uint64
	Bus      remote.Bus
	Logger   *slog.Logger
	// Generation learns which messages were missed.
	Generation *generation.Ledger
	// Confirms says that there is a tier that confirms suspect entries.
	Confirms bool
	// Position asks the tier how far drops have come; nil if it does not know.
	Position func(ctx context.Context) (remote.Position, error)
	// Changes tells whether anything was dropped since a position was asked
	// for, as [remote.ChangeTeller] has it; nil if the tier cannot tell.
	Changes func(ctx context.Context) (string, error)
	// Recheck makes the tier ask anew for what it remembers. Optional.
	Recheck func()
	// FenceAll keeps running loads from being joined or stored.
	FenceAll func()
	// Apply carries out a message here. Drops of everything do not come here.
	Apply func(m *remote.Message)
	// Mine reports whether a message is this instance's own, and the call that
	// sent it has carried it out.
	Mine func(m *remote.Message) bool
	// DropAll makes everything absent, or stale if soft.
	DropAll func(soft bool)
	// Now is the time, Hits the number of hits so far.
	Now  func() int64
	Hits func() uint64
	// Patience is for how long L1 is used after the first message that may be
	// lost.
	Patience time.Duration
	// Strict says that L1 counts as empty after that.
	Strict bool
	// Timeout bounds what is sent.
	Timeout time.Duration
}

// Link follows a bus from [Start] to [Link.Stop].
type Link struct {
	o      Options
	checks bool // the bus is a remote.Checker
	// connected says that the phase is connected, for readers without a lock.
	connected     atomic.Bool
	mute          atomic.Bool
	everConnected atomic.Bool
	health        health.Record // of the bus, for the log
	floods        generation.Floods
	counters

	unfollow func()
	cancel   context.CancelFunc
	runs     sync.WaitGroup
	woken    chan struct{} // holds one
	// settled are the changes of the tier up to which positions were compared,
	// or empty. Only run's goroutine uses it.
	settled string

	mu sync.Mutex // guards below
	state
}

// counters count since the link was started.
type counters struct {
	gaps, missed, alls atomic.Uint64
	// degraded counts hits while the link was not connected, up to the last time;
	// degradedFrom is the count of all hits when this time began, plus one.
	degraded, degradedFrom atomic.Uint64
}

// Start begins to follow the bus.
func Start(o Options) *Link {
	l := &Link{o: o, woken: make(chan struct{}, 1)}
	if c, ok := o.Bus.(remote.Checker); ok {
		l.checks = c.Checks()
	}
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	l.heardAt, l.lostAt, l.trusted = o.Now(), o.Now(), true
	l.due.tell = l.heardAt + int64(SilentAfter)
	l.degradedFrom.Store(o.Hits() + 1)
	l.runs.Go(func() { l.run(ctx) })
	l.unfollow = o.Bus.Follow(o.Name, l.follow)
	return l
}

// Stop ends following, and waits until nothing of the link runs. It is called
// once.
func (l *Link) Stop() {
	l.unfollow()
	l.cancel()
	l.runs.Wait()
}

// Connected reports whether drops of other instances are announced here. It is
// false for a nil Link, that of an instance without a bus, as [Link.Mute] is.
func (l *Link) Connected() bool { return l != nil && l.connected.Load() }

// Mute reports whether L1 counts as empty.
func (l *Link) Mute() bool { return l != nil && l.mute.Load() }

// Stats are counters of a Link since it was started.
type Stats struct {
	// Gaps counts the times the bus may have lost messages, Missed the lanes
	// in which a message was lost, as was found out later.
	Gaps, Missed uint64
	// Alls counts drops of everything that others have announced.
	Alls uint64
	// Degraded counts hits while the link was not connected.
	Degraded uint64
}

// Stats returns the counters, of a nil Link too.
func (l *Link) Stats() Stats {
	if l == nil {
		return Stats{}
	}
	s := Stats{Gaps: l.gaps.Load(), Missed: l.missed.Load(), Alls: l.alls.Load(), Degraded: l.degraded.Load()}
	if from, hits := l.degradedFrom.Load(), l.o.Hits(); from > 0 && hits+1 > from {
		s.Degraded += hits + 1 - from
	}
	return s
}

// wake makes run look at the state.
func (l *Link) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

var (
	errSuspended = errors.New("L2 is left alone")
	errNothing   = fmt.Errorf("nothing has come for %v", SilentAfter)
)

// Suspend ends the phase connected because the tier does not answer (true), until
// that is taken back (false) or the tier tells its position again. It does nothing
// to a nil Link.
func (l *Link) Suspend(yes bool) {
	if l == nil {
		return
	}
	now := l.o.Now()
	if yes {
		l.leave(func(s *state) { s.suspend(now+int64(lastRetry), lastRetry, errSuspended) })
		return
	}
	l.mu.Lock()
	l.resume(now)
	l.mu.Unlock()
	l.wake()
}

// leave makes a change of the state that may end the phase connected: messages may
// be lost from now on.
func (l *Link) leave(change func(*state)) {
	hits := l.o.Hits()
	l.mu.Lock()
	was := l.phase == connected
	change(&l.state)
	if l.connected.Store(l.phase == connected); was {
		l.degradedFrom.Store(hits + 1)
	}
	l.mu.Unlock()
	l.wake()
	if was {
		l.report()
	}
}

// report logs whether the bus is connected, if that is news.
func (l *Link) report() {
	now := l.o.Now()
	l.mu.Lock()
	connected, why := l.phase == connected, l.why
	l.mu.Unlock()
	switch {
	case connected && (l.health.Well(now, 0) || l.everConnected.CompareAndSwap(false, true)):
		l.o.Logger.Info("strata: bus is connected", slog.String("cache", l.o.Name))
	case !connected && l.everConnected.Load() && l.health.Failed(now):
		l.o.Logger.Warn("strata: bus is silent", slog.String("cache", l.o.Name), slog.Any("error", why))
	}
}
