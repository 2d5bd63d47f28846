//go:build unix

package test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
)

// sentinelInstance is a cache that reaches its primary by sentinels. Its loader returns the version
// that the origin has.
type sentinelInstance struct {
	*strata.Cache[string, int64]
	load strata.Loader[string, int64]
}

// sentinelPair is two instances with one origin.
type sentinelPair struct {
	*testing.T
	w      *servers.Watched
	origin *atomic.Int64
	a, b   sentinelInstance
	direct *redis.Client
}

func startSentinelPair(t *testing.T, replicas int) *sentinelPair {
	t.Helper()
	p := &sentinelPair{T: t, w: servers.StartWatched(t, replicas), origin: &atomic.Int64{}}
	p.a, p.b = p.instance(), p.instance()
	p.direct = p.w.Client(t)
	p.connected()
	return p
}

func (p *sentinelPair) instance() sentinelInstance {
	p.Helper()
	c := p.w.Client(p.T)
	i := sentinelInstance{load: func(context.Context, string) (int64, error) { return p.origin.Load(), nil }}
	o := strata.Options[string, int64]{Name: "sentinel", TTL: time.Hour, Loader: i.load}
	o.Remote.Tier, o.Remote.Bus, o.Remote.BreakFor = redis.NewTier(c), redis.NewBus(c), 500*time.Millisecond
	cache, err := strata.New(o)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { cache.Close(context.Background()) })
	i.Cache = cache
	return i
}

// until waits until f returns true.
func (p *sentinelPair) until(what string, f func() bool) (took time.Duration) {
	p.Helper()
	for begun := time.Now(); ; <-time.After(10 * time.Millisecond) {
		if f() {
			return time.Since(begun)
		}
		if time.Since(begun) > 40*time.Second {
			p.Fatalf("waited in vain until %s", what)
		}
	}
}

func (p *sentinelPair) connected() time.Duration {
	p.Helper()
	return p.until("both are connected", func() bool { return p.a.Stats().Connected && p.b.Stats().Connected })
}

// writes waits until writes are taken, and says after how long.
func (p *sentinelPair) writes(what string) {
	p.Helper()
	var last error
	took := p.until("writes are taken", func() bool {
		ctx, cancel := context.WithTimeout(p.Context(), time.Second)
		defer cancel()
		err := p.direct.Do(ctx, "SET", "direct", "v").Err()
		if err != nil {
			last = err
		}
		return err == nil
	})
	p.Logf("%s: writes go on after %v (%v)", what, took.Round(time.Millisecond), last)
}

// get reads a key.
func (p *sentinelPair) get(i sentinelInstance, key string) int64 {
	p.Helper()
	v, err := i.GetOrLoad(p.Context(), key, i.load)
	if err != nil {
		p.Error(err)
	}
	return v
}

// change writes a version to the origin and drops keys, which may be pending.
func (p *sentinelPair) change(keys ...string) int64 {
	p.Helper()
	v := p.origin.Add(1)
	var failed *strata.RemoteError
	if err := p.a.Invalidate(p.Context(), keys...); err != nil && !errors.As(err, &failed) {
		p.Error(err)
	}
	return v
}

// agree checks that both instances see a change, in both directions.
func (p *sentinelPair) agree() {
	p.Helper()
	p.connected()
	p.until("no drop is pending", func() bool { return p.a.Stats().Pending+p.b.Stats().Pending == 0 })
	for i := range 5 {
		key := fmt.Sprint("after", i)
		p.get(p.a, key)
		p.get(p.b, key)
		v := p.change(key)
		if got := p.get(p.a, key); got != v {
			p.Errorf("the dropper reads %d; want %d", got, v)
		}
		p.until("the other has the change", func() bool { return p.get(p.b, key) == v })
	}
}

func TestSentinelPrimaryIsKilled(t *testing.T) {
	t.Parallel() // it waits most of the time
	p := startSentinelPair(t, 1)
	const keys = 50
	name := func(i int) string { return fmt.Sprint("k", i) }
	for i := range keys {
		p.get(p.a, name(i))
	}
	p.until("the replica has the values", func() bool {
		for i := range keys { // a store that was too slow for L2 is not repeated by a hit of L1
			_, _ = p.a.GetOrLoad(p.Context(), name(i), p.a.load, strata.NoMemory())
		}
		return p.size(1) >= keys
	})
	p.w.Deafen(0) // drops from here on are acknowledged, and lost
	for i := range keys {
		p.change(name(i))
	}
	p.w.Servers[0].Kill()
	p.writes("primary killed")
	fresh := p.instance() // it has nothing in L1
	for i := range keys {
		for _, c := range []sentinelInstance{p.a, p.b, fresh} {
			if got := p.get(c, name(i)); got < int64(i+1) {
				t.Fatalf("%s: version %d, which was dropped before the failover", name(i), got)
			}
		}
	}
	p.agree()
	p.w.Servers[0].Restart() // empty, and a primary by its own account
	p.agree()
}

func (p *sentinelPair) raw(i int) *redis.Client { return p.w.Servers[i].Client(p.T) }

func (p *sentinelPair) size(i int) int {
	p.Helper()
	n, err := p.raw(i).Do(p.Context(), "DBSIZE").Int()
	if err != nil {
		p.Fatal(err)
	}
	return int(n)
}

// roleOf is the role of a server by its own account, empty if it does not answer.
func roleOf(t *testing.T, c *redis.Client) string {
	for _, r := range c.Do(t.Context(), "ROLE").All() {
		role, _ := r.String() // empty, too
		return role
	}
	return ""
}

// mustText is a reply as text.
func mustText(t *testing.T, c *redis.Client, args ...any) string {
	t.Helper()
	s, err := c.Do(t.Context(), args...).String()
	if err != nil && !errors.Is(err, redis.ErrNil) {
		t.Fatal(err)
	}
	return s
}

// TestSentinelPrimaryIsPausedAndComesBack: it takes itself for the primary then, for
// seconds, and nothing reads or writes there.
func TestSentinelPrimaryIsPausedAndComesBack(t *testing.T) {
	t.Parallel() // it waits most of the time
	p := startSentinelPair(t, 1)
	old := p.raw(0)
	mustDo(t, p.direct, "SET", "who", "old")
	p.get(p.a, "k")
	p.w.Servers[0].Stop()
	p.writes("primary paused")
	mustDo(t, p.direct, "SET", "who", "new")
	v := p.change("k")
	p.until("the change is done", func() bool { return p.a.Stats().Pending == 0 })
	p.w.Servers[0].Continue()
	asMaster := 0
	for begun := time.Now(); time.Since(begun) < time.Second; {
		role := roleOf(t, old)
		if role == "master" {
			asMaster++
		}
		if who := mustText(t, p.direct, "GET", "who"); who != "new" {
			t.Fatalf("a read was answered by the %s primary", who)
		}
		if err := p.direct.Do(t.Context(), "INCR", "count").Err(); err != nil {
			t.Fatal(err)
		}
		if got := p.get(p.b, "k"); got != v {
			t.Fatalf("version %d; want %d", got, v)
		}
		if role == "master" && mustText(t, old, "GET", "count") != "" {
			t.Fatal("a write went to the old primary")
		}
	}
	t.Logf("the old primary took itself for one %d times", asMaster)
	p.agree()
}

func TestSentinelPrimaryIsDemoted(t *testing.T) {
	t.Parallel() // it waits most of the time
	p := startSentinelPair(t, 1)
	p.get(p.a, "k")
	if err := p.w.Failover(); err != nil {
		t.Fatal(err)
	}
	p.until("the other is the primary", func() bool { return p.w.Primary(1) == 1 && p.w.Primary(2) == 1 })
	p.writes("primary demoted")
	v := p.change("k")
	p.until("the other has the change", func() bool { return p.get(p.b, "k") == v })
	p.agree()
}

// TestSentinelIsDown: the first one is silent, then it is killed, and then the
// primary.
func TestSentinelIsDown(t *testing.T) {
	t.Parallel() // it waits most of the time
	p := startSentinelPair(t, 1)
	p.w.StopSentinel(0)
	p.agree()
	for range 2 { // they find it silent, and dead
		if got := p.get(p.instance(), "after0"); got == 0 {
			t.Error("nothing was read")
		}
		p.w.KillSentinel(0)
	}
	p.w.Servers[0].Kill()
	p.writes("primary and a sentinel killed")
	p.agree()
}
