package strata

import (
	"context"

	"github.com/strata-cache/strata/internal/flight"
)

// refresh loads key in the background, unless that is under way, has failed a
// moment ago, or too much is.
func (c *Cache[K, V]) refresh(ctx context.Context, key K, load Loader[K, V], o call) {
	if load == nil {
		load = c.o.Loader
	}
	if _, running := c.flights.Running(key); running || load == nil || c.throttled(key) != nil {
		return
	}
	o.refresh, o.info = true, nil
	ctx = flight.Apart(context.WithoutCancel(ctx)) // no load waits for it
	fly := func(found func()) {
		// From then on its flight says that it runs, unless that is obsolete.
		o.registered = found
		_, _ = c.fly(ctx, key, flight.Load, load, o)
	}
	if !c.background.Run(key, fly) {
		c.counts.refreshesDropped.Add(1)
	}
}
