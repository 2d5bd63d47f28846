package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/health"
	"github.com/strata-cache/strata/internal/trust"
	"github.com/strata-cache/strata/remote"
)

const (
	// beatEvery is how often a sign of life goes over the bus, or up to a quarter
	// less often, from whichever instance comes first; signEvery is that of a
	// bus that needs none to know itself alive. Then it says where the tier
	// stands, which is dear.
	beatEvery = time.Second
	signEvery = 2400 * time.Millisecond
	// lookEvery is how often the tier is asked whether anything was dropped,
	// while nothing is; it answers for all caches together, and seldom asks.
	lookEvery = 600 * time.Millisecond
	// SilentAfter is how long nothing comes over the bus until it counts as
	// silent, although it says that it is connected.
	SilentAfter = 3 * time.Second
	// settleAfter is the time that messages get of which the tier knows.
	settleAfter = time.Second
	// overdueAfter is the time that messages get which a sign of life has
	// overtaken, having come another way.
	overdueAfter = 500 * time.Millisecond
	// verifyWithin is how long the tier may take to say what a strange sign of
	// life is about.
	verifyWithin = 2 * time.Second
	// firstRetry and lastRetry are the pauses between attempts to learn where
	// the tier stands.
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
	// Trust is told what was missed.
	Trust *trust.Ledger
	// Confirms says that there is a tier that can confirm what is suspect.
	Confirms bool
	// Position asks the tier how far drops have come; nil if it does not know.
	Position func(ctx context.Context) (remote.Position, error)
	// Changes tells whether anything was dropped since a position was asked
	// for, as [remote.ChangeTeller] has it; nil if the tier cannot tell.
	Changes func(ctx context.Context) (string, error)
	// Doubt makes the tier ask anew for what it remembers; nil if it remembers
	// nothing.
	Doubt func()
	// Part keeps what runs now from being joined or stored.
	Part func()
	// Obey drops what a message says. Drops of everything do not come here.
	Obey func(m *remote.Message)
	// Mine reports whether a message is this instance's own, and the call that
	// sent it sees to everything.
	Mine func(m *remote.Message) bool
	// DropAll makes everything absent, or stale if soft.
	DropAll func(soft bool)
	// Now is the time, Hits the number of hits so far.
	Now  func() int64
	Hits func() uint64
	// Patience is for how long L1 is used after the last word from the bus.
	Patience time.Duration
	// Strict says that L1 counts as empty after that.
	Strict bool
	// Timeout bounds what is sent.
	Timeout time.Duration
}

// Link follows a bus from [Start] to [Link.Stop].
type Link struct {
	o         Options
	checks    bool // the bus is a remote.Checker
	connected atomic.Bool
	mute      atomic.Bool
	joined    atomic.Bool   // it was connected once
	health    health.Record // of the bus, for the log
	floods    trust.Floods

	gaps, missed, alls atomic.Uint64
	// degraded counts hits while the bus was silent, up to the last time it
	// was; degradedFrom is the count of all hits when it became so, plus one.
	degraded, degradedFrom atomic.Uint64

	unhear func() // ends following the bus
	cancel context.CancelFunc
	runs   sync.WaitGroup
	kick   chan struct{} // holds one
	// settled are the changes of the tier up to which positions were compared,
	// or empty. It is keep's.
	settled string

	mu sync.Mutex // guards below
	state
}

// state is what is known and what is to be done. Times are Options.Now's; zero
// means that there is nothing to do.
type state struct {
	why        error // nobody is connected, as far as that is known
	subscribed bool  // the bus says so
	life       int   // counts subscriptions
	heardAt    int64 // when something came over the bus, or began to be waited for
	lostAt     int64 // since when messages may be lost, if it is not connected
	beatAt     int64 // when to send a sign of life, unless another is heard
	silent     bool  // not connected, and what that takes is yet to be done
	tellAt     int64 // when to tell that it has not connected at all
	joinAt     int64 // when to ask for the position to be connected
	pause      time.Duration
	verify     bool // somebody has seen the tier where this instance has not been
	verifiedAt int64
	strangeAt  int64 // when it was first seen there, if the tier owes an answer
	settleAt   int64 // when pending words are over
	overdueAt  int64 // when what an early sign has told of must have come
	dropAt     int64 // when to obey a drop of everything that was put off
	expireAt   int64 // the same for an expiry
}

// Start begins to follow the bus.
func Start(o Options) *Link {
	l := &Link{o: o, kick: make(chan struct{}, 1)}
	if c, ok := o.Bus.(remote.Checker); ok {
		l.checks = c.Checks()
	}
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	l.heardAt, l.lostAt, l.silent = o.Now(), o.Now(), true
	l.tellAt = l.heardAt + int64(SilentAfter)
	l.degradedFrom.Store(o.Hits() + 1)
	l.runs.Go(func() { l.keep(ctx) })
	l.unhear = o.Bus.Follow(o.Name, l.follow)
	return l
}

// Stop ends following, and waits until nothing of the link runs. It is called
// once.
func (l *Link) Stop() {
	l.unhear()
	l.cancel()
	l.runs.Wait()
}

// Connected reports whether what others drop is told here. Of a nil Link, that
// of an instance without a bus, it is false, like Mute.
func (l *Link) Connected() bool { return l != nil && l.connected.Load() }

// Mute reports whether L1 counts as empty.
func (l *Link) Mute() bool { return l != nil && l.mute.Load() }

// Stats are counters of a Link since it was started.
type Stats struct {
	// Gaps counts the times the bus may have lost messages, Missed the lanes
	// in which one was lost, as was found out later.
	Gaps, Missed uint64
	// Alls counts drops of everything that others have announced.
	Alls uint64
	// Degraded counts hits while the bus was silent.
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

// wake makes keep look at the state.
func (l *Link) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// follow is told by the bus what happens, one event at a time. It does not
// wait for anything.
func (l *Link) follow(e remote.Event) {
	now := l.o.Now()
	switch e.State {
	case remote.Connected:
		l.mu.Lock()
		l.lose(l.heardAt)
		l.subscribed, l.heardAt = true, now
		l.beaten(now)
		l.life++
		l.joinAt, l.pause = now, firstRetry
		l.mu.Unlock()
		l.wake()
	case remote.Gap:
		l.gaps.Add(1)
		l.mu.Lock()
		l.subscribed, l.joinAt = false, 0
		l.life++
		l.mu.Unlock()
		l.fallSilent(e.Err)
	}
	if e.State == remote.Delivered {
		l.alive(now)
	}
	for i := range e.Messages {
		l.hear(&e.Messages[i], now)
	}
}

// alive notes that something came over the bus. One that was taken for dead is
// joined again.
func (l *Link) alive(now int64) {
	l.mu.Lock()
	if !l.connected.Load() && now-l.heardAt >= int64(SilentAfter) {
		l.lose(l.heardAt)
	}
	l.heardAt = now
	join := l.subscribed && l.joinAt == 0 && !l.connected.Load()
	if join {
		l.life++
		l.joinAt, l.pause = now, firstRetry
	}
	l.mu.Unlock()
	if join {
		l.wake()
	}
}

// lose notes that messages may be lost since then, until the tier has told its
// position: that others come again does not bring them back. mu is held.
func (l *Link) lose(since int64) {
	if l.lostAt == 0 {
		l.lostAt = since
	}
}

// hear takes one message.
func (l *Link) hear(m *remote.Message, now int64) {
	switch m.Kind {
	case remote.Beat:
		l.hearBeat(m, now)
		return
	case remote.Ended:
		l.o.Obey(m)
		return
	}
	if l.o.Trust.Hear(m, now) {
		l.missed.Add(1)
		l.o.Part()
	}
	if m.Kind == remote.AllDropped || m.Kind == remote.AllExpired {
		if !l.o.Mine(m) {
			l.hearAll(m, now)
		}
		return
	}
	l.o.Obey(m)
}

// hearAll obeys a drop of everything, at once unless there are too many.
func (l *Link) hearAll(m *remote.Message, now int64) {
	l.alls.Add(1)
	at := l.floods.Admit(m.From, now)
	if at <= now {
		l.o.DropAll(m.Kind == remote.AllExpired)
		return
	}
	l.mu.Lock()
	if m.Kind == remote.AllDropped {
		l.dropAt = at
	} else {
		l.expireAt = at
	}
	l.mu.Unlock()
	l.wake()
}

var (
	errSuspended = errors.New("L2 is left alone")
	errNothing   = fmt.Errorf("nothing has come for %v", SilentAfter)
)

// Suspend makes the bus count as silent, because the tier does not answer, until
// that is taken back or the tier tells its position again. It does nothing to a
// nil Link.
func (l *Link) Suspend(yes bool) {
	if l == nil {
		return
	}
	now := l.o.Now()
	l.mu.Lock()
	l.life++
	if l.subscribed {
		l.joinAt, l.pause = now, firstRetry
		if yes {
			l.joinAt, l.pause = now+int64(lastRetry), lastRetry
		}
	}
	l.mu.Unlock()
	if yes {
		l.fallSilent(errSuspended)
	}
	l.wake()
}

// fallSilent notes that messages may be lost until further notice, and why.
func (l *Link) fallSilent(why error) {
	hits := l.o.Hits()
	l.mu.Lock()
	was := l.connected.Swap(false)
	if was {
		l.degradedFrom.Store(hits + 1)
		l.silent = true
	}
	l.why = why
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
	connected, why := l.connected.Load(), l.why
	l.mu.Unlock()
	switch {
	case connected && (l.health.Well(now, 0) || l.joined.CompareAndSwap(false, true)):
		l.o.Logger.Info("strata: bus is connected", slog.String("cache", l.o.Name))
	case !connected && l.joined.Load() && l.health.Failed(now):
		l.o.Logger.Warn("strata: bus is silent", slog.String("cache", l.o.Name), slog.Any("error", why))
	}
}
