package strata

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/remote"
)

const (
	// beatEvery is how often a sign of life goes over the bus, from whichever
	// instance comes first.
	beatEvery = time.Second
	// silentAfter is how long nothing comes over the bus until it counts as
	// silent, although it says that it is connected.
	silentAfter = 3 * time.Second
	// settleAfter is the time that messages get of which the tier knows.
	settleAfter = time.Second
	// firstRetry and lastRetry are the pauses between attempts to learn where
	// the tier stands.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second
)

// link is what an instance thinks of its bus. It is connected once the bus has
// said so and the tier's position is known; it ends when the bus says so, or
// says nothing for silentAfter.
type link struct {
	connected atomic.Bool
	// mute is whether L1 counts as empty: Strict, and the bus is silent.
	mute atomic.Bool
	// degraded counts hits while the bus was silent, up to the last time it
	// was; degradedFrom is the count of all hits when it became so, plus one.
	degraded, degradedFrom atomic.Uint64

	unhear func() // ends following the bus
	cancel context.CancelFunc
	runs   sync.WaitGroup
	kick   chan struct{} // holds one

	mu sync.Mutex // guards below
	linkState
}

// linkState is what is known and what is to be done. Times are L1's.
type linkState struct {
	subscribed bool  // the bus says so
	life       int   // counts subscriptions
	heardAt    int64 // when something came over the bus, or began to be waited for
	beatAt     int64 // when a sign of life did
	silent     bool  // not connected, and what that takes is yet to be done
	joinAt     int64 // when to ask for the position to be connected; 0: not to
	pause      time.Duration
	verify     bool // somebody has another digest
	verifiedAt int64
	settleAt   int64 // when pending words are over; 0: there are none
	obeyAt     int64 // when to obey a drop of everything that was put off; 0: none
	expireAt   int64 // the same for an expiry
}

// startLink begins to follow the bus.
func (c *Cache[K, V]) startLink() {
	l := &c.link
	l.unhear = func() {}
	l.kick = make(chan struct{}, 1)
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	if c.can.probe != nil {
		l.runs.Go(func() { c.probe(ctx) })
	}
	if c.bus == nil {
		return
	}
	l.heardAt = c.memory.Now()
	l.silent = true
	l.runs.Go(func() { c.keepLink(ctx) })
	l.unhear = c.bus.Follow(c.o.Name, c.follow)
}

// stopLink ends what startLink has begun.
func (c *Cache[K, V]) stopLink() {
	c.link.unhear()
	c.link.cancel()
	c.link.runs.Wait()
}

// degradedHits is the number of hits while the bus was silent, of the given
// number in all.
func (l *link) degradedHits(hits uint64) uint64 {
	n := l.degraded.Load()
	if from := l.degradedFrom.Load(); from > 0 && hits+1 > from {
		n += hits + 1 - from
	}
	return n
}

// wake makes keepLink look at the state.
func (l *link) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// follow is told by the bus what happens, one event at a time. It does not
// wait for anything.
func (c *Cache[K, V]) follow(e remote.Event) {
	l := &c.link
	now := c.memory.Now()
	switch e.State {
	case remote.Connected:
		l.mu.Lock()
		l.subscribed, l.heardAt, l.beatAt = true, now, now
		l.life++
		l.joinAt, l.pause = now, firstRetry
		l.mu.Unlock()
		l.wake()
	case remote.Gap:
		c.counts.gaps.Add(1)
		l.mu.Lock()
		l.subscribed, l.joinAt = false, 0
		l.life++
		l.mu.Unlock()
		c.fallSilent()
	}
	if len(e.Messages) > 0 {
		c.alive(now)
	}
	for i := range e.Messages {
		c.hear(&e.Messages[i])
	}
}

// alive notes that something came over the bus. One that was taken for dead is
// joined again.
func (c *Cache[K, V]) alive(now int64) {
	l := &c.link
	l.mu.Lock()
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

// fallSilent notes that messages may be lost until further notice.
func (c *Cache[K, V]) fallSilent() {
	l := &c.link
	hits := c.memory.Stats().Hits
	l.mu.Lock()
	was := l.connected.Swap(false)
	if was {
		l.degradedFrom.Store(hits + 1)
	}
	l.silent = true
	l.mu.Unlock()
	l.wake()
	if was {
		c.o.Logger.Warn("strata: bus is silent", slog.String("cache", c.o.Name))
	}
}

// keepLink does what is due, until ctx ends.
func (c *Cache[K, V]) keepLink(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.link.kick:
		case <-timer.C:
		}
		c.tend(ctx)
		timer.Reset(time.Duration(c.nextDue() - c.memory.Now()))
	}
}

// tend does what is due.
func (c *Cache[K, V]) tend(ctx context.Context) {
	l := &c.link
	l.mu.Lock()
	now := c.memory.Now()
	s := l.linkState
	l.mu.Unlock()
	connected := l.connected.Load()
	if connected && now-s.heardAt >= int64(silentAfter) {
		c.counts.gaps.Add(1)
		c.fallSilent()
		connected = false
	}
	if !connected && s.silent && now-s.heardAt >= c.patience() {
		c.giveUp()
	}
	c.obeyLate(now)
	switch {
	case !s.subscribed:
	case !connected && s.joinAt != 0 && now >= s.joinAt:
		c.join(ctx, s.life)
	case now-s.beatAt >= int64(beatEvery):
		c.beat(ctx, connected)
	case connected && s.verify && now-s.verifiedAt >= int64(beatEvery):
		c.verify(ctx)
	}
	c.settle(now)
}

// patience is how long L1 is used after the last word from the bus.
func (c *Cache[K, V]) patience() int64 {
	if c.o.Remote.Partition == Strict {
		return int64(silentAfter)
	}
	return int64(UnconfirmedTTL)
}

// giveUp ends the trust in L1: nothing was heard for too long.
func (c *Cache[K, V]) giveUp() {
	l := &c.link
	l.mu.Lock()
	l.silent = false
	l.mu.Unlock()
	if c.o.Remote.Partition == Strict {
		l.mute.Store(true)
	}
	c.disown()
}

// nextDue is when there is something to do next.
func (c *Cache[K, V]) nextDue() int64 {
	l := &c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	connected := l.connected.Load()
	due := c.memory.Now() + int64(beatEvery)
	at := func(t int64) {
		if t != 0 {
			due = min(due, t)
		}
	}
	at(l.settleAt)
	at(l.obeyAt)
	at(l.expireAt)
	if l.subscribed {
		// Not all instances at once: the others are quiet if one was first.
		at(l.beatAt + int64(beatEvery) + rand.Int64N(int64(beatEvery/4)))
	}
	switch {
	case connected && l.verify:
		at(l.verifiedAt + int64(beatEvery))
	case connected:
		at(l.heardAt + int64(silentAfter))
	default:
		at(l.joinAt)
		if l.silent {
			at(l.heardAt + c.patience())
		}
	}
	return due
}

// position asks the tier how far drops have come.
func (c *Cache[K, V]) position(ctx context.Context) (remote.Position, error) {
	ctx, cancel := remote.WithTimeout(ctx, c.o.Remote.Timeout)
	defer cancel()
	p, err := c.can.position.Position(ctx)
	if ctx.Err() == nil || err == nil {
		c.remoteResult("position", err)
	}
	return p, err
}

// join makes the instance connected: messages arrive, and what was missed
// before is found out. What is suspect is confirmed by L2 when it is next asked
// for.
func (c *Cache[K, V]) join(ctx context.Context, life int) {
	l := &c.link
	var p remote.Position
	var err error
	if c.can.position != nil {
		p, err = c.position(ctx)
	}
	if c.can.doubt != nil {
		c.can.doubt.Doubt()
	}
	hits := c.memory.Stats().Hits
	l.mu.Lock()
	if l.life != life || !l.subscribed {
		l.mu.Unlock()
		return
	}
	if err != nil {
		l.joinAt = c.memory.Now() + int64(l.pause)
		l.pause = min(2*l.pause, lastRetry)
		l.mu.Unlock()
		return
	}
	now := c.memory.Now()
	l.joinAt, l.silent, l.verify, l.settleAt, l.beatAt = 0, false, false, 0, now
	c.rejoin(p, now)
	if from := l.degradedFrom.Swap(0); from > 0 {
		l.degraded.Add(hits + 1 - from)
	}
	l.connected.Store(true)
	l.mu.Unlock()
	l.mute.Store(false)
	c.o.Logger.Info("strata: bus is connected", slog.String("cache", c.o.Name))
}

// rejoin takes the trust from what may have been missed.
func (c *Cache[K, V]) rejoin(p remote.Position, now int64) {
	switch {
	case c.can.position != nil:
		if n := c.trust.Rejoin(p, now); n > 0 {
			c.counts.missed.Add(uint64(n))
		}
	case c.tier != nil:
		c.trust.Doubt(now)
	default:
		c.trust.Disown()
	}
	c.flights.FenceAll()
}

// beat sends a sign of life with a digest of where the tier stands.
func (c *Cache[K, V]) beat(ctx context.Context, connected bool) {
	defer c.beaten()
	m := remote.Message{Name: c.o.Name, Kind: remote.Beat, From: c.instance}
	if c.can.position != nil {
		p, err := c.position(ctx)
		if err != nil {
			return
		}
		if connected {
			c.compare(p)
		}
		m.Key = digestText(p)
	}
	ctx, cancel := remote.WithTimeout(ctx, c.o.Remote.Timeout)
	defer cancel()
	// If it is not heard, the bus is silent soon, and that is seen to.
	_ = c.bus.Publish(ctx, []remote.Message{m})
}

// beaten puts the next sign of life off.
func (c *Cache[K, V]) beaten() {
	l := &c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beatAt = c.memory.Now()
}

// verify compares what is known here with the tier: another instance has seen
// it in a state that was never heard of here.
func (c *Cache[K, V]) verify(ctx context.Context) {
	l := &c.link
	l.mu.Lock()
	l.verify, l.verifiedAt = false, c.memory.Now()
	l.mu.Unlock()
	if p, err := c.position(ctx); err == nil {
		c.compare(p)
	}
}

// compare notes what is known here otherwise than in the tier. It is suspect
// unless messages tell of it in time.
func (c *Cache[K, V]) compare(p remote.Position) {
	now := c.memory.Now()
	l := &c.link
	before := c.trust.Word()
	differs := c.trust.Check(p, now)
	if c.trust.Word() != before {
		c.flights.FenceAll()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if differs && l.settleAt == 0 {
		l.settleAt = now + int64(settleAfter)
	}
}

// settle makes suspect what no message has told of in time.
func (c *Cache[K, V]) settle(now int64) {
	l := &c.link
	l.mu.Lock()
	due := l.settleAt != 0 && now >= l.settleAt
	if due {
		l.settleAt = 0
	}
	l.mu.Unlock()
	if !due {
		return
	}
	if n := c.trust.Settle(now); n > 0 {
		c.counts.missed.Add(uint64(n))
		c.flights.FenceAll()
	}
}

// probe asks the tier, once it answers, for what weakens the cache's promises.
func (c *Cache[K, V]) probe(ctx context.Context) {
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		op, cancel := remote.WithTimeout(ctx, c.o.Remote.Timeout)
		warnings, err := c.can.probe.Probe(op)
		cancel()
		if err == nil {
			for _, w := range warnings {
				c.o.Logger.Warn("strata: "+w, slog.String("cache", c.o.Name))
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
