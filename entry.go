package strata

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/internal/cache/ledger"
	"github.com/strata-cache/strata/remote"
)

// stamps decide later whether an entry is valid: the watermarks from before its
// value was read, and its tags. With them go the lives of the value; nil for those of the
// Options.
type stamps struct {
	generation, tagGeneration uint64
	tags                      []string
	own                       *expiry.Own
}

// held is the value of an entry in L1, with the times of its life and the stamp that
// decides whether it is valid.
type held[V any] struct {
	expiry.Lives
	value V
}

// plain reports whether a hit on an entry that ends at dead needs no other check than
// that of the time and the generation. It is Lives.SoonAt and Lives.Stamp written out:
// in code that other packages instantiate, Go calls functions of internal/cache/expiry.
func (h *held[V]) plain(now, dead int64, generation uint64) bool {
	return now < dead-int64(h.Soon&expiry.SpanMask)*expiry.Units[h.Soon>>expiry.SpanBits] &&
		h.State>>expiry.StampShift >= generation && h.State&expiry.Closely == 0
}

// record is what an entry has behind it if its value has an identity in L2, tags, or
// a life that is not that of the Options. Other entries do without the memory, and
// without pointers for the collector.
type record struct {
	// id is the identity of the value in L2; zero for none.
	id remote.ID
	// traits are nil for most values.
	traits *traits
	// born is the time at which the value was loaded; zero if it is not known.
	born int64
}

// entry is an entry of L1; removal is one that has left it.
type (
	entry[K comparable, V any]   = l1.Entry[K, held[V]]
	removal[K comparable, V any] = l1.Removed[K, held[V]]
)

// traits are what few entries have: tags, and lives that are not those of the Options.
type traits struct {
	// names are the tags. They are never changed.
	names []string
	// seen is the generation of tags when the tags were last judged.
	seen atomic.Uint64
	// own is never changed; nil for none.
	own *expiry.Own
}

// newEntry returns an entry for L1.
func newEntry[K comparable, V any](c *l1.Cache[K, held[V]], key K, value held[V], dead int64, r record) *entry[K, V] {
	if r == (record{}) {
		return l1.NewEntry(c, key, value, dead)
	}
	value.State |= expiry.Recorded
	return l1.NewEntryWith(c, key, value, dead, r)
}

// recordOf returns the record of e; the zero record if it has none.
func recordOf[K comparable, V any](e *entry[K, V]) record {
	if e.Value.State&expiry.Recorded == 0 {
		return record{}
	}
	return *l1.Behind[record](e)
}

// judge returns whether e, the entry of key in L1, is valid, stale, suspect or
// invalid, and the time since which it is suspect. A valid one gets the newest
// stamp.
func (c *Cache[K, V]) judge(key K, e *entry[K, V]) (v ledger.Verdict, since int64) {
	if stamp := e.Value.Stamp(); stamp < c.generation.Watermark() {
		var next uint64
		v, next, since = c.generation.Judge(stamp, func() uint16 { return c.laneOf(key) })
		if v == ledger.Valid {
			c.memory.Swap(e, c.restamped(e, next))
		}
	}
	t := recordOf(e).traits
	if t == nil {
		return v, since
	}
	tv, ts := c.judgeTags(t)
	return ledger.Both(v, since, tv, ts)
}

// verdictOn is judge for a look that changes nothing.
func (c *Cache[K, V]) verdictOn(e *entry[K, V]) (v ledger.Verdict) {
	if stamp := e.Value.Stamp(); stamp < c.generation.Watermark() {
		v, _, _ = c.generation.Judge(stamp, func() uint16 { return c.laneOf(e.Key) })
	}
	if t := recordOf(e).traits; t != nil {
		of, _, _ := c.generation.JudgeTags(t.names, t.seen.Load())
		v = v.And(of)
	}
	return v
}

// judgeTags is judge for the tags t of an entry alone. If it is valid they get the
// newest stamp.
func (c *core) judgeTags(t *traits) (v ledger.Verdict, since int64) {
	if t == nil {
		return ledger.Valid, 0
	}
	v, next, since := c.generation.JudgeTags(t.names, t.seen.Load())
	if v == ledger.Valid {
		t.seen.Store(next)
	}
	return v, since
}

// tags returns the tags in t, which may be nil.
func (t *traits) tags() []string {
	if t == nil {
		return nil
	}
	return t.names
}

// seenAt returns the generation of tags when those of t, which may be nil, were last judged.
func (t *traits) seenAt() uint64 {
	if t == nil {
		return 0
	}
	return t.seen.Load()
}

// lives returns the lives in t, which may be nil; nil for those of the Options.
func (t *traits) lives() *expiry.Own {
	if t == nil {
		return nil
	}
	return t.own
}

// windows returns for how long a value with these lives may be served after its TTL.
func (c *core) windows(own *expiry.Own) (s Stale) {
	s = c.tuned.stale()
	s.WhileRevalidate, s.OnError = own.Windows(s.WhileRevalidate, s.OnError)
	return s
}

// windowsOf returns the windows of e.
func (c *Cache[K, V]) windowsOf(e *entry[K, V]) Stale {
	return c.windows(recordOf(e).traits.lives())
}

// laneOf returns the lane of key; one that does not exist, so that the entry is
// suspect, if the user's Key panics.
func (c *Cache[K, V]) laneOf(key K) (lane uint16) {
	if !c.l2.HasPositions() {
		return 0
	}
	name, err := c.nameOf(key)
	if err != nil {
		return ^lane
	}
	return c.l2.Lane(name)
}

// restamped returns a copy of e with a newer stamp.
func (c *Cache[K, V]) restamped(e *entry[K, V], stamp uint64) *entry[K, V] {
	s := newEntry(c.memory, e.Key, e.Value, e.Dead, recordOf(e))
	s.Value.Restamp(stamp)
	return s
}

// relived is restamped for a copy that is to get other times: the time of birth,
// which follows from the times of most entries, is written down.
func (c *Cache[K, V]) relived(e *entry[K, V], stamp uint64) *entry[K, V] {
	r := recordOf(e)
	r.born = c.born(e)
	s := newEntry(c.memory, e.Key, e.Value, e.Dead, r)
	s.Value.Restamp(stamp)
	return s
}

// expired returns a copy of e that is not fresh any more since some time, for as
// long as e may be served then if its load fails.
func (c *Cache[K, V]) expired(e *entry[K, V], since int64) *entry[K, V] {
	s := c.relived(e, e.Value.Stamp())
	s.Value.Expire()
	if until := c.onErrorUntil(e); until > 0 {
		s.Dead = min(until, l1.After(since, c.windowsOf(e).OnError))
	}
	return s
}

// aged returns e, or, if it was expired with others, the entry that L1 has instead
// of it from now on. With everything: as if its TTL had ended then. By a tag: as one
// that was expired by its key.
func (c *Cache[K, V]) aged(key K, e *entry[K, V]) *entry[K, V] {
	old, v := e, ledger.Valid
	if stamp := e.Value.Stamp(); stamp < c.generation.Watermark() {
		var next uint64
		var since int64
		if v, next, since = c.generation.Judge(stamp, func() uint16 { return c.laneOf(key) }); v == ledger.Stale {
			e = c.relived(e, next)
			fresh, soon := min(e.Value.FreshUntil(e.Dead), since), e.Value.SoonAt(e.Dead)
			e.Dead = e.Value.End(fresh, min(e.Dead, l1.After(since, c.windowsOf(e).window())))
			e.Value.SetSoon(soon, e.Dead)
		}
	}
	if t := recordOf(e).traits; t != nil && v <= ledger.Stale {
		if v, next, since := c.generation.JudgeTags(t.names, t.seen.Load()); v == ledger.Stale {
			e = c.expired(e, since)
			l1.Behind[record](e).traits = newTraits(t.names, next, t.own) // a reader that still has old judges it by its own
		}
	}
	if e != old {
		c.memory.Swap(old, e)
	}
	return e
}

// entry returns an entry for L1 that from now on is fresh for fresh, and kept for
// left, as far as L1 may. Either may be over. stamps are from before the value was
// read. r has the identity and the birth of the value.
func (c *Cache[K, V]) entry(now int64, key K, v V, fresh, left time.Duration, s stamps, r record) *entry[K, V] {
	r.traits = newTraits(s.tags, s.tagGeneration, s.own)
	flags := c.look
	if len(s.tags) > 0 {
		flags |= expiry.Closely
	}
	longest := l1.After(now, c.memoryTTL(s.own))
	about, dead := expiry.New(s.generation, flags, min(longest, later(now, fresh)), min(longest, l1.After(now, left)))
	if r.id == 0 && r.traits == nil {
		if bits, ok := c.implies(r.born, about.FreshUntil(dead)); ok {
			about.State, r.born = about.State|bits, 0
		}
	}
	return newEntry(c.memory, key, held[V]{about, v}, dead, r)
}

// newTraits returns the traits of an entry, with the stamp seen of its tags; nil if it has
// none.
func newTraits(tags []string, seen uint64, own *expiry.Own) *traits {
	if len(tags) == 0 && own == nil {
		return nil
	}
	t := &traits{names: tags, own: own}
	t.seen.Store(seen)
	return t
}

// later is l1.After for a time that may be past.
func later(now int64, d time.Duration) int64 {
	if d < 0 {
		return max(1, now+int64(d))
	}
	return l1.After(now, d)
}

// refreshSoon sets when a read of e is to start a refresh: after a share of
// ttl, the life of its value, or earlier at random. fresh is the rest of that life,
// which L1 may have cut short, from now on. took is the duration of its load; zero if
// that is not known.
func (c *Cache[K, V]) refreshSoon(e *entry[K, V], now int64, fresh, ttl, took time.Duration) {
	e.Value.SetSoon(c.dueAt(now, fresh, ttl, took), e.Dead)
}

// dueAt returns the time that refreshSoon sets; l1.Forever for none.
func (c *core) dueAt(now int64, fresh, ttl, took time.Duration) int64 {
	s := c.settings
	if s.RefreshAt < 0 || ttl == NoExpiry || fresh <= 0 {
		return l1.Forever
	}
	rest := time.Duration(float64(ttl) * (1 - s.RefreshAt))
	if s.RefreshSpread > 0 {
		if took == 0 {
			took = c.counts.latency.Mean()
		}
		early := time.Duration(rand.ExpFloat64() * s.RefreshSpread * float64(took))
		rest = max(rest, min(early, ttl/2))
	}
	return later(now, fresh-rest)
}

// revalidates reports whether e, which is not fresh any more, may be served
// while it is refreshed. One that a caller has expired may not.
func (c *Cache[K, V]) revalidates(e *entry[K, V], now int64) bool {
	return !e.Value.Expired() && now < l1.After(e.Value.FreshUntil(e.Dead), c.windowsOf(e).WhileRevalidate)
}

// onErrorUntil is until when e may be served if its load fails.
func (c *Cache[K, V]) onErrorUntil(e *entry[K, V]) int64 {
	window := c.windowsOf(e).OnError
	if window == 0 {
		return 0
	}
	if e.Value.Expired() {
		return e.Dead
	}
	return min(e.Dead, l1.After(e.Value.FreshUntil(e.Dead), window))
}

// life returns how long a value stored by o is to live. It is not positive if
// the value is not to be stored.
func (c *core) life(o *call) time.Duration {
	if o.ttl == 0 {
		return c.jittered(c.tuned.ttl())
	}
	return c.jittered(o.ttl)
}

// passesMemory reports whether a call keeps nothing in L1.
func (c *core) passesMemory(o *call) bool {
	return o.noMemory || c.settings.Memory.Off || c.tuned.off.Load() || o.own.Longest(1) == 0
}

// kept is how long a value with these lives is kept that is fresh for left.
func (c *core) kept(left time.Duration, own *expiry.Own) time.Duration {
	window := c.windows(own).window()
	if left > NoExpiry-window {
		return NoExpiry
	}
	return left + window
}

// memoryTTL is the longest life that a value with these lives may have in L1 now.
func (c *core) memoryTTL(own *expiry.Own) time.Duration {
	ttl := c.settings.Memory.TTL
	if ttl == 0 {
		ttl = NoExpiry
	}
	ttl = own.Longest(ttl)
	switch {
	case c.link.Mute():
		return 0
	case c.l2.Used() && !c.link.Connected():
		ttl = min(ttl, UnconfirmedTTL)
	}
	return c.jittered(ttl)
}

// weigh returns the weight of an entry, and false if the entry must not be
// kept in L1.
func (c *Cache[K, V]) weigh(key K, v V) (weight int64, ok bool) {
	if c.o.Memory.Weigh == nil {
		return 1, true
	}
	defer c.contain("Memory.Weigh")
	weight = c.o.Memory.Weigh(key, v)
	return weight, weight >= 1 || weight == Pinned
}

// lasts reports whether a suspect entry may be served while L2 does not answer:
// UnconfirmedTTL after it was last confirmed at most, and never under Strict.
func (c *core) lasts(since int64) bool {
	return c.settings.Remote.Partition == Available && c.now() < l1.After(since, UnconfirmedTTL)
}

// outdated reports whether a caller that has joined a flight must not be answered
// with its result r, because a tag of r was dropped after r was read and before
// the caller came. watermark is the generation of tags from before the caller joined.
func (c *Cache[K, V]) outdated(r *flight.Result[V], watermark uint64) bool {
	return c.droppedBetween(r.Tags, r.TagWatermark, watermark)
}

// droppedBetween reports whether any of tags may have been dropped, or expired,
// while the generation of tags went from one to another.
func (c *core) droppedBetween(tags []string, from, to uint64) bool {
	if len(tags) == 0 || from >= to {
		return false
	}
	v, _, _ := c.generation.JudgeTags(tags, from)
	return v != ledger.Valid
}

// tagsDropped reports whether e, which is in L1 or on its way there, is absent
// for every purpose because one of its tags was dropped since it was read.
func (c *Cache[K, V]) tagsDropped(e *entry[K, V]) bool {
	t := recordOf(e).traits
	if t == nil {
		return false
	}
	v, _, _ := c.generation.JudgeTags(t.names, t.seen.Load())
	return v == ledger.Invalid
}

// The birth of a value, from which its age is counted, costs most entries no memory:
// it is the end of the entry's fresh life less the length of that life, which is
// Options.TTL shortened by one of a few thousand steps of Jitter. The entry has the
// number of the step in the bits that are free unless Memory.DetectMutation is set.
// Other entries have a record with their birth.

const (
	// jitterSteps is the number of lengths that Jitter makes of a TTL.
	jitterSteps = 1 << 13
	// stepShift is the place of the step in Lives.State: that of expiry.HashMask.
	stepShift = 3
)

// jittered shortens ttl at random by up to the share that Options.Jitter
// names. The TTL stays an upper bound.
func (c *core) jittered(ttl time.Duration) time.Duration {
	if ttl == NoExpiry || c.settings.Jitter == 0 {
		return ttl
	}
	return c.shortened(ttl, rand.Uint32N(jitterSteps))
}

// shortened returns ttl less a number of steps of Jitter.
func (c *core) shortened(ttl time.Duration, step uint32) time.Duration {
	return ttl - time.Duration(c.settings.Jitter*float64(ttl)*float64(step)/jitterSteps)
}

// stepOf returns the number of steps by which a life is shorter than Options.TTL. ok
// is false if it is another life.
func (c *core) stepOf(life time.Duration) (step uint32, ok bool) {
	s := c.settings
	if most := s.Jitter * float64(s.TTL); most > 0 && life < s.TTL {
		step = uint32(min(float64(s.TTL-life)/most*jitterSteps+0.5, jitterSteps-1))
	}
	return step, c.shortened(s.TTL, step) == life
}

// implies reports whether the times of an entry, which is fresh until then and was
// born at some time, imply its birth, and returns the bits for that.
func (c *core) implies(born, fresh int64) (bits uint64, ok bool) {
	if c.settings.Memory.DetectMutation || fresh == l1.Forever && c.settings.TTL != NoExpiry {
		return 0, false
	}
	if c.settings.TTL == NoExpiry {
		return 0, fresh == l1.Forever // the birth of these is not known
	}
	step, ok := c.stepOf(time.Duration(fresh - born))
	return uint64(step) << stepShift, ok
}

// born returns the time at which the value of e was loaded or set; zero if that is not
// known.
func (c *Cache[K, V]) born(e *entry[K, V]) int64 {
	about := &e.Value.Lives
	switch {
	case about.State&expiry.Recorded != 0:
		return recordOf(e).born
	case c.settings.TTL == NoExpiry:
		return 0
	}
	step := uint32(about.State & expiry.HashMask >> stepShift)
	return about.FreshUntil(e.Dead) - int64(c.shortened(c.settings.TTL, step))
}

// timesOf returns the times of e.
func (c *Cache[K, V]) timesOf(e *entry[K, V]) flight.Times {
	return flight.Times{Fresh: e.Value.FreshUntil(e.Dead), Born: c.born(e)}
}

// bornBefore returns about when a value was born that is fresh for left from now on,
// or has been stale for some time if left is negative: as if it had lived as long as
// Options.TTL. Zero stands for a time that is not known.
func (c *core) bornBefore(now int64, left time.Duration) int64 {
	if c.settings.TTL == NoExpiry {
		return 0
	}
	return now - int64(max(0, c.settings.TTL-left))
}
