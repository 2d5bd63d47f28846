// Package origin judges by the outcomes of loads whether the origin is well: whether
// loads fail, and whether they take long.
//
// States, of each of the two: well, bad. Loads fail when two in a row have failed over
// some seconds, or three in a row and half of all within ten seconds; they succeed again
// when less than one in ten fails. Loads are slow when one takes longer than its share of
// the time, and none was quick since it began, or when one in five was slow within half a
// minute; they are quick again when less than one in twenty is slow.
//
// Invariant: after its first line a state is logged, while it lasts, only as a reminder;
// its end is logged once.
package origin

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/limit"
	"github.com/strata-cache/strata/internal/observe"
)

const (
	// width is the time of one slot, in nanoseconds. Failures are counted over a few
	// recent slots, slow loads over more, since they take long to end.
	width  = int64(2 * time.Second)
	recent = 5
	longer = 15
	slots  = longer + 1

	// slowShare is the share of the time for a load from which it counts as slow.
	slowShare = 4
	// lasting is the time of failures without a success after which few of them count as
	// much as many in an instant.
	lasting = 5 * time.Second
	// forget is the time without a load after which the last outcome says nothing more.
	forget = 10 * time.Minute
	// single is the least time between two lines about a failed load while others
	// succeed.
	single = 5 * time.Minute
)

// Options configure an [Origin]. Logger is required.
type Options struct {
	// Name is the name of the cache. ShowKeys allows keys in the log.
	Name     string
	ShowKeys bool
	Logger   *slog.Logger
	// Within is the time after which a load is ended. If it is zero or less, loads are
	// never ended, and are judged as if it were a minute. A load that takes a quarter of
	// it is slow.
	Within time.Duration
	// Deadlines are the ends of loads, and tell of slow loads while they run. Without them
	// loads are judged when they have ended.
	Deadlines *limit.Deadlines
}

// Origin is the state of the origin of a cache. Use [New] to make one. It is safe for
// concurrent use.
type Origin struct {
	o    Options
	long time.Duration
	ring [slots]slot
	// uneasy says that a load has failed or was slow, so that each success is judged.
	uneasy atomic.Bool
	ration

	mu         sync.Mutex // guards below
	row        int        // failures since the last success
	rowSince   int64      // since when they fail
	rowEnded   int64      // the end of the first of them
	last       int64      // the last news
	fails      state
	slow       state
	nextSingle int64 // when a single failure may be logged

	panics observe.LogLimit
}

// state is one of the two states.
type state struct {
	bad   bool
	since int64 // while bad
	lines observe.LogLines
}

// begin makes the state bad since a time, unless it is bad.
func (s *state) begin(since int64) {
	if !s.bad {
		s.bad, s.since = true, since
	}
}

// news is the line about a state that may be bad.
func (s *state) news(now int64) observe.LogLine {
	if !s.bad {
		return observe.Nothing
	}
	return s.lines.Next(true, now)
}

// over reports whether the log has to say that the state has ended.
func (s *state) over(now int64) bool { return !s.bad && s.lines.Next(false, now) == observe.Ends }

// lasts returns the time for which the state has been bad; 0 if it is not bad.
func (s *state) lasts(now int64) time.Duration {
	if !s.bad {
		return 0
	}
	return time.Duration(max(1, now-s.since))
}

// slot counts the loads that ended within a time.
type slot struct {
	number             atomic.Int64 // of the time, in widths
	quick, slow, wrong atomic.Int64
}

// New returns an Origin in the state well.
func New(o Options) *Origin {
	if o.Within <= 0 {
		o.Within = time.Minute
	}
	g := &Origin{o: o, long: o.Within / slowShare}
	o.Deadlines.Watch(g.long, g.overlong)
	return g
}

// at returns the slot of a time.
func (g *Origin) at(now int64) *slot {
	n := now / width
	s := &g.ring[n%slots]
	if s.number.Load() != n {
		g.turn(s, n)
	}
	return s
}

// turn gives a slot to another time. Loads that end meanwhile may be counted in neither.
func (g *Origin) turn(s *slot, n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.number.Load() < n {
		s.quick.Store(0)
		s.slow.Store(0)
		s.wrong.Store(0)
		s.number.Store(n)
	}
}

// within counts the loads of the last n slots.
func (g *Origin) within(n int, now int64) (quick, slow, wrong int64) {
	// A slot may still have the counts of a time long ago, if nothing has ended since.
	last := now / width
	for i := range g.ring {
		if s := &g.ring[i]; s.number.Load() > last-int64(n) {
			quick, slow, wrong = quick+s.quick.Load(), slow+s.slow.Load(), wrong+s.wrong.Load()
		}
	}
	return quick, slow, wrong
}

// quickSince reports whether a quick load has ended after the slot of a time, as far as the
// slots reach.
func (g *Origin) quickSince(begun int64) bool {
	for i := range g.ring {
		if s := &g.ring[i]; s.number.Load() > begun/width && s.quick.Load() > 0 {
			return true
		}
	}
	return false
}

// Succeeded notes that a load has ended at now with an answer of the origin.
func (g *Origin) Succeeded(now int64, took time.Duration) {
	s := g.at(now)
	// While all is well, a quick load costs a few atomic operations and no lock.
	switch {
	case took < g.long:
		s.quick.Add(1)
		if !g.uneasy.Load() {
			return
		}
	case g.o.Deadlines == nil:
		g.overlong(now, now-int64(took))
	}
	g.answered(now)
}

// answered ends the row of failures, and the states that the counts do not bear out.
func (g *Origin) answered(now int64) {
	g.mu.Lock()
	g.row, g.last = 0, now
	g.settle(now)
	failed, slow := g.fails.over(now), g.slow.over(now)
	g.uneasy.Store(g.fails.bad || g.slow.bad || g.fails.lines.Told() || g.slow.lines.Told())
	g.mu.Unlock()
	// The log is written without the lock: a handler may take its time.
	if failed {
		g.o.Logger.Info("strata: loads succeed again", g.About(nil)...)
	}
	if slow {
		g.o.Logger.Info("strata: loads are quick again", g.About(nil)...)
	}
}

// settle ends the states that the counts do not bear out. g.mu is held.
func (g *Origin) settle(now int64) {
	if g.fails.bad && g.row == 0 {
		quick, slow, wrong := g.within(recent, now)
		g.fails.bad = wrong*10 >= max(1, quick+slow+wrong)
	}
	if g.slow.bad && g.quickSince(g.slow.since) {
		quick, slow, wrong := g.within(longer, now)
		g.slow.bad = slow*20 >= max(1, quick+slow+wrong)
	}
}

// Failed notes that a load of key has ended at now with an error that says something about
// the origin.
func (g *Origin) Failed(now int64, took time.Duration, key any, err error) {
	g.at(now).wrong.Add(1)
	g.mu.Lock()
	g.uneasy.Store(true)
	if g.row == 0 {
		g.rowSince, g.rowEnded = now-int64(took), now
		// The load was long under way, and others have succeeded since it began: the origin was
		// well until now.
		if g.quickSince(g.rowSince) {
			g.rowSince = now
		}
	}
	g.row++
	g.last = now
	if g.inARow(now) {
		g.fails.begin(g.rowSince)
	}
	said, since := g.fails.news(now), g.fails.lasts(now)
	// A failure while others succeed gets a line of its own, seldom: it is one key's trouble, not
	// the origin's.
	one := said == observe.Nothing && !g.fails.bad && now >= g.nextSingle
	if one || said != observe.Nothing {
		g.nextSingle = now + int64(single)
	}
	g.mu.Unlock()
	switch {
	case one:
		g.o.Logger.Warn("strata: a load has failed", g.About(key, slog.Any("error", err))...)
	case said == observe.Begins:
		g.o.Logger.Warn("strata: loads fail", g.About(key, slog.Any("error", err))...)
	case said == observe.Lasts:
		g.o.Logger.Warn("strata: loads still fail", g.About(key, slog.Duration("for", since.Round(time.Second)), slog.Any("error", err))...)
	}
}

// inARow reports whether the failures in a row say that loads fail. g.mu is held.
func (g *Origin) inARow(now int64) bool {
	if g.row >= 2 && now-g.rowEnded >= int64(lasting) {
		return true
	}
	quick, slow, wrong := g.within(recent, now)
	return g.row >= 3 && 2*wrong >= quick+slow+wrong
}

// overlong notes at now that a load, begun at the given time, is slow: it runs on, or
// has ended just now.
func (g *Origin) overlong(now, begun int64) {
	g.at(now).slow.Add(1)
	g.mu.Lock()
	g.uneasy.Store(true)
	g.last = now
	quick, slow, wrong := g.within(longer, now)
	if !g.quickSince(begun) || slow >= 3 && 5*slow >= quick+slow+wrong {
		g.slow.begin(begun)
	}
	said, since := g.slow.news(now), g.slow.lasts(now)
	g.mu.Unlock()
	switch said {
	case observe.Begins:
		g.o.Logger.Warn("strata: loads are slow", g.About(nil, slog.Duration("longer_than", g.long))...)
	case observe.Lasts:
		g.o.Logger.Warn("strata: loads are still slow", g.About(nil, slog.Duration("longer_than", g.long), slog.Duration("for", since.Round(time.Second)))...)
	}
}

// Read returns the times for which loads have failed and been slow until now. A time is
// 0 if loads are well, and if no load has ended for so long that their state is unknown.
func (g *Origin) Read(now int64) (failing, slow time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now-g.last > int64(forget) {
		return 0, 0
	}
	g.settle(now)
	return g.fails.lasts(now), g.slow.lasts(now)
}

// maxStack is the number of bytes of a panic's stack in the log.
const maxStack = 8 << 10

// Panicked logs that a Loader has panicked, with the stack, or has ended its goroutine.
func (g *Origin) Panicked(now int64, key any, err error, stack []byte) {
	ok, skipped := g.panics.Allow(now)
	if !ok {
		return
	}
	about := g.About(key, slog.Any("error", err), slog.Int("more", skipped))
	if len(stack) > 0 {
		about = append(about, slog.String("stack", string(stack[:min(len(stack), maxStack)])))
	}
	g.o.Logger.Error("strata: loader panicked", about...)
}

// About returns the attributes of a line in the log about key, or about none for nil.
func (g *Origin) About(key any, more ...any) []any {
	all := []any{slog.String("cache", g.o.Name)}
	if key != nil && g.o.ShowKeys {
		all = append(all, slog.Any("key", key))
	}
	return append(all, more...)
}
