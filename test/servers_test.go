//go:build unix

package test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
)

func ping(t testing.TB, c *redis.Client, d time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return c.Ping(ctx)
}

func TestRedisPausesDiesAndRestartsEmpty(t *testing.T) {
	r := servers.StartRedis(t)
	c := r.Client(t)
	if err := c.Do(t.Context(), "SET", "k", "v").Err(); err != nil {
		t.Fatal(err)
	}
	r.Stop()
	if ping(t, c, 50*time.Millisecond) == nil {
		t.Error("a paused server answered")
	}
	r.Continue()
	if err := ping(t, r.Client(t), 10*time.Second); err != nil {
		t.Errorf("a continued server did not answer: %v", err)
	}
	r.Kill()
	if ping(t, r.Client(t), time.Second) == nil {
		t.Error("a killed server answered")
	}
	addr := r.Addr
	r.Restart()
	if n, err := r.Client(t, patiently).Do(t.Context(), "EXISTS", "k").Int(); err != nil || n != 0 || r.Addr != addr {
		t.Errorf("after a restart at %s: EXISTS = %d, %v; want 0 at %s", r.Addr, n, err, addr)
	}
}

func TestRedisTakesArgumentsAndListensOnItsSocket(t *testing.T) {
	r := servers.StartRedis(t, "--maxmemory", "7mb")
	c := r.Client(t, func(o *redis.Options) { o.Network, o.Addr = "unix", r.Socket })
	var all []string
	for _, reply := range c.Do(t.Context(), "CONFIG", "GET", "maxmemory").All() {
		s, err := reply.String()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if got := strings.Join(all, " "); !strings.HasSuffix(got, "7340032") {
		t.Errorf("CONFIG GET maxmemory = %q", got)
	}
}

func TestLineCountsAndCuts(t *testing.T) {
	r := servers.StartRedis(t)
	line := &servers.Line{}
	c := r.Client(t, func(o *redis.Options) { o.DialContext = line.DialContext })
	if err := ping(t, c, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	sent, received := line.Sent.Load(), line.Received.Load()
	if err := c.Do(t.Context(), "ECHO", strings.Repeat("x", 1000)).Err(); err != nil {
		t.Fatal(err)
	}
	if s, r := line.Sent.Load()-sent, line.Received.Load()-received; s < 1000 || s > 1100 || r < 1000 || r > 1100 {
		t.Errorf("%d bytes sent and %d received for an echo of 1000", s, r)
	}
	line.Cut()
	if ping(t, c, time.Second) == nil {
		t.Error("a cut line carried a ping")
	}
	line.Join()
	for deadline := time.Now().Add(10 * time.Second); ping(t, c, time.Second) != nil; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a joined line carries nothing")
		}
	}
}
