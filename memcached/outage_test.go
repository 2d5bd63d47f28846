package memcached_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// outage is a cache over a fleet in which one server fails.
type outage struct {
	*strata.Cache[string, string]
	t     *testing.T
	q     *squad
	tier  *memcached.Tier // as the cache has it
	log   *bytes.Buffer
	loads atomic.Int64
}

// over returns a cache without L1 over a fleet. change alters its options.
func over(t *testing.T, q *squad, c *memcached.Client, change func(*strata.Options[string, string])) *outage {
	t.Helper()
	x := &outage{t: t, q: q, log: &bytes.Buffer{}}
	x.tier = memcached.NewTier(c).Bind(remote.Space{Name: "strata-bench"}).(*memcached.Tier)
	o := strata.Options[string, string]{
		Name: "strata-bench", TTL: time.Hour, Logger: slog.New(slog.NewTextHandler(x.log, nil)),
		Loader: func(context.Context, string) (string, error) { x.loads.Add(1); return "v", nil },
		Memory: strata.Memory[string, string]{Off: true},
		Remote: strata.Remote[string, string]{Tier: memcached.NewTier(c)},
	}
	if change != nil {
		change(&o)
	}
	var err error
	if x.Cache, err = strata.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close(context.Background()) })
	return x
}

// keys returns n keys of the servers for which is reports true.
func (x *outage) keys(n int, is func(server int) bool) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		key := fmt.Sprint("key", i)
		if is(slices.Index(x.q.servers, x.tier.ServerOf(key))) {
			keys = append(keys, key)
		}
	}
	return keys
}

func (x *outage) set(keys ...string) {
	x.t.Helper()
	for _, key := range keys {
		if err := x.Set(x.t.Context(), key, key); err != nil {
			x.t.Fatal(err)
		}
	}
}

// failures are ways in which a server fails, and is well again.
var failures = map[string]struct{ begin, end func(*member) }{ // read-only
	"gone":   {func(m *member) { m.Stop() }, func(m *member) { m.Start() }},
	"paused": {(*member).pause, (*member).resume},
	"slow":   {func(m *member) { m.delay.Store(int64(300 * time.Millisecond)) }, func(m *member) { m.delay.Store(0) }},
	"empty":  {func(m *member) { m.Stop() }, func(m *member) { m.Restart() }},
}

// TestServerThatFailsCostsItsOwnKeysOnly has each of three servers fail in each way: calls
// for the keys of the others are confirmed, and wait at most once, for a quarter of a call's
// time; the cache names the failing server, and no other.
func TestServerThatFailsCostsItsOwnKeysOnly(t *testing.T) {
	for name, f := range failures {
		for server := range 3 {
			t.Run(fmt.Sprint(name, "/", server), func(t *testing.T) {
				three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
					x := over(t, q, c, nil)
					theirs := x.keys(20, func(s int) bool { return s != server })
					lost := x.keys(10, func(s int) bool { return s == server })
					x.set(slices.Concat(theirs, lost)...)
					time.Sleep(5 * time.Second)
					f.begin(q.members[server])
					x.work(theirs, lost, q.servers[server])
					x.names(server)
					f.end(q.members[server])
					for range 30 {
						time.Sleep(time.Second)
						_, _ = x.GetOrLoad(t.Context(), lost[0], nil)
					}
					x.set(lost...)
					if s := x.Stats(); len(s.ServersLeftAlone) > 0 || s.Pending > 0 {
						t.Errorf("afterwards: %v, %d pending", s.ServersLeftAlone, s.Pending)
					}
				})
			})
		}
	}
}

// work makes calls while a server is at fault. The log names the server after the first of them.
func (x *outage) work(theirs, lost []string, fault string) {
	t, waits := x.t, 0
	t.Helper()
	for i := range 200 {
		_, _ = x.GetOrLoad(t.Context(), lost[i%10], nil)
		_ = x.Set(t.Context(), lost[i%10], lost[i%10])
		key, loads := theirs[i%20], x.loads.Load()
		took := elapsed(func() {
			v, err := x.GetOrLoad(t.Context(), key, nil)
			if set, gone := x.Set(t.Context(), key, key), x.Expire(t.Context(), theirs[(i+7)%20]); v == "" || err != nil || set != nil || gone != nil {
				t.Errorf("call %d for a key of %s: %q, %v, %v, %v", i, x.tier.ServerOf(key), v, err, set, gone)
			}
		})
		if took > 0 {
			waits++
		}
		if took > 100*time.Millisecond/4 || waits > 2 {
			t.Errorf("call %d for a key of %s waits %v", i, x.tier.ServerOf(key), took)
		}
		if n := x.loads.Load() - loads; n > 1 {
			t.Errorf("call %d: %d loads", i, n)
		}
		time.Sleep(50 * time.Millisecond) // in a bubble
		if s := x.Stats(); s.BreakerOpen || s.StoringStopped || i > 20 && !slices.Equal(s.ServersLeftAlone, []string{fault}) {
			t.Fatalf("call %d: left alone: %v, %v, without stores: %v", i, s.BreakerOpen, s.ServersLeftAlone, s.ServersWithoutStores)
		}
	}
}

// names checks that the log names a server, and no other.
func (x *outage) names(server int) {
	x.t.Helper()
	text := x.log.String()
	if !strings.Contains(text, "circuit breaker of L2 is open") || !strings.Contains(text, "server="+x.q.servers[server]) {
		x.t.Errorf("the log does not name %s:\n%s", x.q.servers[server], text)
	}
	for i, other := range x.q.servers {
		if i != server && strings.Contains(text, other) {
			x.t.Errorf("the log names %s:\n%s", other, text)
		}
	}
}

// TestBatchesSpareTheKeysOfAServerThatFails reads, sets and drops many keys at once.
func TestBatchesSpareTheKeysOfAServerThatFails(t *testing.T) {
	for server := range 3 {
		three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
			x := over(t, q, c, nil)
			theirs := x.keys(40, func(s int) bool { return s != server })
			lost := x.keys(20, func(s int) bool { return s == server })
			all := slices.Concat(theirs, lost)
			x.set(all...)
			q.members[server].Stop()
			values := map[string]string{}
			for _, key := range all {
				values[key] = "new " + key
			}
			for round := range 20 {
				var re *strata.RemoteError
				if err := x.SetMany(t.Context(), values); !errors.As(err, &re) || re.Pending > len(lost) {
					t.Fatalf("round %d: SetMany: %v", round, err)
				}
				got, err := x.GetMany(t.Context(), all, func(_ context.Context, keys []string) (map[string]string, error) {
					found := map[string]string{}
					for _, key := range keys {
						found[key] = "loaded"
					}
					return found, nil
				})
				if err != nil || len(got) != len(all) {
					t.Fatalf("round %d: GetMany: %d, %v", round, len(got), err)
				}
				for _, key := range all {
					if want := map[bool]string{true: "new " + key, false: "loaded"}[slices.Contains(theirs, key)]; got[key] != want {
						t.Fatalf("round %d: %s is %q", round, key, got[key])
					}
				}
				if err := x.Invalidate(t.Context(), all...); !errors.As(err, &re) || re.Pending != len(lost) {
					t.Fatalf("round %d: Invalidate: %v", round, err)
				}
				for _, key := range theirs {
					if v, ok := x.Get(t.Context(), key); ok {
						t.Fatalf("round %d: %s is %q after its drop", round, key, v)
					}
				}
				time.Sleep(700 * time.Millisecond)
			}
			if s := x.Stats(); !slices.Equal(s.ServersLeftAlone, q.servers[server:server+1]) {
				t.Errorf("left alone: %v", s.ServersLeftAlone)
			}
		})
	}
}

// TestDropOfEverythingBlocksTheKeysOfAServerThatMissedIt: the others are used at once, and
// are dropped once.
func TestDropOfEverythingBlocksTheKeysOfAServerThatMissedIt(t *testing.T) {
	for name, f := range failures {
		if name == "slow" {
			continue // it is told
		}
		for server := range 3 {
			t.Run(fmt.Sprint(name, "/", server), func(t *testing.T) {
				three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
					missesADrop(t, q, c, server, f.begin, f.end)
				})
			})
		}
	}
}

func missesADrop(t *testing.T, q *squad, c *memcached.Client, server int, begin, end func(*member)) {
	x := over(t, q, c, nil)
	theirs := x.keys(20, func(s int) bool { return s != server })
	lost := x.keys(10, func(s int) bool { return s == server })
	x.set(slices.Concat(theirs, lost)...)
	begin(q.members[server])
	var re *strata.RemoteError
	if err := x.InvalidateAll(t.Context()); !errors.As(err, &re) || re.Pending != 1 || remote.FailedServer(err) != q.servers[server] {
		t.Fatalf("InvalidateAll: %v", err)
	}
	x.lacks("after the drop", slices.Concat(theirs, lost)...)
	x.set(theirs...)
	for range 10 {
		x.has("while the server is away", theirs...)
		time.Sleep(3 * time.Second) // in a bubble
	}
	end(q.members[server])
	for x.Stats().Pending > 0 {
		x.lacks("before the server is told", lost...)
		time.Sleep(100 * time.Millisecond) // in a bubble
	}
	time.Sleep(10 * time.Second) // in a bubble
	x.lacks("afterwards", lost...)
	over(t, q, c, nil).lacks("afterwards", lost...)
	x.has("when the server is back", theirs...)
}

// lacks checks that L2 has no value of keys for the cache.
func (x *outage) lacks(when string, keys ...string) {
	x.t.Helper()
	for _, key := range keys {
		if v, ok := x.Get(x.t.Context(), key); ok {
			x.t.Fatalf("%s, %s is %q", when, key, v)
		}
	}
}

// has checks that L2 has keys as their values for the cache.
func (x *outage) has(when string, keys ...string) {
	x.t.Helper()
	for _, key := range keys {
		if v, ok := x.Get(x.t.Context(), key); v != key || !ok {
			x.t.Fatalf("%s, %s is %q, %v", when, key, v, ok)
		}
	}
}

// TestInstancesThatEjectAtDifferentMomentsAgree: one instance calls for the keys of a
// failing server all the time, the other one now and then. Neither reads a value from before
// a drop confirmed to the other or to itself.
func TestInstancesThatEjectAtDifferentMomentsAgree(t *testing.T) {
	for name, f := range failures {
		t.Run(name, func(t *testing.T) {
			three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
				second, err := memcached.New(memcached.Options{Servers: q.servers, DialContext: q.dial})
				if err != nil {
					t.Fatal(err)
				}
				defer second.Close()
				var version atomic.Int64
				bus := stratatest.NewBus()
				shared := func(o *strata.Options[string, string]) {
					o.Memory = strata.Memory[string, string]{MaxEntries: 100}
					o.Remote.Bus = bus.Connect()
					o.Loader = func(context.Context, string) (string, error) { return fmt.Sprint(version.Load()), nil }
				}
				busy, idle := over(t, q, c, shared), over(t, q, second, shared)
				key := busy.keys(1, func(s int) bool { return s == 1 })[0]
				newest, ejected := map[*outage]int64{}, [2]bool{}
				for i := range 400 {
					switch i % 80 {
					case 20:
						f.begin(q.members[1])
					case 50:
						f.end(q.members[1])
					}
					one := busy
					if i%9 == 0 {
						one = idle
					}
					if i%5 == 0 {
						v := version.Add(1)
						if one.Invalidate(t.Context(), key) == nil {
							synctest.Wait() // the bus has delivered
							newest[busy], newest[idle] = v, v
						}
						newest[one] = v
					}
					v, err := one.GetOrLoad(t.Context(), key, nil)
					var got int64
					if _, scanned := fmt.Sscan(v, &got); err != nil || scanned != nil || got < newest[one] {
						t.Fatalf("step %d: %q, %v after a drop at %d", i, v, err, newest[one])
					}
					a, b := len(c.Ejected()) > 0, len(second.Ejected()) > 0
					ejected[0], ejected[1] = ejected[0] || a && !b, ejected[1] || b && !a
					time.Sleep(100 * time.Millisecond)
				}
				if !ejected[0] {
					t.Errorf("they eject at the same moments: %v", ejected)
				}
			})
		})
	}
}

// TestDamagedCountersOnServersAreReplaced writes garbage to each counter that a tier has.
func TestDamagedCountersOnServersAreReplaced(t *testing.T) {
	for _, text := range []string{"", "x", "12x", "99999999999999999999999", strings.Repeat("g", 5000), strings.Repeat("0", 600_000) + "5"} {
		three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
			x := over(t, q, c, nil)
			keys := x.keys(12, func(int) bool { return true })
			for _, key := range keys {
				if err := x.Set(t.Context(), key, key, strata.WithTags("t")); err != nil {
					t.Fatal(err)
				}
			}
			if err := x.InvalidateTags(t.Context(), "other"); err != nil {
				t.Fatal(err)
			}
			for i := range q.servers {
				for _, key := range counters(t, q, i) {
					mustSet(t, q.alone(t, i), key, text)
				}
			}
			time.Sleep(2 * time.Second)
			late := over(t, q, c, nil)
			for _, one := range []*outage{late, x} {
				for _, key := range keys {
					if v, _ := one.Get(t.Context(), key); v == key {
						t.Errorf("%.10q: %s has its old value", text, key)
					}
					if err := one.Set(t.Context(), key, "new", strata.WithTags("t")); err != nil {
						t.Errorf("%.10q: %v", text, err)
					}
				}
			}
			time.Sleep(2 * time.Second)
			for _, key := range keys {
				if err := late.Set(t.Context(), key, "newer", strata.WithTags("t")); err != nil {
					t.Errorf("%.10q: %v", text, err)
				}
				if v, ok := over(t, q, c, nil).Get(t.Context(), key); v != "newer" || !ok {
					t.Errorf("%.10q: %s is %q, %v", text, key, v, ok)
				}
			}
		})
	}
}

// counters returns the keys of the counters on a server.
func counters(t *testing.T, q *squad, server int) (keys []string) {
	t.Helper()
	seen := map[string]bool{}
	var mu sync.Mutex
	gate := q.members[server].wait
	q.members[server].SetGate(func(s *fakes.MemcachedSession, c *meta.Command) bool {
		for _, key := range append(c.Args, c.Key) {
			if key := string(key); strings.HasSuffix(key, ":c") || strings.HasSuffix(key, ":D") || strings.HasSuffix(key, ":X") {
				mu.Lock()
				seen[key] = true
				mu.Unlock()
			}
		}
		return gate(s, c)
	})
	own, err := memcached.New(memcached.Options{Servers: q.servers, DialContext: q.dial})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	x := over(t, q, own, nil)
	for _, key := range x.keys(3, func(s int) bool { return s == server }) {
		if err := x.Set(t.Context(), key, "v", strata.WithTags("t")); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
	q.members[server].SetGate(gate)
	for key := range seen {
		keys = append(keys, key)
	}
	if len(keys) < 2 {
		t.Fatalf("counters: %q", keys)
	}
	return keys
}
