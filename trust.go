package strata

import (
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/internal/trust"
)

// stamps are what an entry is judged by later: the words of trust from before
// its value was read, and its tags.
type stamps struct {
	trust, tagTrust uint64
	tags            []string
}

// judge says what e, which L1 holds for key, is good for, and since when it is
// suspect if it is. One that is trusted gets the newest stamp.
func (c *Cache[K, V]) judge(key K, e *l1.Entry[K, V]) (v trust.Verdict, since int64) {
	if e.Stamp < c.trust.Word() {
		var next uint64
		v, next, since = c.trust.Judge(e.Stamp, func() uint16 { return c.laneOf(key) })
		if v == trust.Trusted {
			c.memory.Swap(e, restamped(e, next))
		}
	}
	if e.Tags == nil {
		return v, since
	}
	tv, ts := c.judgeTags(e.Tags)
	return trust.Both(v, since, tv, ts)
}

// judgeTags says what an entry with tags t is good for as far as they go, and
// since when it is suspect if it is. If it is trusted they get the newest stamp.
func (c *Cache[K, V]) judgeTags(t *l1.Tags) (v trust.Verdict, since int64) {
	if t == nil {
		return trust.Trusted, 0
	}
	v, next, since := c.trust.JudgeTags(t.Names, t.Seen.Load())
	if v == trust.Trusted {
		t.Seen.Store(next)
	}
	return v, since
}

// tagsOf returns the tags of e.
func tagsOf[K comparable, V any](e *l1.Entry[K, V]) []string {
	if e.Tags == nil {
		return nil
	}
	return e.Tags.Names
}

// laneOf returns the lane of key; one that does not exist, so that the entry is
// suspect, if the user's Key panics.
func (c *Cache[K, V]) laneOf(key K) (lane uint16) {
	if c.can.position == nil {
		return 0
	}
	name, err := c.nameOf(key)
	if err != nil {
		return ^lane
	}
	return c.can.position.Lane(name)
}

// restamped returns a copy of e with a newer stamp.
func restamped[K comparable, V any](e *l1.Entry[K, V], stamp uint64) *l1.Entry[K, V] {
	return &l1.Entry[K, V]{
		Key: e.Key, Value: e.Value, Soon: e.Soon, Fresh: e.Fresh, Dead: e.Dead,
		Stamp: stamp, ID: e.ID, Flags: e.Flags, Tags: e.Tags,
	}
}

// expired returns a copy of e that is not fresh any more since some time, for as
// long as e may be served then if its load fails.
func (c *Cache[K, V]) expired(e *l1.Entry[K, V], since int64) *l1.Entry[K, V] {
	s := restamped(e, e.Stamp)
	s.Soon, s.Fresh = 0, 0
	if until := c.onErrorUntil(e); until > 0 {
		s.Dead = min(until, l1.After(since, c.o.Stale.OnError))
	}
	return s
}

// aged returns e, or, if it was expired with others, the entry that L1 has instead
// of it from now on. With everything: as if its TTL had ended then. By a tag: as one
// that was expired by its key.
func (c *Cache[K, V]) aged(key K, e *l1.Entry[K, V]) *l1.Entry[K, V] {
	old, v := e, trust.Trusted
	if e.Stamp < c.trust.Word() {
		var next uint64
		var since int64
		if v, next, since = c.trust.Judge(e.Stamp, func() uint16 { return c.laneOf(key) }); v == trust.Stale {
			e = restamped(e, next)
			e.Fresh = min(e.Fresh, since)
			e.Soon, e.Dead = min(e.Soon, e.Fresh), min(e.Dead, l1.After(since, c.o.Stale.window()))
		}
	}
	if e.Tags != nil && v <= trust.Stale {
		if v, next, since := c.trust.JudgeTags(e.Tags.Names, e.Tags.Seen.Load()); v == trust.Stale {
			e = c.expired(e, since)
			e.Tags = &l1.Tags{Names: e.Tags.Names} // who still has old judges it by its own
			e.Tags.Seen.Store(next)
		}
	}
	if e != old {
		c.memory.Swap(old, e)
	}
	return e
}

// lasts reports whether a suspect entry may be served while L2 does not answer:
// UnconfirmedTTL after it was last confirmed at most, and never under Strict.
func (c *Cache[K, V]) lasts(since int64) bool {
	return c.o.Remote.Partition == Available && c.memory.Now() < l1.After(since, UnconfirmedTTL)
}

// disown makes every entry in L1 absent, and what flights that run now bring.
// The word is raised first: a flight that is registered in between has the new
// one, and loses nothing but its right to store.
func (c *Cache[K, V]) disown() {
	c.trust.Disown()
	c.flights.FenceAll()
}
