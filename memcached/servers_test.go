package memcached_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/memcached/roster"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/memcached"
)

// TestCallsFindTheServersOfTheNewList: single calls and batches, on the server where a client
// that begins with the list puts the key, under each placement.
func TestCallsFindTheServersOfTheNewList(t *testing.T) {
	for p := memcached.Ketama; p <= memcached.Jump; p++ {
		three(t, func(o *memcached.Options) { o.Servers, o.Fleet.Placement = o.Servers[:1], p }, func(t *testing.T, q *squad, c *memcached.Client) {
			keys := q.everyKey()
			for _, some := range [][]int{{0, 1, 2}, {2, 0}, {1}, {2, 1, 0}} {
				var names []string
				var places []roster.Server
				for _, i := range some {
					names, places = append(names, q.servers[i]), append(places, roster.Server{Address: q.servers[i]})
				}
				if err := c.SetServers(t.Context(), names); err != nil {
					t.Fatal(err)
				}
				r, err := roster.NewRing(roster.Mode(p), places)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.FlushAll(t.Context()); err != nil {
					t.Error(err)
				}
				var items []memcached.Item
				for _, key := range keys {
					items = append(items, memcached.Item{Key: key, Value: []byte(fmt.Sprint(some))})
				}
				if err := c.SetMany(t.Context(), items); err != nil {
					t.Error(err)
				}
				for _, key := range keys {
					home := some[r.Pick(key)]
					if v, err := get(t.Context(), q.alone(t, home), key); v != fmt.Sprint(some) || err != nil {
						t.Fatalf("%v: %s is not on server %d: %q, %v", p, key, home, v, err)
					}
					if v, err := get(t.Context(), c, key); v != fmt.Sprint(some) || err != nil {
						t.Fatalf("%v: %s: %q, %v", p, key, v, err)
					}
				}
				if got := c.String(); !strings.Contains(got, strings.Join(names, ",")) {
					t.Errorf("%s after %v", got, names)
				}
			}
		})
	}
}

// TestWeightsChangeWithTheServers: the shares follow the new weights.
func TestWeightsChangeWithTheServers(t *testing.T) {
	three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
		r, err := roster.NewRing(roster.Ketama, []roster.Server{{Address: q.servers[0], Weight: 1}, {Address: q.servers[1], Weight: 9}})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetServers(t.Context(), q.servers[:2], 1, 9); err != nil {
			t.Fatal(err)
		}
		for _, key := range q.everyKey() {
			mustSet(t, c, key, "v")
			if v, err := get(t.Context(), q.alone(t, r.Pick(key)), key); v != "v" || err != nil {
				t.Errorf("%s: %q, %v", key, v, err)
			}
		}
	})
}

// TestWrongListsChangeNothing: each is named, and the present list is used on.
func TestWrongListsChangeNothing(t *testing.T) {
	three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
		ctx := t.Context()
		for _, key := range q.everyKey() {
			mustSet(t, c, key, "v")
		}
		many := make([]string, roster.MaxServers+1)
		for i := range many {
			many[i] = fmt.Sprintf("10.1.%d.%d:11211", i/256, i%256)
		}
		for what, tt := range map[string]struct {
			servers []string
			weights []int
		}{
			"none":       {nil, nil},
			"twice":      {[]string{"a:1", "b:1", "a:1"}, nil},
			"no port":    {[]string{"a:1", "b"}, nil},
			"empty":      {[]string{"a:1", ""}, nil},
			"a NUL":      {[]string{"a\x00:1"}, nil},
			"a line":     {[]string{"a:1\r\nx"}, nil},
			"too many":   {many, nil},
			"weights":    {[]string{"a:1", "b:1"}, []int{1}},
			"a negative": {[]string{"a:1", "b:1"}, []int{1, -1}},
		} {
			if err := c.SetServers(ctx, tt.servers, tt.weights...); err == nil || !strings.Contains(err.Error(), "Servers") && !strings.Contains(err.Error(), "Weights") {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, key := range q.everyKey() {
			if v, err := get(ctx, c, key); v != "v" || err != nil {
				t.Errorf("%s: %q, %v", key, v, err)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := c.SetServers(ctx, q.servers[:1]); !errors.Is(err, memcached.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestCallsEndOnTheServersTheyBeganOn: a call waits for the answer of a server removed
// meanwhile, and a stream goes on. Then the connections of that server are closed, and the
// counters of its pool stay.
func TestCallsEndOnTheServersTheyBeganOn(t *testing.T) {
	three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
		ctx := t.Context()
		gone := q.members[1]
		keys := q.keys(1, 3)
		large := bytes.Repeat([]byte("large"), 200_000)
		if err := errors.Join(c.Set(ctx, memcached.Item{Key: keys[0], Value: []byte("v")}), c.Set(ctx, memcached.Item{Key: keys[1], Value: large})); err != nil {
			t.Fatal(err)
		}
		slow, next := slowWriter{part: make(chan struct{})}, c.PoolStats
		var wg sync.WaitGroup
		wg.Go(func() {
			if n, err := c.GetTo(ctx, keys[1], &slow); n != int64(len(large)) || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
		synctest.Wait() // the first part is on its way
		gone.delay.Store(int64(30 * time.Millisecond))
		for i := range 12 { // over the shared connection, and over others
			wg.Go(func() {
				if i%2 == 0 {
					if v, err := get(ctx, c, keys[0]); v != "v" || err != nil {
						t.Errorf("%q, %v", v, err)
					}
				} else if got, err := c.GetMany(ctx, keys); len(got) != 2 || err != nil {
					t.Errorf("%d items, %v", len(got), err)
				}
			})
		}
		synctest.Wait()
		dials := next().Dials
		if err := c.SetServers(ctx, []string{q.servers[0], q.servers[2]}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // in the bubble
		if n := gone.Open(); n != 1 {
			t.Errorf("%d connections are open beside a stream", n)
		}
		close(slow.part)
		wg.Wait()
		time.Sleep(3 * time.Second) // in the bubble
		if n := gone.Open(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		if s := next(); s.Dials < dials || s.Open != q.members[0].Open()+q.members[2].Open() {
			t.Errorf("%d dials before; %+v", dials, s)
		}
	})
}

// slowWriter takes its second part when part is closed.
type slowWriter struct {
	parts int
	part  chan struct{}
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.parts++; w.parts == 2 {
		<-w.part
	}
	return len(p), nil
}

// TestServersThatStayKeepTheirState: their connections, and that they are ejected.
func TestServersThatStayKeepTheirState(t *testing.T) {
	three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
		for _, key := range q.everyKey() {
			mustSet(t, c, key, "v")
		}
		q.members[1].Stop()
		eject(t, q, c, 1)
		dials := q.members[0].Dials()
		if err := c.SetServers(t.Context(), q.servers[:2]); err != nil {
			t.Fatal(err)
		}
		if got := c.Ejected(); len(got) != 1 || got[0] != q.servers[1] {
			t.Errorf("ejected: %q", got)
		}
		for _, key := range q.everyKey() {
			if q.ring.Pick(key) == 0 {
				if v, err := get(t.Context(), c, key); v != "v" || err != nil {
					t.Errorf("%s: %q, %v", key, v, err)
				}
			}
		}
		if n := q.members[0].Dials(); n != dials {
			t.Errorf("%d connections were opened to a server that stays", n-dials)
		}
		if err := c.SetServers(t.Context(), q.servers[1:2]); err != nil {
			t.Fatal(err)
		}
		if got := c.Ejected(); len(got) != 0 {
			t.Errorf("a single server is ejected: %q", got)
		}
		q.members[1].Start()
		time.Sleep(5 * time.Second) // in the bubble
		mustSet(t, c, "k", "v")
	})
}

// TestTheSameListClosesNothing: in another order, too, unless the order counts.
func TestTheSameListClosesNothing(t *testing.T) {
	for p := memcached.Ketama; p <= memcached.Jump; p++ {
		three(t, func(o *memcached.Options) { o.Fleet.Placement = p }, func(t *testing.T, q *squad, c *memcached.Client) {
			keys := q.everyKey()
			for _, key := range keys {
				mustSet(t, c, key, "v")
			}
			dials := c.PoolStats().Dials
			if err := c.SetServers(t.Context(), []string{q.servers[2], q.servers[0], q.servers[1]}); err != nil {
				t.Fatal(err)
			}
			found, err := c.GetMany(t.Context(), keys)
			if moved := len(found) < len(keys); moved != (p == memcached.Modula) || err != nil {
				t.Errorf("%v: %d of %d found, %v", p, len(found), len(keys), err)
			}
			time.Sleep(5 * time.Second) // in the bubble
			if s := c.PoolStats(); s.Dials > dials+3 {
				t.Errorf("%v: %+v after %d dials", p, s, dials)
			}
		})
	}
}

// TestListsChangeUnderCalls: no call fails while the list is replaced again and again, also
// after some seconds. With -short every fourth of the waits has its turn.
func TestListsChangeUnderCalls(t *testing.T) {
	three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		keys := q.everyKey()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					key := keys[(i+n)%len(keys)]
					err1 := c.Set(t.Context(), memcached.Item{Key: key, Value: []byte(key)})
					v, err2 := get(t.Context(), c, key)
					if errors.Is(err2, memcached.ErrMiss) {
						err2 = nil
					} else if v != key && err2 == nil {
						t.Errorf("%s has %q", key, v)
					}
					if err := errors.Join(err1, err2, c.DeleteMany(t.Context(), keys[:3])); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Duration(i+1) * time.Millisecond) // in the bubble
				}
			})
		}
		for i := 0; i < 60; i += 60 / kit.Rounds(60) {
			if err := c.SetServers(t.Context(), q.servers[:1+i%3]); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Duration(i*i) * time.Millisecond) // in the bubble
		}
		cancel()
		wg.Wait()
		if s := c.PoolStats(); s.Broken > 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestCloseEndsServersThatLeave: also while one has a call.
func TestCloseEndsServersThatLeave(t *testing.T) {
	three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
		key := q.keys(1, 1)[0]
		mustSet(t, c, key, "v")
		q.members[1].pause()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := get(kit.Within(t, time.Hour), c, key); !errors.Is(err, memcached.ErrClosed) {
				t.Error(err)
			}
		})
		synctest.Wait()
		if err := c.SetServers(t.Context(), q.servers[:1]); err != nil {
			t.Fatal(err)
		}
		if took := elapsed(func() { _ = c.Close() }); took > time.Second {
			t.Errorf("Close takes %v", took)
		}
		wg.Wait()
		q.members[1].resume()
		synctest.Wait()
		if n := q.members[1].Open(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
	})
}
