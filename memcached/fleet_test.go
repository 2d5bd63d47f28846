package memcached_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/memcached/roster"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/memcached"
)

// member is a model server of a fleet, which can pause like a stopped process: then
// it accepts connections and bytes and answers nothing.
type member struct {
	*fakes.Memcached
	addr string
	// delay is the time that each command takes, in nanoseconds.
	delay atomic.Int64

	mu     sync.Mutex
	paused chan struct{} // closed when the server goes on; nil while it runs
}

func (m *member) pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.paused == nil {
		m.paused = make(chan struct{})
	}
}

func (m *member) resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.paused != nil {
		close(m.paused)
		m.paused = nil
	}
}

// wait is the gate of a server.
func (m *member) wait(*fakes.MemcachedSession, *meta.Command) bool {
	time.Sleep(time.Duration(m.delay.Load())) // in a bubble
	m.mu.Lock()
	paused := m.paused
	m.mu.Unlock()
	if paused != nil {
		<-paused
	}
	return false
}

// squad is a fleet of three model servers.
type squad struct {
	members []*member
	servers []string
	ring    *roster.Ring
}

func (q *squad) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	for _, m := range q.members {
		if m.addr == addr {
			return m.Dial(ctx, network, addr)
		}
	}
	return nil, fmt.Errorf("no server %q", addr)
}

// keys returns n keys of a server.
func (q *squad) keys(server, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("key:", i); q.ring.Pick(key) == server {
			keys = append(keys, key)
		}
	}
	return keys
}

// three runs f in a bubble with three servers and a client of them. change, if not nil,
// alters the options before.
func three(t *testing.T, change func(*memcached.Options), f func(t *testing.T, q *squad, c *memcached.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := &squad{}
		var places []roster.Server
		for i := range 3 {
			m := &member{Memcached: fakes.NewMemcached(), addr: fmt.Sprintf("10.0.0.%d:11211", i+1)}
			m.Gate = m.wait
			defer m.Close()
			defer m.resume()
			q.members, q.servers = append(q.members, m), append(q.servers, m.addr)
			places = append(places, roster.Server{Address: m.addr})
		}
		o := memcached.Options{Servers: q.servers, DialContext: q.dial}
		if change != nil {
			change(&o)
		}
		for i, w := range o.Fleet.Weights {
			places[i].Weight = w
		}
		var err error
		if q.ring, err = roster.NewRing(roster.Mode(o.Fleet.Placement), places); err != nil {
			t.Fatal(err)
		}
		c, err := memcached.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f(t, q, c)
	})
}

// alone returns a client of one server of a fleet.
func (q *squad) alone(t *testing.T, server int) *memcached.Client {
	t.Helper()
	c, err := memcached.New(memcached.Options{Servers: q.servers[server : server+1], DialContext: q.dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// faults are ways in which a server stops to answer.
var faults = map[string]func(*member){ // read-only
	"gone":   func(m *member) { m.Stop() },
	"paused": func(m *member) { m.pause() },
}

// treating sets the treatment of the keys of a dead server.
func treating(d memcached.Dead) func(*memcached.Options) {
	return func(o *memcached.Options) { o.Fleet.Dead = d }
}

// elapsed returns the time that f takes.
func elapsed(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}

func TestItemsAreOnTheServersOfTheirPlacement(t *testing.T) {
	for p := memcached.Ketama; p <= memcached.Jump; p++ {
		t.Run(p.String(), func(t *testing.T) {
			change := func(o *memcached.Options) {
				if o.Fleet.Placement = p; p <= memcached.KetamaSpyLibmemcached {
					o.Fleet.Weights = []int{1, 2, 4}
				}
			}
			three(t, change, func(t *testing.T, q *squad, c *memcached.Client) {
				for server := range 3 {
					alone := q.alone(t, server)
					for i, key := range q.keys(server, 50) {
						if i%2 == 0 {
							mustSet(t, c, key, "v")
						} else if err := c.SetMany(t.Context(), []memcached.Item{{Key: key, Value: []byte("v")}}); err != nil {
							t.Fatal(err)
						}
						if v, err := get(t.Context(), alone, key); v != "v" || err != nil {
							t.Fatalf("%s is not on server %d: %v", key, server, err)
						}
					}
				}
			})
		})
	}
}

// everyKey returns one key of each server.
func (q *squad) everyKey() (keys []string) {
	for server := range q.members {
		keys = append(keys, q.keys(server, 1)...)
	}
	return keys
}

// TestDeadServerOfAFleetDisturbsNoOther makes all calls while one of three servers does
// not answer. The calls to the others take no time.
func TestDeadServerOfAFleetDisturbsNoOther(t *testing.T) {
	for name, fault := range faults {
		for d := memcached.DeadFails; d <= memcached.DeadMoves; d++ {
			t.Run(fmt.Sprint(name, "/", d), func(t *testing.T) {
				three(t, treating(d), func(t *testing.T, q *squad, c *memcached.Client) {
					for _, key := range q.everyKey() {
						mustSet(t, c, key, "v")
					}
					fault(q.members[1])
					for round := range 10 { // with and without ejection
						servesTheOthers(t, q, c)
						failsAsChosen(t, q, c, d, round)
					}
				})
			})
		}
	}
}

// servesTheOthers makes calls for the keys of the servers that answer.
func servesTheOthers(t *testing.T, q *squad, c *memcached.Client) {
	t.Helper()
	for _, server := range []int{0, 2} {
		key := q.keys(server, 1)[0]
		if d := elapsed(func() {
			mustSet(t, c, key, "v")
			if v, err := get(t.Context(), c, key); v != "v" || err != nil {
				t.Errorf("server %d: %q, %v", server, v, err)
			}
			var b strings.Builder
			if _, err := c.GetTo(t.Context(), key, &b); b.String() != "v" || err != nil {
				t.Errorf("server %d: GetTo: %q, %v", server, b.String(), err)
			}
			if err := c.SetFrom(t.Context(), memcached.Item{Key: key}, strings.NewReader("v"), 1); err != nil {
				t.Errorf("server %d: SetFrom: %v", server, err)
			}
		}); d > 0 {
			t.Errorf("calls to server %d took %v", server, d)
		}
	}
}

// failsAsChosen makes calls for keys of the dead server. Before it is ejected they take
// up to their timeout.
func failsAsChosen(t *testing.T, q *squad, c *memcached.Client, d memcached.Dead, round int) {
	t.Helper()
	const slack = time.Second / 4 // a read may be sent again
	dead, all := q.keys(1, 1)[0], q.everyKey()
	ejected := len(c.Ejected()) > 0
	moved := ejected && d == memcached.DeadMoves
	var ce *memcached.ConnError
	if took := elapsed(func() {
		_, err := get(t.Context(), c, dead)
		switch {
		case d == memcached.DeadMisses, moved:
			if !errors.Is(err, memcached.ErrMiss) {
				t.Errorf("round %d: read of a dead server: %v", round, err)
			}
		case !errors.As(err, &ce):
			t.Errorf("round %d: read of a dead server: %v", round, err)
		}
	}); took > time.Second+slack || ejected && took > 0 {
		t.Errorf("round %d: a call took %v, ejected is %v", round, took, ejected)
	}
	items, err := c.GetMany(t.Context(), all)
	if items[all[0]].Key == "" || items[all[2]].Key == "" || len(items) != 2 {
		t.Errorf("round %d: GetMany has %d items, %v", round, len(items), err)
	}
	if d == memcached.DeadMisses {
		if err != nil {
			t.Errorf("round %d: GetMany: %v", round, err)
		}
		return
	}
	if moved = d == memcached.DeadMoves && len(c.Ejected()) > 0; moved && err == nil {
		return
	}
	onlyOf(t, err, dead)
}

// onlyOf checks that err is a PartialError of one key.
func onlyOf(t *testing.T, err error, key string) {
	t.Helper()
	var partial *memcached.PartialError
	var ce *memcached.ConnError
	if !errors.As(err, &partial) || len(partial.Failed) != 1 || !errors.As(partial.Failed[key], &ce) {
		t.Errorf("%v, not an error of %s alone", err, key)
	}
}

// TestDeadServersMissReadsOnly: a write that failed is never reported as done.
func TestDeadServersMissReadsOnly(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			three(t, treating(memcached.DeadMisses), func(t *testing.T, q *squad, c *memcached.Client) {
				key := q.keys(1, 1)[0]
				mustSet(t, c, key, "v")
				fault(q.members[1])
				item := memcached.Item{Key: key, CAS: 1}
				ctx := t.Context()
				for range 4 {
					for name, err := range map[string]error{
						"Set": c.Set(ctx, item), "Add": c.Add(ctx, item), "Replace": c.Replace(ctx, item),
						"CompareAndSwap": c.CompareAndSwap(ctx, item), "Delete": c.Delete(ctx, key),
						"SetMany": c.SetMany(ctx, []memcached.Item{item}), "SetFrom": c.SetFrom(ctx, item, strings.NewReader("v"), 1),
					} {
						var ce *memcached.ConnError
						if !errors.As(err, &ce) || errors.Is(err, memcached.ErrMiss) {
							t.Errorf("%s: %v", name, err)
						}
					}
					if n, err := c.Increment(ctx, key, 1); err == nil || errors.Is(err, memcached.ErrMiss) {
						t.Errorf("Increment: %d, %v", n, err)
					}
					_, getErr := c.Get(ctx, key)
					n, copyErr := c.GetTo(ctx, key, new(strings.Builder))
					for _, err := range []error{getErr, copyErr, c.Touch(ctx, key, time.Minute)} {
						if !errors.Is(err, memcached.ErrMiss) || n != 0 {
							t.Errorf("a read: %v", err)
						}
					}
				}
			})
		})
	}
}

// TestMissOfADeadServerIsNotForACallThatRanOut: the caller gets the error of its deadline, not a
// miss.
func TestMissOfADeadServerIsNotForACallThatRanOut(t *testing.T) {
	three(t, treating(memcached.DeadMisses), func(t *testing.T, q *squad, c *memcached.Client) {
		key := q.keys(1, 1)[0]
		mustSet(t, c, key, "v")
		q.members[1].pause()
		if _, err := get(kit.Within(t, time.Millisecond), c, key); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// TestServersOfABatchAreAskedAtOnce has servers that take 100 ms for each command: three
// take as long as one.
func TestServersOfABatchAreAskedAtOnce(t *testing.T) {
	three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
		if err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, m := range q.members {
			m.delay.Store(int64(100 * time.Millisecond))
		}
		took := func(keys []string) (set, read time.Duration) {
			var items []memcached.Item
			for _, key := range keys {
				items = append(items, memcached.Item{Key: key, Value: []byte(key)})
			}
			set = elapsed(func() {
				if err := c.SetMany(t.Context(), items); err != nil {
					t.Error(err)
				}
			})
			read = elapsed(func() {
				if got, err := c.GetMany(t.Context(), keys); len(got) != len(keys) || err != nil {
					t.Errorf("%d items, %v", len(got), err)
				}
			})
			return set, read
		}
		setOne, readOne := took(q.everyKey()[:1])
		set, read := took(q.everyKey())
		if set != setOne || read != readOne || read < 100*time.Millisecond {
			t.Errorf("SetMany took %v at one server and %v at three, GetMany %v and %v", setOne, set, readOne, read)
		}
	})
}

// TestCallsForAllServersNameTheDeadOne: the answers of the others are there.
func TestCallsForAllServersNameTheDeadOne(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
				ctx := t.Context()
				if able, err := c.Abilities(ctx); !able.Meta || err != nil {
					t.Errorf("%+v, %v", able, err)
				}
				for _, key := range q.everyKey() {
					mustSet(t, c, key, "v")
				}
				fault(q.members[1])
				versions, versionErr := c.Version(ctx)
				stats, statsErr := c.Stats(ctx, "")
				if len(versions) != 2 || len(stats) != 2 || versions[q.servers[0]] == "" || stats[q.servers[2]]["curr_items"] != "1" {
					t.Errorf("%v, %v", versions, stats)
				}
				errs := map[string]error{"Version": versionErr, "Stats": statsErr, "Ping": c.Ping(ctx), "FlushAll": c.FlushAll(ctx)}
				for call, err := range errs {
					var ce *memcached.ConnError
					if !errors.As(err, &ce) || !strings.Contains(err.Error(), q.servers[1]) || strings.Contains(err.Error(), q.servers[0]) {
						t.Errorf("%s: %v", call, err)
					}
				}
				if items, _ := c.GetMany(ctx, q.everyKey()); len(items) != 0 {
					t.Errorf("%d items after FlushAll", len(items))
				}
			})
		})
	}
}

// TestConnectionsToEachServerAreBounded makes many large writes at once.
func TestConnectionsToEachServerAreBounded(t *testing.T) {
	three(t, func(o *memcached.Options) { o.MaxConns = 3 }, func(t *testing.T, q *squad, c *memcached.Client) {
		var calls sync.WaitGroup
		for _, m := range q.members {
			m.pause()
		}
		for server := range 3 {
			for _, key := range q.keys(server, 20) {
				calls.Go(func() {
					if err := c.Set(t.Context(), memcached.Item{Key: key, Value: make([]byte, 100_000)}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		synctest.Wait()
		for i, m := range q.members {
			if n := m.Open(); n == 0 || n > 3 {
				t.Errorf("%d connections to server %d", n, i)
			}
			m.resume()
		}
		calls.Wait()
		if s := c.PoolStats(); s.Open > 9 || s.Dials < 3 {
			t.Errorf("%+v", s)
		}
	})
}

// TestWrongFleetsAreRefused: the error says why.
func TestWrongFleetsAreRefused(t *testing.T) {
	two := []string{"a:1", "b:1"}
	for want, o := range map[string]memcached.Options{
		`"a:1" is there twice`:           {Servers: []string{"a:1", "b:1", "a:1"}},
		"server 2 of 2 is neither":       {Servers: []string{"a:1", ""}},
		"server 1 of 1 is neither":       {Servers: []string{"memcached://u:S3cret@h:1"}},
		"3 weights for 2 servers":        {Servers: two, Fleet: memcached.Fleet{Weights: []int{1, 2, 3}}},
		`"b:1" has weight -1`:            {Servers: two, Fleet: memcached.Fleet{Weights: []int{1, -1}}},
		"mode modula knows no weights":   {Servers: two, Fleet: memcached.Fleet{Placement: memcached.Modula, Weights: []int{1, 2}}},
		"is too small beside the others": {Servers: two, Fleet: memcached.Fleet{Weights: []int{1, 1 << 20}}},
	} {
		c, err := memcached.New(o)
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "S3cret") {
			t.Errorf("%q: %v", want, err)
		}
	}
}
