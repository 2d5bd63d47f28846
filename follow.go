package strata

import (
	"errors"
	"strconv"

	"github.com/strata-cache/strata/internal/trust"
	"github.com/strata-cache/strata/remote"
)

var errParseKey = errors.New("strata: ParseKey panicked")

// hear obeys one message. It is a drop in L2 that has happened: what is read
// from now on is safe, what was read before loses its place in L1.
func (c *Cache[K, V]) hear(m *remote.Message) {
	switch m.Kind {
	case remote.Beat:
		c.hearBeat(m)
		return
	case remote.Ended:
		c.waits.end(m.Key)
		return
	}
	if c.trust.Hear(m, c.memory.Now()) {
		c.counts.missed.Add(1)
		c.flights.FenceAll()
	}
	own := m.From == c.instance
	if own && c.memory.Now() >= c.doubt.Load() {
		c.waits.end(m.Key)
		return // the call that sent it has done all this, or is about to
	}
	c.counts.heard.Add(1)
	switch m.Kind {
	case remote.Dropped, remote.Expired:
		c.hearKey(m, own)
	case remote.TagDropped, remote.TagExpired:
		c.dropTagsLocal([]string{m.Key}, m.Kind == remote.TagExpired)
	case remote.AllDropped, remote.AllExpired:
		c.hearAll(m)
	}
}

// hearKey obeys a drop of one key.
func (c *Cache[K, V]) hearKey(m *remote.Message, own bool) {
	key, err := c.parseKey(m.Key)
	if err != nil {
		c.counts.unheard.Add(1)
		return // a key that this instance cannot have
	}
	if own && c.flights.Writing(key) {
		return
	}
	if m.Hold > 0 {
		c.flights.Hold(key, m.Hold)
	}
	c.dropLocal(key, m.Kind == remote.Expired)
	c.waits.end(m.Key)
}

// hearAll obeys a drop of everything, at once unless there are too many.
func (c *Cache[K, V]) hearAll(m *remote.Message) {
	l := &c.link
	now := c.memory.Now()
	at := c.floods.Admit(m.From, now)
	if at > now {
		l.mu.Lock()
		if m.Kind == remote.AllDropped {
			l.obeyAt = at
		} else {
			l.expireAt = at
		}
		l.mu.Unlock()
		l.wake()
		return
	}
	c.dropAllLocal(m.Kind == remote.AllExpired)
}

// obeyLate obeys drops of everything that were put off.
func (c *Cache[K, V]) obeyLate(now int64) {
	l := &c.link
	l.mu.Lock()
	drop, expire := l.obeyAt != 0 && now >= l.obeyAt, l.expireAt != 0 && now >= l.expireAt
	if drop {
		l.obeyAt = 0
	}
	if expire {
		l.expireAt = 0
	}
	l.mu.Unlock()
	if drop {
		c.dropAllLocal(false)
	}
	if expire {
		c.dropAllLocal(true)
	}
}

// hearBeat takes a sign of life, and looks into it if it comes from a state of
// the tier that this instance has not heard of.
func (c *Cache[K, V]) hearBeat(m *remote.Message) {
	l := &c.link
	digest, err := strconv.ParseUint(m.Key, 16, 64)
	strange := err == nil && c.can.position != nil && !c.trust.Had(digest)
	l.mu.Lock()
	l.beatAt = c.memory.Now()
	l.verify = l.verify || strange
	l.mu.Unlock()
	if strange {
		l.wake()
	}
}

func digestText(p remote.Position) string { return strconv.FormatUint(trust.Digest(p), 16) }

// parseKey is the user's ParseKey, whose panic must not end the bus.
func (c *Cache[K, V]) parseKey(name string) (key K, err error) {
	err = errParseKey // stands if it panics
	defer c.contain("Remote.ParseKey")
	return c.o.Remote.ParseKey(name)
}
