// The link between an instance and its bus: its options, start and stop, its
// counters, and the log of its changes.
//
// States: silent, joining, connected; doc.go draws them, linkstate.go moves between them.
//
// Invariant: Connected is true only in the phase connected. leave and join are the
// only functions that end and enter it.

package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/remote"
)

const (
	// heartbeatEvery is the time between two heartbeats on the bus, or up to a
	// quarter more, by the instance whose time comes first. digestEvery is the same
	// time on a bus that checks itself. Heartbeats there are sent for their digest
	// alone, which costs a request to the tier.
	heartbeatEvery = time.Second
	digestEvery    = 2400 * time.Millisecond
	// changesEvery is the time between two questions to an idle tier whether
	// anything was dropped. The tier answers for all its caches together, and seldom
	// asks its server.
	changesEvery = 600 * time.Millisecond
	// SilentAfter is the time without an event after which a bus counts as silent
	// although it is connected.
	SilentAfter = 3 * time.Second
	// joinWithin is the time for which Join waits, joinPoll the time between two of its
	// looks.
	joinWithin = 3 * time.Second
	joinPoll   = 10 * time.Millisecond
	// settleAfter is the time for messages to arrive that explain the tier's
	// position.
	settleAfter = time.Second
	// overdueAfter is the time for messages to arrive that a heartbeat from another
	// server has overtaken.
	overdueAfter = 500 * time.Millisecond
	// verifyWithin is the time in which the tier must tell its position after a
	// heartbeat with an unknown digest.
	verifyWithin = 2 * time.Second
	// firstRetry and lastRetry are the pauses between attempts to learn the
	// tier's position.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second
)

// Options connect a Link with its cache. Fields are required unless they say
// otherwise. The functions do not wait, except Position and Changes.
type Options struct {
	// Name is the cache's name, for the log, Space the name that it has on the bus.
	Name, Space string
	Instance    uint64
	Bus         remote.Bus
	Logger      *slog.Logger
	// Generation records the messages that arrive and the missed ones.
	Generation *Ledger
	// Confirms says that the cache has a tier, which confirms suspect entries.
	Confirms bool
	// Position asks the tier how far drops have come; nil if it does not know.
	Position func(ctx context.Context) (remote.Position, error)
	// Changes is the Changes of a [remote.Announcer]: its text differs if anything was
	// dropped since a position was asked for; nil if the tier cannot tell.
	Changes func(ctx context.Context) (string, error)
	// Recheck makes the tier read its namespace state again. Optional.
	Recheck func()
	// FenceAll keeps running loads from being joined or stored.
	FenceAll func()
	// Apply carries out a message, other than a drop of everything, in L1, or answers it.
	Apply func(m *remote.Message)
	// Mine reports whether a message comes from this instance, and its call has carried
	// it out here.
	Mine func(m *remote.Message) bool
	// Joined is called when the link has become connected. Optional; it may wait for as long
	// as a request.
	Joined func()
	// Seen is told of each heartbeat of another instance. Optional.
	Seen func(instance uint64)
	// DropAll makes everything absent, or stale if soft.
	DropAll func(soft bool)
	// Now returns the time, Hits the number of reads that L1 has answered with a value so far.
	Now  func() int64
	Hits func() uint64
	// Patience is the time for which L1 is used after the first message that may be
	// lost.
	Patience time.Duration
	// Strict says that L1 counts as empty after Patience.
	Strict bool
	// Timeout bounds each request of the link.
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
	told          told
	floods        Floods
	counters

	ending
	runs  sync.WaitGroup
	woken chan struct{} // holds one
	// settled is the tier's count of changes at the last compared position, or
	// empty. Only run's goroutine uses it.
	settled string

	// following is held while an event is handled. It guards over.
	following sync.Mutex

	mu sync.Mutex // guards below
	state
}

// ending is for the end of a link.
type ending struct {
	unfollow func()
	cancel   context.CancelFunc
	once     sync.Once
	over     bool          // Stop was called: later events have no effect
	ended    chan struct{} // closed when nothing runs any more
}

// told says which states of the bus are events of this cache, and in the log.
type told struct {
	health observe.Health
	log    *observe.Member // for all caches on the bus
}

// counters count from the start of the link.
type counters struct {
	gaps, missed, alls, unreadable atomic.Uint64
	// degraded counts hits while the link was not connected, in periods now over.
	// degradedFrom is 1 + the count of all hits at the begin of the present period, or
	// 0. toldDegraded is the sum that Stats has told last.
	degraded, degradedFrom, toldDegraded atomic.Uint64
	echoes
}

// Start begins to follow the bus.
func Start(o Options) *Link {
	l := &Link{o: o, woken: make(chan struct{}, 1), ending: ending{ended: make(chan struct{})}, told: told{log: observe.ServerHealthOf(o.Bus).Join(o.Name)}}
	if c, ok := o.Bus.(remote.Checker); ok {
		l.checks = c.Checks()
	}
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	l.arrivedAt, l.lostAt, l.patient = o.Now(), o.Now(), true
	l.due.logUnconnected = l.arrivedAt + int64(SilentAfter)
	l.degradedFrom.Store(o.Hits() + 1)
	l.runs.Go(func() { l.run(ctx) })
	l.unfollow = o.Bus.Follow(o.Space, l.follow)
	return l
}

// Stop ends the subscription and the goroutine of the link, and waits for both until ctx
// ends. A Bus may take longer than that, for example while it dials: then Stop returns the cause
// of ctx's end, and the rest ends by itself. A further call waits again.
func (l *Link) Stop(ctx context.Context) error {
	l.once.Do(l.stop)
	select {
	case <-l.ended:
		return nil
	default: // also if ctx has ended
	}
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stop begins the end of the link. No event has an effect afterwards.
func (l *Link) stop() {
	l.following.Lock()
	l.over = true
	l.following.Unlock()
	l.cancel()
	go func() {
		l.unfollow()
		l.runs.Wait()
		l.told.log.Leave()
		close(l.ended)
	}()
}

// Connected reports whether drops of other instances are announced here. The Link
// of an instance without a bus is nil: it is not connected, and not mute.
func (l *Link) Connected() bool { return l != nil && l.connected.Load() }

// Join waits until the bus of a new instance is connected, for up to three seconds. If ctx
// ends before, it returns ctx.Err(). A cache without a bus has a nil Link, for which it
// returns at once.
func (l *Link) Join(ctx context.Context) error {
	for deadline := time.Now().Add(joinWithin); l != nil && !l.Connected() && time.Now().Before(deadline); {
		t := time.NewTimer(joinPoll)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
	return nil
}

// Known returns the position that this instance has come to: each message up to it has
// been applied. ok is false if the link is not connected, or a drop of everything is
// delayed, or l is nil.
func (l *Link) Known() (p remote.Position, ok bool) {
	if l == nil {
		return p, false
	}
	l.following.Lock()
	defer l.following.Unlock()
	p, ok = l.o.Generation.Known()
	l.mu.Lock()
	defer l.mu.Unlock()
	return p, ok && l.phase == connected && l.due.drop == 0 && l.due.expire == 0
}

// Mute reports whether L1 counts as empty.
func (l *Link) Mute() bool { return l != nil && l.mute.Load() }

// Stats are counters of a Link since it was started.
type Stats struct {
	// Gaps counts the times at which the bus may have lost messages, Missed the
	// lanes in which a loss was found.
	Gaps, Missed uint64
	// Alls counts drops of everything by other instances.
	Alls uint64
	// Unreadable counts messages of unknown kinds.
	Unreadable uint64
	// Degraded counts hits while the link was not connected. No counter falls.
	Degraded uint64
}

// Silence returns the time since the bus last delivered something, or since the start; zero
// for a nil Link, and for one that has ended.
func (l *Link) Silence() time.Duration {
	if l == nil {
		return 0
	}
	select {
	case <-l.ended:
		return 0
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(max(0, l.o.Now()-l.arrivedAt))
}

// Echo has the times that heartbeats of this instance took to come back; nil for a nil Link.
func (l *Link) Echo() *observe.Durations {
	if l == nil {
		return nil
	}
	return &l.echo
}

// Stats returns the counters, of a nil Link too.
func (l *Link) Stats() Stats {
	if l == nil {
		return Stats{}
	}
	s := Stats{Gaps: l.gaps.Load(), Missed: l.missed.Load(), Alls: l.alls.Load(), Unreadable: l.unreadable.Load(), Degraded: l.degraded.Load()}
	if from, hits := l.degradedFrom.Load(), l.o.Hits(); from > 0 && hits+1 > from {
		s.Degraded += hits + 1 - from
	}
	// A period that ends was told with the hits of a moment later than its end.
	for told := l.toldDegraded.Load(); !l.toldDegraded.CompareAndSwap(told, max(told, s.Degraded)); {
		told = l.toldDegraded.Load()
	}
	s.Degraded = l.toldDegraded.Load()
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
	errSuspended = errors.New("the circuit breaker of L2 is open")
	errNothing   = fmt.Errorf("nothing has come for %v", SilentAfter)
)

// Suspend ends the phase connected if yes is true, because the tier does not answer. If yes is
// false it tries to join again at once. It does nothing to a nil Link.
func (l *Link) Suspend(yes bool) {
	if l == nil {
		return
	}
	now := l.o.Now()
	if yes {
		l.leave(func(s *state) {
			s.suspend(now+int64(lastRetry), lastRetry, errSuspended)
			s.alone = l.o.Position == nil
		})
		return
	}
	l.mu.Lock()
	l.alone = false
	l.resume(now)
	l.mu.Unlock()
	l.wake()
}

// leave makes a change of the state that may end the phase connected. From then on
// messages may be lost.
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

// The states of a bus in the log, for all caches of the client.
const (
	isSilent    = "bus is silent"
	isConnected = "bus is connected"
)

// report logs a change between connected and not: an event of this cache, and a line in the
// log if no other cache on the bus has written it. The log does not say that the link waits
// for L2, which has a line of its own.
func (l *Link) report() {
	now := l.o.Now()
	l.mu.Lock()
	connected, why := l.phase == connected, l.why
	l.mu.Unlock()
	switch {
	case connected && l.everConnected.CompareAndSwap(false, true):
		first, again := l.told.log.Begins("", isConnected), l.told.log.Ends("", isSilent)
		l.write(first || again, slog.LevelInfo, "strata: bus is connected")
	case connected && l.told.health.Well(now, 0):
		l.write(l.told.log.Ends("", isSilent), slog.LevelInfo, "strata: bus is connected")
	case !connected && l.everConnected.Load():
		news := l.told.health.Failed(now)
		if !l.told.health.Bad() {
			return
		}
		say := !errors.Is(why, errSuspended) && l.told.log.Begins("", isSilent)
		if say || news {
			l.write(say, slog.LevelWarn, "strata: bus is silent", slog.Any("error", why))
		}
	}
}

// write writes a line about the bus: an event of this cache, and in the log if say is true.
func (l *Link) write(say bool, level slog.Level, text string, more ...any) {
	l.told.log.Write(l.o.Logger, say, level, "", text, more...)
}
