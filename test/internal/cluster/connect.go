//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/redis"
)

// alone reports whether a worker has no bus.
func (c Config) alone() bool { return len(c.Memcached) > 0 && c.Bus == "" }

// connect makes L2 and the bus of a worker.
func (w *worker) connect(o *strata.Remote[string, string]) error {
	if len(w.c.Memcached) > 0 {
		return w.connectMemcached(o)
	}
	tier, err := w.redis(w.c.Tier)
	if err != nil {
		return err
	}
	bus, err := w.redis(w.c.Bus)
	if err != nil {
		return err
	}
	o.Tier, o.Bus, err = broken(w.c.Break, redis.NewTier(tier), redis.NewBus(bus))
	return err
}

// connectMemcached makes L2 of memcached, and a bus of Redis if there is one.
func (w *worker) connectMemcached(o *strata.Remote[string, string]) error {
	if w.c.Break != "" {
		return fmt.Errorf("no break of memcached: %s", w.c.Break)
	}
	var d net.Dialer
	c, err := memcached.New(memcached.Options{
		Servers: w.c.Memcached,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			at := slices.Index(w.c.Memcached, addr)
			if at < 0 {
				return nil, errors.New("no such server: " + addr)
			}
			return d.DialContext(ctx, network, w.c.Through[at])
		},
	})
	if err != nil {
		return err
	}
	w.closes = append(w.closes, c.Close)
	o.Tier = memcached.NewTier(c)
	if w.c.alone() {
		return nil
	}
	bus, err := w.redis(w.c.Bus)
	if err == nil {
		o.Bus = redis.NewBus(bus)
	}
	return err
}

// server returns the options of a client for Redis at addr.
func (c Config) server(addr string) redis.Options {
	switch {
	case len(c.Sentinels) > 0:
		return redis.Options{Sentinel: redis.Sentinel{Primary: servers.PrimaryName}, Addr: c.Sentinels[0], Addrs: c.Sentinels[1:]}
	case len(c.Nodes) > 0:
		return redis.Options{Cluster: true, Addr: c.Nodes[0], Addrs: c.Nodes[1:]}
	}
	return redis.Options{Addr: addr}
}

func (w *worker) redis(addr string) (*redis.Client, error) {
	c, err := redis.New(w.c.server(addr))
	if err == nil {
		w.closes = append(w.closes, c.Close)
	}
	return c, err
}
