package castier_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
)

// another returns another instance with the servers of m.
func another(m castier.Fleet) *castier.Tier {
	return castier.NewFleet(m).Bind(remote.Space{Name: "users", Schema: 7, Instance: 2}).(*castier.Tier)
}

// keysOf returns n keys of a server.
func keysOf(tier *castier.Tier, server string, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("key", i); tier.ServerOf(key) == server {
			keys = append(keys, key)
		}
	}
	return keys
}

// keep stores keys as their own values.
func keep(t *testing.T, tier *castier.Tier, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if !put(t, tier, key, key, acquire(t, tier, key).Lease) {
			t.Fatalf("%s is refused", key)
		}
	}
}

// TestRestartOfAServerCostsItsValuesOnly restarts each of three servers.
func TestRestartOfAServerCostsItsValuesOnly(t *testing.T) {
	for server := range 3 {
		synctest.Test(t, func(t *testing.T) {
			m, tier := open(t, 3)
			for _, s := range tier.Servers() {
				keep(t, tier, keysOf(tier, s, 5)...)
			}
			m.Restart(server)
			tier.Recheck()
			for i, s := range tier.Servers() {
				for _, key := range keysOf(tier, s, 5) {
					if held := get(t, tier, key); held.Absent() != (i == server) {
						t.Errorf("server %d is restarted: %s of server %d: %+v", server, key, i, held)
					}
				}
			}
		})
	}
}

// TestDropOfEverythingIsCarriedOnAtTheServerThatMissedIt kills each of three servers before
// a drop of everything. The others are not told again when it is back.
func TestDropOfEverythingIsCarriedOnAtTheServerThatMissedIt(t *testing.T) {
	for server := range 3 {
		for _, soft := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				m, tier := open(t, 3)
				dead := tier.Servers()[server]
				lost, others := keysOf(tier, dead, 5), []string{}
				for _, s := range tier.Servers() {
					if s != dead {
						others = append(others, keysOf(tier, s, 5)...)
					}
				}
				keep(t, tier, slices.Concat(lost, others)...)
				m.Kill(server, true)
				var some *remote.NotToldError
				err := tier.DropAll(t.Context(), soft)
				if !errors.As(err, &some) || len(some.Servers) != 1 || some.Servers[0] != dead || !errors.Is(err, lab.ErrDead) {
					t.Fatalf("without %s: %v", dead, err)
				}
				gone := func(h remote.Held) bool { return h.Absent() || soft && h.All }
				for _, key := range others {
					if held := get(t, tier, key); !gone(held) {
						t.Errorf("%s: %+v", key, held)
					}
				}
				if !soft {
					keep(t, tier, others...)
				}
				if err := tier.DropAllOf(t.Context(), dead, soft); remote.FailedServer(err) != dead {
					t.Errorf("while it is dead: %v", err)
				}
				m.Kill(server, false)
				if err := tier.DropAllOf(t.Context(), dead, soft); err != nil {
					t.Fatal(err)
				}
				for _, key := range lost {
					if held := get(t, tier, key); !gone(held) {
						t.Errorf("%s: %+v", key, held)
					}
				}
				for _, key := range others {
					if held := get(t, another(m), key); !soft && held.Absent() {
						t.Errorf("%s was dropped twice", key)
					}
				}
			})
		}
	}
	_, tier := open(t, 3)
	if err := tier.DropAllOf(t.Context(), "nobody", false); err == nil {
		t.Error("a server that is not there")
	}
}

// TestEachKeyOfACallHasItsError calls for keys of three servers. One of them is dead.
func TestEachKeyOfACallHasItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, tier := open(t, 3)
		var keys []string
		for i := range 30 {
			keys = append(keys, fmt.Sprint("key", i))
		}
		var puts []remote.Put
		var drops []remote.Drop
		for _, key := range keys {
			puts = append(puts, remote.Put{Key: key, Data: []byte("v"), Fresh: time.Minute, Left: time.Minute, Lease: acquire(t, tier, key).Lease})
			drops = append(drops, remote.Drop{Key: key, Token: time.Minute})
		}
		m.Kill(1, true)
		refused, put := tier.Put(t.Context(), puts)
		leases, drop := tier.Drop(t.Context(), drops)
		held, get := tier.Get(t.Context(), keys)
		if len(refused) > 0 {
			t.Errorf("refused: %v", refused)
		}
		for i, key := range keys {
			dead := tier.ServerOf(key) == "s1"
			for _, err := range []error{remote.ErrorOf(put, i), remote.ErrorOf(drop, i), remote.ErrorOf(get, i)} {
				if dead && remote.FailedServer(err) != "s1" || !dead && err != nil {
					t.Errorf("%s of %s: %v", key, tier.ServerOf(key), err)
				}
			}
			if (leases[i].Token == 0) != dead || !held[i].Absent() {
				t.Errorf("%s of %s: %+v, %+v", key, tier.ServerOf(key), leases[i], held[i])
			}
		}
		m.Kill(0, true)
		m.Kill(2, true)
		if _, err := tier.Drop(t.Context(), drops); err == nil || errors.As(err, new(remote.KeyErrors)) || len(err.Error()) > 200 {
			t.Errorf("without any server: %v", err)
		}
	})
}

// hanging is a store with one hanging server.
type hanging struct {
	server atomic.Int64
	delay  time.Duration // 0: until the context ends
}

func (h *hanging) do(ctx context.Context, server int, _ *lab.ModelCall, run func(context.Context) error) error {
	if int64(server) != h.server.Load() {
		return run(ctx)
	}
	var over <-chan time.Time
	if h.delay > 0 {
		over = time.After(h.delay)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-over:
		return run(ctx)
	}
}

// TestServerThatHangsHoldsUpOthersOnceAndForAQuarter has each of three servers hang, or
// answer late. Calls for the keys of other servers are held up once, for a quarter of their
// time, also if the server has the clock of tags.
func TestServerThatHangsHoldsUpOthersOnceAndForAQuarter(t *testing.T) {
	for _, delay := range []time.Duration{0, 300 * time.Millisecond} {
		for server := range 3 {
			synctest.Test(t, func(t *testing.T) { hangs(t, server, delay) })
		}
	}
}

// TestServerThatHangsFailsItsOwnKeysOfABatch: leases that the others have given are not lost, though the time of the
// call is over.
func TestServerThatHangsFailsItsOwnKeysOfABatch(t *testing.T) {
	for _, limit := range []func(context.Context, time.Duration) (context.Context, context.CancelFunc){remote.WithTimeout, context.WithTimeout} {
		synctest.Test(t, func(t *testing.T) {
			m := lab.NewModel(t, 3)
			h := &hanging{}
			h.server.Store(-1)
			tier := another(lab.Around(m, h.do))
			var keys []string
			var requests []remote.Request
			for _, s := range tier.Servers() {
				keys = append(keys, keysOf(tier, s, 2)...)
			}
			for _, key := range keys {
				requests = append(requests, remote.Request{Key: key})
			}
			get(t, tier, keys[0])
			h.server.Store(2)
			ctx, cancel := limit(t.Context(), 100*time.Millisecond)
			acquired, err := tier.Acquire(ctx, requests, time.Minute)
			cancel()
			if err != nil || len(acquired) != len(keys) {
				t.Fatal(acquired, err)
			}
			for i, a := range acquired {
				if theirs := i >= 4; (a.Err != nil) != theirs || !theirs && a.Lease.Grant != remote.Granted {
					t.Errorf("key %d: %+v", i, a)
				}
			}
			ctx, cancel = limit(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err = tier.Get(ctx, keys)
			for i := range keys {
				if e := remote.ErrorOf(err, i); (e != nil) != (i >= 4) {
					t.Errorf("key %d: %v", i, e)
				}
			}
		})
	}
}

func hangs(t *testing.T, server int, delay time.Duration) {
	m := lab.NewModel(t, 3)
	h := &hanging{delay: delay}
	h.server.Store(-1)
	tier := another(lab.Around(m, h.do))
	var keys []string
	for i, s := range tier.Servers() {
		if i != server {
			keys = append(keys, keysOf(tier, s, 5)...)
		}
	}
	keep(t, tier, keys...)
	h.server.Store(int64(server))
	time.Sleep(10 * time.Second) // in a bubble
	var waits []time.Duration
	for begun := time.Now(); time.Since(begun) < 20*time.Second; time.Sleep(700 * time.Millisecond) { // in a bubble
		waits = append(waits, callEach(t, tier, keys)...)
	}
	if len(waits) > 2 || len(waits) > 0 && slices.Max(waits) > 25*time.Millisecond { // the clock, and the counts of earlier versions
		t.Errorf("server %d answers after %v: calls for the keys of others wait %v", server, delay, waits)
	}
	h.server.Store(-1)
	time.Sleep(2 * time.Second) // in a bubble
	callEach(t, tier, keys)
	time.Sleep(2 * time.Second) // in a bubble
	// The clock is known again: a value with a tag dropped before is kept.
	dropTags(t, tier, false, "t")
	time.Sleep(2 * time.Second) // in a bubble
	callEach(t, tier, keys)
	time.Sleep(time.Second) // in a bubble
	if clock, is := acquire(t, tier, "x").Lease.Clock, tagsOf(t, tier, "t"); clock < is.Dropped {
		t.Errorf("server %d is back: the clock is %d, of %d", server, clock, is.Dropped)
	}
}

// callEach makes calls for keys with 100 ms each, and returns the durations of the calls
// that did not end at once.
func callEach(t *testing.T, tier *castier.Tier, keys []string) (waits []time.Duration) {
	t.Helper()
	for _, key := range keys {
		for i := range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			var err error
			begun := time.Now()
			switch i {
			case 0:
				_, err = tier.Drop(ctx, []remote.Drop{{Key: key, Soft: true, Token: time.Minute}})
			case 1:
				_, err = tier.Acquire(ctx, []remote.Request{{Key: key}}, time.Minute)
			default:
				_, err = tier.Get(ctx, []string{key})
			}
			if cancel(); err != nil {
				t.Errorf("%s: %v", key, err)
			}
			if took := time.Since(begun); took > 0 {
				waits = append(waits, took)
			}
		}
	}
	return waits
}

// TestValueWithANewTagIsThereForAllAtOnce stores values with tags never used before, also
// while another tag is dropped now and then.
func TestValueWithANewTagIsThereForAllAtOnce(t *testing.T) {
	for _, servers := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			m, tier := open(t, servers)
			other := another(m)
			for i := range 100 {
				key, tag := fmt.Sprint("key", i), fmt.Sprint("tag", i)
				lease := acquire(t, tier, key).Lease
				refused, err := tier.Put(t.Context(), []remote.Put{{Key: key, Data: []byte("v"), Fresh: time.Minute, Left: time.Hour, Lease: lease, Tags: []string{tag, "all"}}})
				if err != nil || len(refused) > 0 {
					t.Fatal(refused, err)
				}
				for _, is := range []remote.Tag{tagsOf(t, tier, tag), tagsOf(t, other, tag), tagsOf(t, tier, "all"), tagsOf(t, other, "all")} {
					if is.Dropped > lease.Clock || is.Expired > lease.Clock {
						t.Fatalf("%s: %+v, and the value has clock %d", tag, is, lease.Clock)
					}
				}
				if i%10 == 9 {
					dropTags(t, other, false, "another")
					time.Sleep(1100 * time.Millisecond) // the clock of leases is up to a second old
				}
			}
			dropTags(t, other, false, "tag7")
			if is := tagsOf(t, tier, "tag7"); is.Dropped == 0 {
				t.Errorf("%+v", is)
			}
		})
	}
}

// TestTagThatWasLostDuringALoadIsDropped: the item that a store makes for the tag says that
// it was dropped together with the latest drop of any tag.
func TestTagThatWasLostDuringALoadIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, tier := open(t, 1)
		tagsOf(t, tier, "t")
		time.Sleep(2 * time.Second)
		lease := acquire(t, tier, "k").Lease
		dropTags(t, another(m), false, "t")
		m.Lose(func(key string) bool { return strings.Contains(key, ":t") })
		if _, err := tier.Put(t.Context(), []remote.Put{{Key: "k", Data: []byte("v"), Fresh: time.Minute, Left: time.Hour, Lease: lease, Tags: []string{"t"}}}); err != nil {
			t.Fatal(err)
		}
		if is := tagsOf(t, tier, "t"); is.Dropped <= lease.Clock {
			t.Errorf("%+v, and the value has clock %d", is, lease.Clock)
		}
	})
}
