package strata

import (
	"context"
	"errors"
	"log/slog"

	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/ledger"
	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/remote"
)

var errParseKey = errors.New("strata: ParseKey, or a method of the key, panicked")

// startLink begins to follow the bus, probes the tier, and keeps hot entries fresh.
func (c *Cache[K, V]) startLink() {
	if c.o.RefreshEvery > 0 {
		c.probes.Go(c.keepHot)
	}
	c.asker.Explain, c.asker.Usable = c.explainHere, func(name string) bool { return !c.tooLong(len(name)) }
	c.startCore(ledger.Options{
		FenceAll: c.flights.FenceAll, Apply: c.apply, DropAll: c.heardAll,
		Hits: func() uint64 { // hits of stale values included
			return c.counts.lookups.Read(c.near.Values.Stats).Hits + c.counts.remembered.Load()
		},
		Seen: c.asker.Seen, Joined: c.asker.Announce,
	})
}

// startCore is startLink with the options of the link that depend on types.
func (c *core) startCore(o ledger.Options) {
	if c.l2.HasTier() {
		c.probes.Go(func() { c.l2.Probe(c.open) })
	}
	if !c.l2.HasBus() {
		return
	}
	c.asker.Instance, c.asker.Open, c.asker.Go = c.l2.Instance(), c.open, c.probes.Go
	c.asker.Publish = func(k remote.Kind, key string) { c.publish(c.open, k, key) }
	s := c.settings
	c.asker.Program, c.asker.Stranger = observe.MainModule(), func(other string) {
		s.Logger.Warn("strata: another program has a cache of this name here: they share entries, unless each sets Options.Service",
			slog.String("cache", s.Name), slog.String("program", c.asker.Program), slog.String("other", other))
	}
	o.Name, o.Space, o.Instance, o.Bus, o.Logger, o.Generation = s.Name, c.l2.Space(), c.l2.Instance(), s.Remote.Bus, s.Logger, &c.generation
	o.Confirms, o.Mine, o.Now, o.Patience, o.Timeout = c.l2.HasTier(), c.l2.Mine, c.now, UnconfirmedTTL, s.Remote.Timeout
	if s.Remote.Strict {
		o.Strict, o.Patience = true, ledger.SilentAfter
	}
	if c.l2.HasPositions() {
		o.Position, o.Changes = c.l2.Position, c.l2.Changes()
	}
	o.Recheck = c.l2.Recheck
	c.link = ledger.Start(o)
}

// publish sends a message, other than one about a drop, to all instances. It may be lost.
func (c *core) publish(ctx context.Context, k remote.Kind, key string) {
	ctx, cancel := c.l2.Bound(ctx)
	defer cancel()
	_ = c.settings.Remote.Bus.Publish(ctx, []remote.Message{{Name: c.l2.Space(), Kind: k, From: c.l2.Instance(), Key: key}})
}

// stopLink ends the work that startLink has begun, after the end of c.open; see ledger.Link.Stop.
func (c *core) stopLink(ctx context.Context) (err error) {
	if c.link != nil {
		if c.link.Connected() { // else this would wait for an absent bus
			c.once.Do(func() { c.publish(context.WithoutCancel(c.open), remote.Answered, observe.Leave) })
		}
		err = c.link.Stop(ctx)
	}
	c.probes.Wait()
	return err
}

// apply applies one message, about a drop that L2 has carried out: values read from now on
// are newer than the drop, and entries read before it are removed from L1.
func (c *Cache[K, V]) apply(m *remote.Message) {
	if m.Kind == remote.Asked || m.Kind == remote.Answered {
		c.asker.Receive(m)
		return
	}
	if m.Kind == remote.Ended || c.l2.Mine(m) {
		c.l2.LeaseEnded(m.Key)
		return
	}
	c.counts.heard.Add(1)
	c.journal.Drops(observe.KeysHeard, false, 1, c.now())
	switch m.Kind {
	case remote.Dropped, remote.Expired:
		c.applyKey(m)
	case remote.TagDropped, remote.TagExpired:
		if len(m.Key) > envelope.MaxTag {
			c.counts.unreadable.Add(1)
			return // no entry can carry it
		}
		c.dropTagsLocal([]string{m.Key}, m.Kind == remote.TagExpired)
	}
}

// heardAll applies a drop of everything by another instance.
func (c *Cache[K, V]) heardAll(soft bool) {
	c.journal.Drops(observe.AllHeard, soft, 1, c.now())
	c.dropAllLocal(soft)
}

// applyKey applies a drop of one key.
func (c *Cache[K, V]) applyKey(m *remote.Message) {
	defer c.l2.LeaseEnded(m.Key)
	if c.tooLong(len(m.Key)) {
		c.counts.unreadable.Add(1)
		return // no entry here can have such a name
	}
	key, err := c.parseKey(m.Key)
	if err != nil {
		c.counts.unreadable.Add(1)
		return // this instance cannot have such a key
	}
	if m.From == c.l2.Instance() && c.flights.Writing(key) {
		return
	}
	soft := m.Kind == remote.Expired
	if m.Hold > 0 && c.flights.Hold(key, min(m.Hold, maxHold)) {
		soft = false // the drop that began the hold is news, too, and it was hard
	}
	c.dropLocal(key, soft, c.now())
}

// parseKey calls the program's ParseKey, or a method of the key. A panic must not end
// the bus.
func (c *Cache[K, V]) parseKey(name string) (key K, err error) {
	err = errParseKey // stands if it panics
	defer c.contain("Remote.ParseKey")
	return c.names.Parse(name)
}
