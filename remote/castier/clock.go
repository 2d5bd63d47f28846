package castier

import (
	"cmp"
	"context"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier/internal/recent"
)

// Times of a server's clock in ms.
const (
	second = 1000
	// precise is the uncertainty with which a clock is content.
	precise = 50 * time.Millisecond
	// clockAge is the age at which a precise clock is read again.
	clockAge = 30 * time.Second
	// drift is how much two clocks may part, of the time that passes.
	drift = 1e-4
)

// clock estimates the clock of a server, which shows its time in steps. Each reading says that the server's time, in ms
// less the local time, is between two bounds; all readings together give narrow ones. If the steps are long, readings are
// made at the local times at which the server may just be about to count, so that each halves the uncertainty. The zero
// clock has no reading.
type clock struct {
	mu        sync.Mutex // guards below; never held while the server is asked
	begun     time.Time  // the origin of local times
	low, high time.Duration
	step      time.Duration // of the server's clock
	read      time.Time     // of the last reading, zero for none
	late      time.Time     // of the first reading not believed, while others may be: for 4 steps
	asking    bool
}

// instant is the reading of a clock at one moment: the server's time in ms is between early and late.
type instant struct{ early, late int64 }

// now returns the present instant. It asks the server if nothing is known, and if it is time for another reading and no
// other caller makes one. ask returns a time of the server between t and t+step.
func (c *clock) now(ctx context.Context, ask func(context.Context) (t time.Time, step time.Duration, err error)) (instant, error) {
	if c.due(time.Now()) {
		asked := time.Now()
		t, step, err := ask(ctx)
		c.answered(asked, time.Now(), t, step, err)
		if err != nil && !c.known() {
			return instant{}, err
		}
	}
	return c.at(time.Now()), nil
}

// due reports whether the caller has to ask the server and to call answered.
func (c *clock) due(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read.IsZero() {
		return true
	}
	if c.asking || !c.wanted(now) {
		return false
	}
	c.asking = true
	return true
}

// wanted reports whether a reading now would help. c.mu is locked.
func (c *clock) wanted(now time.Time) bool {
	age := now.Sub(c.read)
	width := c.high - c.low
	if width <= precise && now.Sub(c.late) > 4*c.step || age < precise {
		return age > clockAge
	}
	if c.step <= precise {
		return age > time.Second
	}
	// The server counts when its time is whole: between low and high it is not known which. A reading tells most if the
	// middle is near a whole step.
	middle := (now.Sub(c.begun) + c.low + width/2) % c.step
	return middle < width/4 || middle > c.step-width/4 || age > time.Second
}

func (c *clock) known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.read.IsZero()
}

// answered adds a reading: the server's clock showed t at some time from asked to heard. Bounds that contradict each other
// come from a clock set meanwhile: then the new bounds count. But a server without a processor counts late for a moment:
// then the old ones are kept for two steps.
func (c *clock) answered(asked, heard, t time.Time, step time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking = false
	if err != nil {
		return
	}
	if c.read.IsZero() {
		c.begun = asked
	}
	server := time.Duration(t.UnixNano())
	low, high := server-heard.Sub(c.begun), server+step-asked.Sub(c.begun)
	if !c.read.IsZero() {
		wider := time.Duration(drift * float64(heard.Sub(c.read)))
		behind, doubt := c.low-wider-high, heard.Sub(c.late)
		switch l, h := max(low, c.low-wider), min(high, c.high+wider); {
		case l <= h:
			low, high = l, h
		case behind > 0 && behind < step && (doubt <= 2*step || doubt > 4*step):
			if low, high = c.low-wider, c.high+wider; doubt > 4*step {
				c.late = heard
			}
		}
	}
	c.low, c.high, c.step, c.read = low, high, step, heard
}

// steps returns the step of the server's clock.
func (c *clock) steps() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.step
}

// differs returns how much earlier, in ms, one instance may take the server's time to be than another one does. memcached
// counts a second after it has counted the last one, each time a little late, until it counts two at once: readings from
// before and from behind that are a step apart, and on a busy machine more.
func (c *clock) differs() int64 { return 2 * c.steps().Milliseconds() }

// at returns the instant of the local time now.
func (c *clock) at(now time.Time) instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	wider := time.Duration(drift * float64(now.Sub(c.read)))
	local := now.Sub(c.begun)
	return instant{(local + c.low - wider).Milliseconds(), (local + c.high + wider).Milliseconds() + 1}
}

// given returns the latest tag clock of a lease by an answer of the server that was asked for at a local time.
func (c *clock) given(asked time.Time) uint64 {
	return uint64(max(0, c.at(asked).early-c.differs())) << clockShift
}

// tagClock returns the tag clock for a lease: one that is at most [age] old, or, if its server does not answer, the newest
// known one. An older clock is safe: values seem older than they are. Without any the clock is 0, and values with tags
// count as dropped.
//
// After a change of the list the clock has another home, which may have one from an earlier list: until that is known, the
// clock is 0, too, as drops there may have lower numbers.
//
// A lease gets no later clock than the server's time at the question for the clock, less the most that two instances differ about
// that time. A clock with the bit made is within that as it is: the instance that made it may know the time better. So a drop at
// the latest possible time is later than all leases from before it, also if the clock was lost in between.
func (t *Tier) tagClock(ctx context.Context) uint64 {
	clock, asked, fresh := t.names.clockOfList()
	c := t.clockOfTags()
	// The last drop may have been ahead of the time then, and not be so now.
	if !fresh || c.given(asked) < clock && clock <= c.given(time.Now()) {
		t.askClock(ctx, 0)
		clock, asked, _ = t.names.clockOfList()
	}
	if given := c.given(asked); given < clock && clock&(made|ordered) != made && clock <= uint64(c.at(time.Now()).late+maxAhead)<<clockShift {
		return given
	}
	return clock // a clock further ahead of the time is damaged, and mended by drops only
}

// askClock asks for the tag clock beside an operation. If the clock is behind least, it was damaged: askClock sets it to
// least, unless least itself is later than any clock can be.
func (t *Tier) askClock(ctx context.Context, least uint64) {
	t.names.asideTags.ask(ctx, t.servers.Beside, func(ctx context.Context) error {
		c, _, err := t.countTags(ctx, 0)
		latest := t.clockOfTags().at(time.Now()).late + aheadOfTime
		if err == nil && c < least && least <= uint64(latest)<<clockShift {
			_, _, err = t.raiseClock(ctx, remade(least))
		}
		return err
	})
}

// Times in ms: aheadOfTime is how much later than the server's time the drop of a tag may be, maxAhead is more than two
// instances differ about that time. A drop that nothing else orders is that much before it.
const aheadOfTime, maxAhead = 3600 * second, 3 * second

// clockOfTags returns the clock of the server with the tag clock.
func (t *Tier) clockOfTags() *clock {
	return t.names.clock(t.servers.Home(t.names.prefix + string(byte(clockItem))))
}

// clockFrom returns the tag clock for the latest drop among tags read before: no drop is later, unless its tag is damaged.
// If clockFrom cannot know the clock, it returns the largest number.
func (t *Tier) clockFrom(ctx context.Context, latest uint64) uint64 {
	n := t.names
	if clock := n.newestClock(); latest <= clock {
		return clock
	}
	begun := time.Now()
	t.askClock(ctx, latest)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tags.asked.Before(begun) {
		return math.MaxUint64
	}
	return n.tags.value
}

// clockOfList returns the newest known tag clock, when it was asked for, and whether that is not long ago; none if it is
// from before a change of the list.
func (n *namespace) clockOfList() (clock uint64, asked time.Time, fresh bool) {
	first, _ := n.fleet.Servers()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tagsList != first {
		return 0, time.Time{}, false
	}
	return n.tags.value, n.tags.asked, n.tags.fresh(time.Now())
}

// newestClock returns the newest known tag clock.
func (n *namespace) newestClock() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tags.value
}

// clockShift leaves room for the drops of a millisecond in a clock that begins at the time in ms.
const clockShift = 22

// ordered is a bit of a clock that a drop has set beyond the server's time, once after the clock was made. From then on
// numbers of the clock order drops and leases. Before that there may be leases by a clock that was lost: none of them is
// later than the time of the loss. made is a bit of a clock that was made by a question and has had no drop.
const ordered, made = 1 << (clockShift - 1), 1 << (clockShift - 2)

// lastClock is the last number of a clock that is not damaged: drops soon behind it would begin at 0 again.
const lastClock = math.MaxUint64 - 1<<32

// countTags adds to the tag clock, and returns it. A missing clock is made. A clock behind the newest that this instance
// has seen was lost or damaged: it is set beyond that. The first drop takes a clock to the server's latest possible time.
// Every drop takes it to a while before the server's time, so the drop counts even if the clock was damaged. took is the
// part of the clock that the drop has taken, unless the clock was lost or damaged.
func (t *Tier) countTags(ctx context.Context, delta uint64) (clock uint64, took recent.Span, err error) {
	op := Add{Key: t.names.prefix + string(byte(clockItem)), Delta: delta}
	server := t.servers.Home(op.Key)
	at, err := t.now(ctx, server)
	if err != nil {
		return 0, recent.Span{}, t.of(server, err)
	}
	if op.First = t.clockOfTags().given(time.Now()) | made; delta > 0 {
		op.First = uint64(at.late)<<clockShift | ordered + delta
	}
	n := t.names
	ticket, asked, least := n.ticket(), time.Now(), n.newestClock()
	sums, err := t.add(ctx, server, []Add{op})
	if err != nil {
		return 0, recent.Span{}, t.of(server, err)
	}
	c := sums[0]
	if c-delta > lastClock { // it counts as lost
		c, least = 0, max(least, op.First)
	}
	n.keepClock(ticket, asked, server, c)
	if delta > 0 {
		if c&ordered != 0 && c >= delta && c-delta >= least {
			took = recent.Span{From: c - delta, To: c}
		}
		if least = max(least, uint64(at.early-maxAhead)<<clockShift); c&ordered == 0 {
			least = max(least, uint64(at.late)<<clockShift)
		}
		least = least | ordered + delta
	}
	switch {
	case c >= least:
		return c, took, nil
	case delta == 0:
		least = remade(least)
	}
	was, clock, err := t.raiseClock(ctx, least)
	// If other drops have come between the addition and the raise, the raise belongs to no drop.
	if was == c && took != (recent.Span{}) {
		took.To = clock
	}
	return clock, took, err
}

// remade returns the clock to set in place of one that was lost or damaged, and was c at least. Nothing orders it: other
// instances may have given leases by a later one.
func remade(c uint64) uint64 { return (c>>clockShift + 1) << clockShift }

// keepClock remembers the answer of a server to a request for the tag clock. The server may have left the list since.
func (n *namespace) keepClock(ticket uint64, asked time.Time, server int, clock uint64) {
	first, _ := n.fleet.Servers()
	n.mu.Lock()
	defer n.mu.Unlock()
	if clock < n.tags.value { // it was lost, and is raised first
		return
	}
	if server >= first {
		n.tagsList = first
	}
	// A clock from before a recheck is asked for again, but its number counts as known.
	if n.tags.value = clock; asked.After(n.tags.asked) {
		n.tags.asked = asked
	}
	n.tags.keep(ticket, asked, clock)
}

// raiseClock sets the tag clock to least, unless it is later. It returns the clock before and after. Two instances that
// raise it at once take it no further than one of them would.
func (t *Tier) raiseClock(ctx context.Context, least uint64) (was, is uint64, err error) {
	key := t.names.prefix + string(byte(clockItem))
	server := t.servers.Home(key)
	for range maxTurns {
		ticket, asked := t.names.ticket(), time.Now()
		items, errs, err := t.get(ctx, server, []string{key})
		if err = cmp.Or(err, errs.first()); err != nil {
			return 0, 0, t.of(server, err)
		}
		was, ok := number(items[0])
		if ok = ok && was <= lastClock; !ok {
			was = 0
		}
		is := max(was, least)
		if !ok || was < least {
			raise := Swap{Key: key, Value: strconv.AppendUint(nil, least, 10), Version: items[0].Version}
			swapped, errs, err := t.swap(ctx, server, []Swap{raise})
			if err = cmp.Or(err, errs.first()); err != nil {
				return 0, 0, t.of(server, err)
			}
			if !swapped[0] {
				continue
			}
		}
		t.names.keepClock(ticket, asked, server, is)
		return was, is, nil
	}
	return 0, 0, errContended
}

// awaitTags waits until leases are given by clock, the number of a drop. Values loaded before that would seem dropped. It
// waits no longer than for half of the call's time.
func (t *Tier) awaitTags(ctx context.Context, clock uint64) {
	c := t.clockOfTags()
	wait := duration(int64(clock>>clockShift) + 2 + c.differs() - c.at(time.Now()).early) // a whole ms past it, and the error of this one
	if _, end := remote.Split(ctx); !end.IsZero() {
		wait = min(wait, time.Until(end)/2)
	}
	if wait <= 0 || wait > 2*duration(maxAhead) { // or the clock is damaged
		return
	}
	passed := time.NewTimer(wait)
	defer passed.Stop()
	select {
	case <-passed.C:
	case <-ctx.Done():
	}
}

const (
	// recentTurns bounds how often the record of a drop begins again because others were first.
	recentTurns = 10
	// recordTrips is for how many round trips a store waits for the record of a drop.
	recordTrips = 5
)

// record returns the change that records a drop, none if nothing is known of its numbers. Its error harms no caller.
func (n *namespace) record(took recent.Span, tags []string) []*tagChange {
	if took == (recent.Span{}) || len(tags) > recent.MaxTags {
		return nil
	}
	is := recent.New(took, tags)
	key := n.prefix + string(byte(recentItem))
	c := &tagChange{place: place{item: key}, server: n.fleet.Home(n.prefix + string(byte(clockItem)))}
	left := recentTurns
	c.write = func(read Item) (Swap, bool) {
		if left--; left < 0 {
			c.done = true
			return Swap{}, false
		}
		return Swap{Key: key, Value: recent.Encode(recent.With(recent.Decode(read.Value), is)), Version: read.Version}, true
	}
	return []*tagChange{c}
}

// recentDrops returns the tag clock, and the recent drops up to it and perhaps later ones. A drop takes a few round trips
// from its number to its record. If there were drops behind since and the latest is not recorded, recentDrops gives it that
// time.
func (t newTags) recentDrops(ctx context.Context, since uint64) (clock uint64, all []recent.Drop, err error) {
	n := t.names
	keys := []string{n.prefix + string(byte(clockItem)), n.prefix + string(byte(recentItem))}
	server := t.servers.Home(keys[0])
	for range recordTrips {
		seen, ticket, asked := n.newestClock(), n.ticket(), time.Now()
		items, errs, err := t.get(ctx, server, keys)
		if err = cmp.Or(err, errs.first()); err != nil {
			return 0, nil, t.of(server, err)
		}
		c, ok := number(items[0])
		if !ok || c < seen || c > lastClock { // the clock was lost or damaged
			clock, _, err = t.countTags(ctx, 0)
			return clock, nil, err
		}
		n.keepClock(ticket, asked, server, c)
		clock, all = c, recent.Decode(items[1].Value)
		if c <= since || recent.Has(all, c) {
			break
		}
	}
	return clock, all, nil
}
