package strata

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/strata-cache/strata/internal/envelope"
	"github.com/strata-cache/strata/internal/link"
	"github.com/strata-cache/strata/remote"
)

var errParseKey = errors.New("strata: ParseKey panicked")

// startLink begins to follow the bus, and asks the tier what weakens it.
func (c *Cache[K, V]) startLink() {
	if c.can.probe != nil {
		c.probes.Go(func() { c.probe(c.open) })
	}
	if c.bus == nil {
		return
	}
	o := link.Options{
		Name: c.o.Name, Instance: c.instance, Bus: c.bus, Logger: c.o.Logger, Trust: &c.trust,
		Confirms: c.tier != nil, Part: c.flights.FenceAll, Obey: c.obey, Mine: c.mine, DropAll: c.dropAllLocal,
		Now: c.memory.Now, Hits: func() uint64 { return c.memory.Stats().Hits },
		Patience: UnconfirmedTTL, Timeout: c.o.Remote.Timeout,
	}
	if c.o.Remote.Partition == Strict {
		o.Strict, o.Patience = true, link.SilentAfter
	}
	if c.can.position != nil {
		o.Position = c.position
		if c.can.changes != nil {
			o.Changes = c.can.changes.Changes
		}
	}
	if c.can.doubt != nil {
		o.Doubt = c.can.doubt.Doubt
	}
	c.link = link.Start(o)
}

// stopLink ends what startLink has begun, when c.open has ended.
func (c *Cache[K, V]) stopLink() {
	if c.link != nil {
		c.link.Stop()
	}
	c.probes.Wait()
}

// position asks the tier how far drops have come. That it does not answer is
// seen, and counted, when somebody wants a value.
func (c *Cache[K, V]) position(ctx context.Context) (remote.Position, error) {
	ctx, cancel := remote.WithTimeout(ctx, c.o.Remote.Timeout)
	defer cancel()
	p, err := c.can.position.Position(ctx)
	if err == nil {
		c.reported(nil, false)
	}
	return p, err
}

// obey does what one message says. It is a drop in L2 that has happened: what
// is read from now on is safe, what was read before loses its place in L1.
func (c *Cache[K, V]) obey(m *remote.Message) {
	if m.Kind == remote.Ended || c.mine(m) {
		c.waits.end(m.Key)
		return
	}
	c.counts.heard.Add(1)
	switch m.Kind {
	case remote.Dropped, remote.Expired:
		c.obeyKey(m)
	case remote.TagDropped, remote.TagExpired:
		if len(m.Key) > envelope.MaxTag {
			return // no entry can carry it
		}
		c.dropTagsLocal([]string{m.Key}, m.Kind == remote.TagExpired)
	}
}

// mine reports whether m is from a call here that has done what m says, or is
// about to: one that ended without an answer has not.
func (c *Cache[K, V]) mine(m *remote.Message) bool {
	return m.From == c.instance && c.memory.Now() >= c.doubt.Load()
}

// obeyKey obeys a drop of one key.
func (c *Cache[K, V]) obeyKey(m *remote.Message) {
	defer c.waits.end(m.Key)
	if c.tooLong(len(m.Key)) {
		c.counts.unheard.Add(1)
		return // no entry here can have such a name
	}
	key, err := c.parseKey(m.Key)
	if err != nil {
		c.counts.unheard.Add(1)
		return // a key that this instance cannot have
	}
	if m.From == c.instance && c.flights.Writing(key) {
		return
	}
	if m.Hold > 0 {
		c.flights.Hold(key, min(m.Hold, MaxHold))
	}
	c.dropLocal(key, m.Kind == remote.Expired)
}

// parseKey is the user's ParseKey, whose panic must not end the bus.
func (c *Cache[K, V]) parseKey(name string) (key K, err error) {
	err = errParseKey // stands if it panics
	defer c.contain("Remote.ParseKey")
	return c.o.Remote.ParseKey(name)
}

// The pauses between attempts to ask the tier what weakens it.
const (
	firstProbe = 50 * time.Millisecond
	lastProbe  = time.Second
)

// probe asks the tier, once it answers, for what weakens the cache's promises.
func (c *Cache[K, V]) probe(ctx context.Context) {
	for pause := firstProbe; ; pause = min(2*pause, lastProbe) {
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
