package memcached_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// changes are ways from one list to another and back. Numbers are of servers.
var changes = map[string][3][]int{ // read-only
	"one more and back": {{0, 1}, {0, 1, 2}, {0, 1}},
	"one less and back": {{0, 1, 2}, {0, 1}, {0, 1, 2}},
	"others and back":   {{0, 1}, {2}, {0, 1}},
	"many to one":       {{0, 1, 2}, {1}, {0, 1, 2}},
	"one to many":       {{1}, {0, 1, 2}, {1}},
	"exchanged":         {{0, 1}, {0, 2}, {0, 1}},
}

// expiries are ways to make keys stale.
var expiries = map[string]func(ctx context.Context, c *strata.Cache[string, int64], keys []string) error{ // read-only
	"stale one by one": func(ctx context.Context, c *strata.Cache[string, int64], keys []string) error {
		return c.Expire(ctx, keys...)
	},
	"stale by their tag": func(ctx context.Context, c *strata.Cache[string, int64], _ []string) error {
		return c.ExpireTags(ctx, "a", "b", "c", "d")
	},
	"all stale": func(ctx context.Context, c *strata.Cache[string, int64], _ []string) error {
		return c.ExpireAll(ctx)
	},
}

// named returns the names of servers.
func (q *squad) named(some []int) (names []string) {
	for _, i := range some {
		names = append(names, q.servers[i])
	}
	return names
}

// numbers are of an origin, and instances over clients of their own.
type numbers struct {
	*old
	q       *squad
	clients []*memcached.Client
}

// join returns an instance without L1 over a client of its own.
func (n *numbers) join(servers []int, change func(*strata.Options[string, int64])) *strata.Cache[string, int64] {
	n.t.Helper()
	c, err := memcached.New(memcached.Options{Servers: n.q.named(servers), DialContext: n.q.dial})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { c.Close() })
	n.clients = append(n.clients, c)
	tags := []string{"a", "b", "c", "d"}
	o := strata.Options[string, int64]{
		Name: "numbers", TTL: time.Hour,
		Tags:   func(key string, _ int64) []string { return tags[len(key)%4 : len(key)%4+1] },
		Loader: func(context.Context, string) (int64, error) { return n.version.Load(), nil },
		Memory: strata.Memory[string, int64]{Off: true},
		Stale:  strata.Stale{WhileRevalidate: -1, OnError: -1},
		Remote: strata.Remote[string, int64]{Tier: memcached.NewTier(c), Bus: n.bus.Connect(), Timeout: 2 * time.Second},
	}
	if change != nil {
		change(&o)
	}
	cache, err := strata.New(o)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = cache.Close(context.Background()) })
	return cache
}

// numbersOver begins with keys and version 1.
func numbersOver(t *testing.T, q *squad) *numbers {
	n := &numbers{old: &old{t: t, bus: stratatest.NewBus()}, q: q}
	for i := range 24 {
		n.keys = append(n.keys, fmt.Sprintf("%0*d", 1+i/4, i))
	}
	n.version.Store(1)
	return n
}

// lists changes the list of a client.
func (n *numbers) lists(client int, servers []int) {
	n.t.Helper()
	if err := n.clients[client].SetServers(n.t.Context(), n.q.named(servers)); err != nil {
		n.t.Fatalf("%v: %v", servers, err)
	}
}

// TestServerThatReturnsToTheListBringsNoOldValue drops values while a server is left out, or
// while keys have other homes, in each way.
func TestServerThatReturnsToTheListBringsNoOldValue(t *testing.T) {
	all := maps.Clone(drops)
	maps.Copy(all, expiries)
	for change, lists := range changes {
		for name, drop := range all {
			t.Run(change+"/"+name, func(t *testing.T) {
				three(t, nil, func(t *testing.T, q *squad, _ *memcached.Client) {
					n := numbersOver(t, q)
					one := n.join(lists[0], nil)
					n.reads("the first list", one, 1)
					n.lists(0, lists[1])
					n.reads("after a change without a drop", one, 1)
					n.version.Store(2)
					if err := drop(t.Context(), one, n.keys); err != nil {
						t.Fatal(err)
					}
					n.reads("the second list", one, 2)
					n.lists(0, lists[2])
					n.reads("the first list again", one, 2)
					late := n.join(lists[2], nil)
					n.reads("a new instance", late, 2)
					time.Sleep(time.Minute) // in the bubble
					n.reads("later", late, 2)
					n.hits(one, late)
				})
			})
		}
	}
}

// hits checks that instances share their values.
func (n *numbers) hits(all ...*strata.Cache[string, int64]) {
	n.t.Helper()
	for i, c := range all {
		synctest.Wait() // the last load is counted
		before := c.Stats().Loads.Total()
		got, err := c.GetMany(n.t.Context(), n.keys, nil)
		if loads := c.Stats().Loads.Total() - before; len(got) != len(n.keys) || loads > 0 || err != nil {
			n.t.Errorf("instance %d has %d values, %d of them loaded, %v", i, len(got), loads, err)
		}
	}
}

// TestInstancesAgreeOnceAllHaveTheList: one changes after the other, and each drops keys while
// they disagree. Once the last has changed, none reads a dropped value from L2.
func TestInstancesAgreeOnceAllHaveTheList(t *testing.T) {
	for change, lists := range changes {
		for name, drop := range drops {
			for _, dropper := range []int{0, 1} {
				t.Run(fmt.Sprint(change, "/", name, "/", dropper), func(t *testing.T) {
					three(t, nil, func(t *testing.T, q *squad, _ *memcached.Client) {
						numbersOver(t, q).disagree(lists, dropper, drop)
					})
				})
			}
		}
	}
}

// disagree has two instances, which change their lists one after the other.
func (n *numbers) disagree(lists [3][]int, dropper int, drop func(context.Context, *strata.Cache[string, int64], []string) error) {
	n.t.Helper()
	all := []*strata.Cache[string, int64]{n.join(lists[0], nil), n.join(lists[0], nil)}
	for _, list := range lists[1:] {
		n.lists(0, list)
		for _, c := range all {
			n.reads("while they disagree", c, n.version.Load())
		}
		n.version.Add(1)
		if err := drop(n.t.Context(), all[dropper], n.keys); err != nil {
			n.t.Fatal(err)
		}
		for _, c := range all { // may find the old value
			_, _ = c.GetMany(n.t.Context(), n.keys, nil)
		}
		n.lists(1, list)
		time.Sleep(4 * time.Second) // in the bubble: for so long a new clock of tags is ahead of leases
		for _, c := range all {
			n.reads("when they agree", c, n.version.Load())
		}
		n.hits(all...)
	}
}

// TestServerThatDoesNotHearOfTheListIsToldLater: SetServers names the server, and no value
// is read from it before it was told. The other servers are used at once.
func TestServerThatDoesNotHearOfTheListIsToldLater(t *testing.T) {
	three(t, nil, func(t *testing.T, q *squad, _ *memcached.Client) {
		n := numbersOver(t, q)
		one := n.join([]int{0, 1, 2}, nil)
		n.reads("all servers", one, 1)
		n.lists(0, []int{0, 1})
		n.version.Store(2)
		if err := one.Invalidate(t.Context(), n.keys...); err != nil {
			t.Fatal(err)
		}
		q.members[2].Stop()
		err := n.clients[0].SetServers(t.Context(), q.servers)
		var untold *remote.NotToldError
		if !errors.As(err, &untold) || !slices.Equal(untold.Servers, q.servers[2:]) {
			t.Fatalf("%v", err)
		}
		n.reads("without the server", one, 2)
		q.members[2].Start()
		time.Sleep(20 * time.Second) // in the bubble: breakers are closed again
		// A value that is stored before the clock of tags is known in this list counts as dropped.
		n.reads("with the server", one, 2)
		n.reads("with the server, again", one, 2)
		if err := n.clients[0].SetServers(t.Context(), q.servers); err != nil {
			t.Errorf("the same list again: %v", err)
		}
		n.hits(one)
	})
}

// TestDropThatWaitsForAServerEndsWhenItLeaves: nothing is pending then, and the server brings
// nothing back.
func TestDropThatWaitsForAServerEndsWhenItLeaves(t *testing.T) {
	for name, drop := range drops {
		t.Run(name, func(t *testing.T) {
			three(t, nil, func(t *testing.T, q *squad, _ *memcached.Client) {
				n := numbersOver(t, q)
				one := n.join([]int{0, 1, 2}, nil)
				n.reads("all servers", one, 1)
				q.members[2].Stop()
				n.version.Store(2)
				if err := drop(t.Context(), one, n.keys); err == nil || one.Stats().Pending == 0 {
					t.Fatalf("%v, %d pending", err, one.Stats().Pending)
				}
				n.lists(0, []int{0, 1})
				time.Sleep(20 * time.Second) // in the bubble
				if s := one.Stats(); s.Pending > 0 || len(s.ServersLeftAlone) > 0 {
					t.Errorf("%d pending, left alone: %q", s.Pending, s.ServersLeftAlone)
				}
				n.reads("without the server", one, 2)
				n.hits(one)
				q.members[2].Start()
				n.lists(0, []int{0, 1, 2})
				n.reads("with the server", one, 2)
				n.hits(one)
			})
		})
	}
}

// TestValuesOfL1OutliveAChangeOfServers: only L2 begins anew.
func TestValuesOfL1OutliveAChangeOfServers(t *testing.T) {
	three(t, nil, func(t *testing.T, q *squad, _ *memcached.Client) {
		n := numbersOver(t, q)
		one := n.join([]int{0, 1}, func(o *strata.Options[string, int64]) {
			o.Memory = strata.Memory[string, int64]{MaxEntries: 1000}
		})
		synctest.Wait() // the bus is connected
		n.reads("the first list", one, 1)
		synctest.Wait() // the last load is counted
		loads := one.Stats().Loads.Total()
		n.lists(0, []int{0, 1, 2})
		n.reads("the second list", one, 1)
		if more := one.Stats().Loads.Total() - loads; more > 0 {
			t.Errorf("%d loads", more)
		}
	})
}

// TestOperationsOfATierSpanAChangeOfServers: leases of before are void, and operations that run
// meanwhile end. No value is lost to the callers.
func TestOperationsOfATierSpanAChangeOfServers(t *testing.T) {
	three(t, nil, func(t *testing.T, q *squad, _ *memcached.Client) {
		n := numbersOver(t, q)
		one := n.join([]int{0, 1}, func(o *strata.Options[string, int64]) {
			o.Loader = func(context.Context, string) (int64, error) {
				v := n.version.Load()
				time.Sleep(10 * time.Second) // in the bubble
				return v, nil
			}
		})
		done := make(chan int64)
		go func() {
			v, _ := one.GetOrLoad(context.Background(), n.keys[0], nil)
			done <- v
		}()
		synctest.Wait() // it loads
		n.lists(0, []int{0, 1, 2})
		n.lists(0, []int{2, 1})
		n.lists(0, []int{0, 1})
		n.version.Store(2)
		if err := one.Invalidate(t.Context(), n.keys...); err != nil {
			t.Fatal(err)
		}
		if v := <-done; v != 1 {
			t.Errorf("the caller got %d", v)
		}
		if v, err := one.GetOrLoad(t.Context(), n.keys[0], nil); v != 2 || err != nil {
			t.Errorf("%d, %v: a value from before the drop was stored", v, err)
		}
	})
}
