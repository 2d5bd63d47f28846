package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// l2 is the tier and bus that instances share, or nil for none.
type l2 struct {
	name  string
	tier  remote.Tier
	bus   remote.Bus
	close func()
}

// openL2 opens the store of a flag: "embedded", "none" or a Redis URL.
func openL2(ctx context.Context, flag string) (*l2, error) {
	switch {
	case flag == "none":
		return &l2{name: "none", close: func() {}}, nil
	case flag == "embedded":
		return embeddedL2(ctx)
	case strings.Contains(flag, "://"):
		return dialL2(ctx, flag, "Redis at ")
	}
	return nil, usageError{errors.New("--l2: want embedded, none or redis://HOST:PORT")}
}

// dialL2 connects to a server and checks that it answers. It appends the
// address to the name.
func dialL2(ctx context.Context, rawURL, name string) (*l2, error) {
	o, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, usageError{fmt.Errorf("--l2: %w", err)}
	}
	client, err := redis.New(o)
	if err != nil {
		return nil, usageError{fmt.Errorf("--l2: %w", err)}
	}
	closeClient := func() { client.Close() }
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		closeClient()
		return nil, fmt.Errorf("--l2: %s: %w", o.Addr, err)
	}
	return &l2{name: name + o.Addr, tier: redis.NewTier(client), bus: redis.NewBus(client), close: closeClient}, nil
}

// embeddedL2 runs a server inside this process and connects to it over
// loopback.
func embeddedL2(ctx context.Context) (*l2, error) {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("--l2: %w", err)
	}
	stopClock := runClock(server)
	stop := func() {
		stopClock()
		server.Close()
	}
	l, err := dialL2(ctx, "redis://"+server.Addr(), "embedded in this process (slower than a real Redis), on ")
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

// runClock advances the clock of the embedded server, so that keys expire,
// until the returned function is called. The server does not advance its clock
// itself.
func runClock(server *miniredis.Miniredis) (stop func()) {
	done := make(chan struct{})
	var clock sync.WaitGroup
	clock.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		last := time.Now()
		for {
			select {
			case now := <-tick.C:
				server.FastForward(now.Sub(last))
				last = now
			case <-done:
				return
			}
		}
	})
	return func() { close(done); clock.Wait() }
}
