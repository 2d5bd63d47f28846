package strata

import (
	"errors"
	"log/slog"
	"time"

	"github.com/strata-cache/strata/remote"
)

var errParseKey = errors.New("strata: ParseKey panicked")

// follow is told by the bus what other instances have dropped, one event at a
// time.
func (c *Cache[K, V]) follow(e remote.Event) {
	switch e.State {
	case remote.Connected:
		c.connected()
	case remote.Gap:
		c.counts.gaps.Add(1)
		c.silent()
	}
	for i := range e.Messages {
		c.hear(&e.Messages[i])
	}
}

// hear obeys one message. It is a drop in L2 that has happened: what is read
// from now on is safe, what was read before loses its place in L1.
func (c *Cache[K, V]) hear(m *remote.Message) {
	own := m.From == c.instance
	if own && c.memory.Now() >= c.doubt.Load() {
		return // the call that sent it has done all this, or is about to
	}
	c.counts.heard.Add(1)
	if m.Kind == remote.AllDropped {
		c.disownHeard()
		return
	}
	key, err := c.parseKey(m.Key)
	if err != nil {
		c.counts.unheard.Add(1)
		return // a key that this instance cannot have
	}
	if own && c.flights.Writing(key) {
		return
	}
	c.dropLocal(key, m.Kind == remote.Expired)
}

// connected is told that messages arrive from now on. What was loaded before
// may have been dropped unheard: it is confirmed by L2 when it is next asked
// for.
func (c *Cache[K, V]) connected() {
	if c.silence != nil {
		c.silence.Stop()
		c.silence = nil
	}
	c.heard.Store(true)
	c.disownHeard()
}

// silent is told that messages may be lost until further notice. L1 goes on
// serving what it has, for UnconfirmedTTL at most: a Redis that is gone must
// not take the hits away with it.
func (c *Cache[K, V]) silent() {
	c.heard.Store(false)
	if c.silence == nil {
		c.silence = time.AfterFunc(UnconfirmedTTL, c.disown)
		c.o.Logger.Warn("strata: bus is silent", slog.String("cache", c.o.Name))
	}
}

// parseKey is the user's ParseKey, whose panic must not end the bus.
func (c *Cache[K, V]) parseKey(name string) (key K, err error) {
	err = errParseKey // stands if it panics
	defer c.contain("Remote.ParseKey")
	return c.o.Remote.ParseKey(name)
}

// disownHeard disowns L1, and makes the tier look for what has been dropped
// elsewhere before it brings anything back.
func (c *Cache[K, V]) disownHeard() {
	if c.can.doubt != nil {
		c.can.doubt.Doubt()
	}
	c.disown()
}
