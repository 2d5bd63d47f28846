package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/strata-cache/strata/cmd/strata/embedded"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// l2 is the tier and bus that instances share, or nil for none.
type l2 struct {
	name  string
	tier  remote.Tier
	bus   remote.Bus
	close func()
	// memoryTTL caps the lives in the memory of an instance. It is set for a store
	// without a bus: no message tells the instance of changes by others.
	memoryTTL time.Duration
}

// withoutBus is the memoryTTL of a store without a bus.
const withoutBus = 2 * time.Second

// opener connects to a store.
type opener func(ctx context.Context) (*l2, error)

// parseL2 checks a flag: "embedded", "none", or a URL. The store is opened later.
func parseL2(flag string) (opener, error) {
	scheme, _, isURL := strings.Cut(flag, "://")
	switch {
	case flag == "none":
		return func(context.Context) (*l2, error) { return &l2{name: "none", close: func() {}}, nil }, nil
	case flag == "embedded":
		return embeddedL2, nil
	case isURL && (scheme == "redis" || scheme == "rediss" || scheme == "unix"):
		return parseRedis(flag, "Redis at ")
	case isURL && (scheme == "memcached" || scheme == "memcacheds"):
		return parseMemcached(flag)
	}
	return nil, errors.New("want embedded, none, redis://HOST:PORT or memcached://HOST:PORT,HOST:PORT")
}

// parseRedis returns the opener of a Redis. It appends the address to the name.
func parseRedis(rawURL, name string) (opener, error) {
	o, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	client, err := redis.New(o) // opens no connection yet
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (*l2, error) {
		if err := answers(ctx, client.Ping); err != nil {
			client.Close()
			return nil, fmt.Errorf("--l2: %s: %w", o.Addr, err)
		}
		return &l2{
			name: name + o.Addr, tier: redis.NewTier(client), bus: redis.NewBus(client),
			close: func() { client.Close() },
		}, nil
	}, nil
}

// parseMemcached returns the opener of a memcached, or of a fleet of them.
func parseMemcached(rawURL string) (opener, error) {
	o, err := memcached.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	client, err := memcached.New(o) // opens no connection yet
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (*l2, error) {
		servers := strings.Join(o.Servers, ", ")
		if err := answers(ctx, func(ctx context.Context) error { return holdsEntries(ctx, client) }); err != nil {
			client.Close()
			return nil, fmt.Errorf("--l2: %s: %w", servers, err)
		}
		return &l2{
			name: "memcached at " + servers, tier: memcached.NewTier(client), memoryTTL: withoutBus,
			close: func() { client.Close() },
		}, nil
	}, nil
}

// holdsEntries returns an error unless all servers answer and have the commands of a
// tier.
func holdsEntries(ctx context.Context, client *memcached.Client) error {
	able, err := client.Abilities(ctx)
	if err == nil && !able.Meta {
		err = memcached.ErrClassic
	}
	return err
}

// answers waits up to five seconds for a server.
func answers(ctx context.Context, ping func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return ping(ctx)
}

// facts describe the store.
func (l *l2) facts() facts {
	f := facts{{"L2", l.name}}
	if l.memoryTTL > 0 {
		f = append(f, [2]string{"bus", "none with memcached: changes by other instances show within " + seconds(l.memoryTTL) + ", since L1 keeps no entry longer"})
	}
	return f
}

// embeddedL2 runs a server inside this process and connects to it over
// loopback.
func embeddedL2(ctx context.Context) (*l2, error) {
	addr, stop, err := embedded.Start()
	if err != nil {
		return nil, fmt.Errorf("--l2: %w", err)
	}
	var l *l2
	open, err := parseRedis("redis://"+addr, "embedded, slower than a real Redis, on ")
	if err == nil {
		l, err = open(ctx)
	}
	if err != nil {
		stop()
		return nil, err
	}
	closeClient := l.close
	l.close = func() {
		closeClient()
		stop()
	}
	return l, nil
}
