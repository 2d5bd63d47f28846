package castier_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
)

// open returns a Tier over n servers in memory.
func open(t *testing.T, n int) (*lab.Model, *castier.Tier) {
	m := lab.NewModel(t, n)
	return m, castier.NewFleet(m).Bind(remote.Space{Name: "users", Schema: 7, Instance: 1}).(*castier.Tier)
}

func acquire(t *testing.T, tier *castier.Tier, key string) remote.Acquired {
	t.Helper()
	got, err := tier.Acquire(t.Context(), []remote.Request{{Key: key}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

func put(t *testing.T, tier *castier.Tier, key, value string, l remote.Lease) (stored bool) {
	t.Helper()
	refused, err := tier.Put(t.Context(), []remote.Put{{Key: key, Data: []byte(value), Fresh: time.Minute, Left: time.Hour, Lease: l}})
	if err != nil {
		t.Fatal(err)
	}
	return len(refused) == 0
}

func get(t *testing.T, tier *castier.Tier, key string) remote.Held {
	t.Helper()
	held, err := tier.Get(t.Context(), []string{key})
	if err != nil {
		t.Fatal(err)
	}
	return held[0]
}

func drop(t *testing.T, tier *castier.Tier, d remote.Drop) remote.Lease {
	t.Helper()
	leases, err := tier.Drop(t.Context(), []remote.Drop{d})
	if err != nil {
		t.Fatal(err)
	}
	return leases[0]
}

// TestAnItemThatIsLostRevivesNothing loses each kind of item, and all of them, before
// and after a drop, and stores under a right from before it.
func TestAnItemThatIsLostRevivesNothing(t *testing.T) {
	for name, lost := range map[string]func(string) bool{
		"entries":  func(key string) bool { return strings.Contains(key[8:], ":k") },
		"drops":    func(key string) bool { return strings.HasSuffix(key, ":D") },
		"expiries": func(key string) bool { return strings.HasSuffix(key, ":X") },
		"all":      func(string) bool { return true },
	} {
		for _, before := range []bool{false, true} {
			for _, all := range []bool{false, true} {
				t.Run(fmt.Sprint(name, "/before=", before, "/all=", all), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { losesAndDrops(t, lost, before, all) })
				})
			}
		}
	}
}

func losesAndDrops(t *testing.T, lost func(string) bool, before, all bool) {
	m, tier := open(t, 2)
	if !put(t, tier, "ada", "old", acquire(t, tier, "ada").Lease) {
		t.Fatal("the first value was refused")
	}
	late := acquireStale(t, tier, "ada")
	if before {
		m.Lose(lost)
	}
	if all {
		if err := tier.DropAll(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	} else {
		drop(t, tier, remote.Drop{Key: "ada"})
	}
	if !before {
		m.Lose(lost)
	}
	tier.Recheck()
	put(t, tier, "ada", "late", late)
	if held := get(t, tier, "ada"); held.Data != nil {
		t.Errorf("holds %q", held.Data)
	}
}

// acquireStale makes the value of key stale, and returns the lease of a caller that
// loads it.
func acquireStale(t *testing.T, tier *castier.Tier, key string) remote.Lease {
	t.Helper()
	drop(t, tier, remote.Drop{Key: key, Soft: true})
	a := acquire(t, tier, key)
	if a.Lease.Grant != remote.Granted {
		t.Fatalf("grant %d", a.Lease.Grant)
	}
	return a.Lease
}

// TestTagsThatAreLostCountAsDropped loses the tags, the clock, or both.
func TestTagsThatAreLostCountAsDropped(t *testing.T) {
	for name, lost := range map[string]func(string) bool{
		"tags":  func(key string) bool { return strings.Contains(key[8:], ":t") },
		"clock": func(key string) bool { return strings.HasSuffix(key, ":c") },
		"all":   func(string) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for range 3 {
					losesTags(t, name, lost)
				}
			})
		})
	}
}

func losesTags(t *testing.T, name string, lost func(string) bool) {
	m, tier := open(t, 3)
	tagsOf(t, tier, "t")
	before := acquire(t, tier, "any").Lease.Clock
	switch name {
	case "clock": // a drop before the loss stays one
		dropTags(t, tier, false, "t")
		m.Lose(lost)
		dropTags(t, tier, false, "u")
	case "tags": // a soft drop of an unknown tag is a hard one
		m.Lose(lost)
		dropTags(t, tier, true, "t")
	case "all": // an instance that knows nothing of before
		m.Lose(lost)
		tier = castier.NewFleet(m).Bind(remote.Space{Name: "users"}).(*castier.Tier)
		time.Sleep(2 * time.Second) // in the bubble's time
	}
	known := tagsOf(t, tier, "t")
	if known.Dropped <= before {
		t.Errorf("the tag was dropped at %d, a lease from before has clock %d", known.Dropped, before)
	}
	tier.Recheck()
	if after := acquire(t, tier, "other").Lease.Clock; after < known.Dropped {
		t.Errorf("a lease from after it has clock %d, of %d", after, known.Dropped)
	}
}

// TestClockThatIsLostIsNotBehind: an instance that never saw it gives leases later than the drops
// from before.
func TestClockThatIsLostIsNotBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, tier := open(t, 3)
		dropTags(t, tier, false, "t")
		dropped := tagsOf(t, tier, "t").Dropped
		m.Lose(func(key string) bool { return strings.HasSuffix(key, ":c") })
		time.Sleep(2 * time.Second)
		if clock := acquire(t, another(m), "k").Lease.Clock; clock < dropped {
			t.Errorf("a lease has clock %d, after a drop at %d", clock, dropped)
		}
	})
}

// TestLeaseAfterADropReachesItsNumber: the first drop of a clock is ahead of the time, and waits for it. The same instance, which
// knows the clock, leases from then on by the number of the drop.
func TestLeaseAfterADropReachesItsNumber(t *testing.T) {
	for _, step := range []time.Duration{time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			m, tier := open(t, 1)
			m.Step = step
			acquire(t, tier, "before")
			dropTags(t, tier, false, "t")
			if after, is := acquire(t, tier, "after").Lease.Clock, tagsOf(t, tier, "t"); after < is.Dropped {
				t.Errorf("steps of %v: a lease after the drop has clock %d, the drop %d", step, after, is.Dropped)
			}
		})
	}
}

// TestDropIsLaterThanLeasesFromBeforeTheClockWasLost loses the clock again and again, while
// instances that know the server's time with different uncertainties give leases and drop a tag.
func TestDropIsLaterThanLeasesFromBeforeTheClockWasLost(t *testing.T) {
	for seed := range uint64(2000) {
		synctest.Test(t, func(t *testing.T) { losesClock(t, seed) })
	}
}

func losesClock(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	m := lab.NewModel(t, 1)
	var tiers []*castier.Tier
	latest := uint64(0) // the clock of a lease
	for i := range 40 {
		time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond) // in a bubble
		if len(tiers) < 4 {
			tiers = append(tiers, another(m))
		}
		tier := tiers[r.IntN(len(tiers))]
		if r.IntN(2) == 0 {
			tier.Recheck()
		}
		if r.IntN(8) == 0 { // as memcached does on a busy machine
			m.Behind = time.Duration(r.IntN(1000)) * time.Millisecond
		}
		switch r.IntN(4) {
		case 0:
			m.Lose(func(key string) bool { return strings.HasSuffix(key, ":c") })
		case 1:
			if number := dropsSoon(t, tier, m, r); number <= latest {
				t.Fatalf("seed %d: a drop has the number %d, a lease from before it %d", seed, number, latest)
			}
		default:
			latest = max(latest, acquire(t, tier, fmt.Sprint(i)).Lease.Clock)
		}
	}
	time.Sleep(5 * time.Second)
	known := tagsOf(t, another(m), "t") // a reader takes a clock made anew beyond the drops
	if last := acquire(t, another(m), "last").Lease; last.Clock < max(known.Dropped, known.Expired) {
		t.Errorf("seed %d: a lease long after a drop at %+v has clock %d", seed, known, last.Clock)
	}
}

// TestLeaseOfAnInstanceThatKnowsALostClockIsBeforeTheNextDrop: the lost clock was ahead of the time. The instance has not asked since,
// or has asked and could not raise the new clock.
func TestLeaseOfAnInstanceThatKnowsALostClockIsBeforeTheNextDrop(t *testing.T) {
	for _, asks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { knowsALostClock(t, asks) })
	}
}

func knowsALostClock(t *testing.T, asks bool) {
	m := lab.NewModel(t, 1)
	m.Step = time.Millisecond
	dropper := another(m)
	unsure := another(lab.Around(m, func(ctx context.Context, _ int, c *lab.ModelCall, run func(context.Context) error) error {
		if c.Clock {
			time.Sleep(400 * time.Millisecond)
		}
		return run(ctx)
	}))
	loader := another(lab.Around(m, func(ctx context.Context, _ int, c *lab.ModelCall, run func(context.Context) error) error {
		if swaps(":c")(c) {
			return lab.ErrDead
		}
		return run(ctx)
	}))
	ctx, cancel := remote.WithTimeout(t.Context(), time.Second) // of which half is too short to wait for its number
	defer cancel()
	if err := unsure.DropTags(ctx, []string{"another"}, false); err != nil {
		t.Fatal(err)
	}
	acquire(t, loader, "first")
	loseItem(m, ":c")
	dropTags(t, dropper, false, "t")
	time.Sleep(50 * time.Millisecond)
	if asks {
		loader.Recheck()
	}
	lease := acquire(t, loader, "k").Lease
	dropTags(t, dropper, false, "t")
	judged(t, another(m), "t", lease.Clock)
}

// dropsSoon drops the tag t in a short time, and returns the number of the drop.
func dropsSoon(t *testing.T, tier *castier.Tier, m *lab.Model, r *rand.Rand) uint64 {
	ctx, cancel := remote.WithTimeout(t.Context(), time.Duration(1+r.IntN(3000))*time.Millisecond)
	defer cancel()
	if err := tier.DropTags(ctx, []string{"t"}, r.IntN(2) == 0); err != nil {
		t.Fatal(err)
	}
	known := tagsOf(t, another(m), "t")
	return max(known.Dropped, known.Expired)
}

func tagsOf(t *testing.T, tier *castier.Tier, tag string) remote.Tag {
	t.Helper()
	known, err := tier.Tags(t.Context(), []string{tag})
	if err != nil {
		t.Fatal(err)
	}
	return known[0]
}

func dropTags(t *testing.T, tier *castier.Tier, soft bool, tag string) {
	t.Helper()
	if err := tier.DropTags(t.Context(), []string{tag}, soft); err != nil {
		t.Fatal(err)
	}
}

// TestUnknownTagsCountAsDropped: a lost tag may have been dropped, so it counts as dropped.
func TestUnknownTagsCountAsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, tier := open(t, 1)
		tagsOf(t, tier, "t")
		before := acquire(t, tier, "any").Lease.Clock
		m.Lose(func(key string) bool { return strings.Contains(key[8:], ":t") })
		if known := tagsOf(t, tier, "t"); known.Dropped <= before {
			t.Errorf("the tag was dropped at %d, a lease from before has clock %d", known.Dropped, before)
		}
	})
}

// TestADeadServerHarmsOnlyItsKeys has one of three servers fail.
func TestADeadServerHarmsOnlyItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, tier := open(t, 3)
		var keys []string
		var requests []remote.Request
		for i := range 30 {
			keys = append(keys, fmt.Sprint("key", i))
			requests = append(requests, remote.Request{Key: keys[i]})
			if !put(t, tier, keys[i], "v", acquire(t, tier, keys[i]).Lease) {
				t.Fatal("refused")
			}
		}
		m.Kill(1, true)
		held, failed := tier.Get(t.Context(), keys)
		acquired, err := tier.Acquire(t.Context(), requests, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		alive := 0
		for i := range keys {
			ok := string(held[i].Data) == "v" && acquired[i].Err == nil && acquired[i].Lease.Grant == remote.Free
			gone := held[i].Absent() && errors.Is(acquired[i].Err, lab.ErrDead)
			if err := remote.ErrorOf(failed, i); gone != errors.Is(err, lab.ErrDead) || gone && remote.FailedServer(err) != "s1" {
				t.Errorf("%s: Get says %v", keys[i], err)
			}
			if !ok && !gone {
				t.Errorf("%s: %+v, %+v", keys[i], held[i], acquired[i])
			}
			if ok {
				alive++
			}
		}
		if alive < 10 || alive > 25 {
			t.Errorf("%d of 30 keys have a server", alive)
		}
		for what, call := range map[string]func() error{
			"DropAll": func() error { return tier.DropAll(t.Context(), false) },
			"Drop": func() error {
				_, err := tier.Drop(t.Context(), []remote.Drop{{Key: keys[0]}, {Key: keys[1]}, {Key: keys[2]}, {Key: keys[3]}, {Key: keys[4]}, {Key: keys[5]}, {Key: keys[6]}})
				return err
			},
		} {
			if err := call(); !errors.Is(err, lab.ErrDead) {
				t.Errorf("%s with a dead server: %v", what, err)
			}
		}
	})
}

// TestAServerThatComesBackRevivesNothing: the drop of a key on a server that does not
// answer fails until it answers, and holds then.
func TestAServerThatComesBackRevivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, tier := open(t, 1)
		put(t, tier, "ada", "old", acquire(t, tier, "ada").Lease)
		m.Kill(0, true)
		if _, err := tier.Drop(t.Context(), []remote.Drop{{Key: "ada"}}); !errors.Is(err, lab.ErrDead) {
			t.Fatalf("Drop: %v", err)
		}
		if _, err := tier.Get(t.Context(), []string{"ada"}); !errors.Is(err, lab.ErrDead) {
			t.Fatalf("Get: %v", err)
		}
		m.Kill(0, false)
		drop(t, tier, remote.Drop{Key: "ada"})
		if held := get(t, tier, "ada"); held.Data != nil {
			t.Errorf("holds %q", held.Data)
		}
	})
}

// TestALateStoreIsNeverStored drops a key between the reading and the writing of each
// store, many times.
func TestALateStoreIsNeverStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, tier := open(t, 1)
		other := castier.NewFleet(m).Bind(remote.Space{Name: "users", Schema: 7, Instance: 2}).(*castier.Tier)
		for i := range 10_000 {
			key := fmt.Sprint("key", i%7)
			lease := acquire(t, tier, key).Lease
			var once sync.Once
			m.Between = func(_ int, c *lab.ModelCall) {
				if len(c.Swaps) > 0 {
					once.Do(func() {
						m.Between = nil
						drop(t, other, remote.Drop{Key: key, Soft: i%2 == 0})
					})
				}
			}
			if put(t, tier, key, "late", lease) {
				t.Fatalf("round %d: stored", i)
			}
			if held := get(t, tier, key); held.Data != nil {
				t.Fatalf("round %d: holds %q", i, held.Data)
			}
		}
	})
}

// TestEvictionAtAnyTimeServesNothingDropped evicts items at random while values are
// stored and dropped.
func TestEvictionAtAnyTimeServesNothingDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, tier := open(t, 2)
		var leases []remote.Lease
		var newest int
		for i := range 20_000 {
			switch rand.IntN(6) {
			case 0:
				newest = i
				drop(t, tier, remote.Drop{Key: "k", Soft: rand.IntN(3) == 0, Token: time.Duration(rand.IntN(2)) * time.Minute})
				leases = nil // the puts below have later numbers than this drop, so they need leases from after it
			case 1:
				m.Evict(3)
			case 2:
				if a := acquire(t, tier, "k"); a.Lease.Grant == remote.Granted {
					leases = append(leases, a.Lease)
				}
			case 3:
				if n := len(leases); n > 0 {
					put(t, tier, "k", fmt.Sprint(i), leases[rand.IntN(n)])
				}
			case 4:
				time.Sleep(time.Duration(rand.IntN(30)) * time.Second)
			default:
				var at int
				if held := get(t, tier, "k"); !held.Absent() && !held.Soft {
					if _, err := fmt.Sscan(string(held.Data), &at); err != nil || at < newest {
						t.Fatalf("step %d: holds %q fresh, after the drop of step %d", i, held.Data, newest)
					}
				}
			}
		}
	})
}

func TestLivesOfLessThanASecondAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tier := open(t, 1)
		l := acquire(t, tier, "k").Lease
		_, err := tier.Put(t.Context(), []remote.Put{{Key: "k", Left: 999 * time.Millisecond, Lease: l}})
		if !errors.Is(err, remote.ErrRefused) || !strings.Contains(err.Error(), "steps of 1s") {
			t.Errorf("Put: %v", err)
		}
		if _, err := tier.Extend(t.Context(), "k", 0, time.Millisecond, l, 1); !errors.Is(err, remote.ErrRefused) {
			t.Errorf("Extend: %v", err)
		}
		if !put(t, tier, "k", "v", l) {
			t.Error("the lease was used up")
		}
	})
}

// TestForeignItemsAreAbsentAndCounted writes bytes of others under the key of an entry.
func TestForeignItemsAreAbsentAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, tier := open(t, 1)
		put(t, tier, "k", "v", acquire(t, tier, "k").Lease)
		m.Each(0, func(key string, is *lab.ModelItem) {
			if strings.HasSuffix(key, "kk") {
				is.Data = []byte("something else")
			}
		})
		if held := get(t, tier, "k"); !held.Absent() || tier.Foreign() != 1 {
			t.Errorf("%+v, %d foreign", held, tier.Foreign())
		}
		if !put(t, tier, "k", "new", acquire(t, tier, "k").Lease) {
			t.Error("a foreign item stays")
		}
	})
}

// TestAReadTakesOneTripAndAStoreTwo counts the trips to the server when the counters are
// remembered.
func TestAReadTakesOneTripAndAStoreTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, tier := open(t, 1)
		get(t, tier, "warm")
		acquire(t, tier, "warm")
		trips := func(want int, what string, f func()) {
			m.Trips()
			f()
			if n := m.Trips(); n != want {
				t.Errorf("%s: %d trips, not %d", what, n, want)
			}
		}
		var l remote.Lease
		trips(1, "Get", func() { get(t, tier, "k") })
		trips(2, "Acquire", func() { l = acquire(t, tier, "k").Lease })
		trips(2, "Put", func() { put(t, tier, "k", "v", l) })
		trips(1, "Acquire of a fresh value", func() { acquire(t, tier, "k") })
		trips(2, "Drop", func() { drop(t, tier, remote.Drop{Key: "k"}) })
		trips(1, "Drop of an absent key", func() { drop(t, tier, remote.Drop{Key: "k"}) })
	})
}

// TestOneOfManyInstancesLoads has 1000 callers on three instances ask for one key.
func TestOneOfManyInstancesLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lab.NewModel(t, 3)
		var granted sync.Map
		var wg sync.WaitGroup
		for i := range 3 {
			tier := castier.NewFleet(m).Bind(remote.Space{Name: "users", Instance: uint64(i)}).(*castier.Tier)
			for c := range 333 {
				wg.Go(func() {
					a, err := tier.Acquire(context.Background(), []remote.Request{{Key: "hot"}}, time.Minute)
					if err != nil {
						t.Error(err)
					} else if a[0].Lease.Grant == remote.Granted {
						granted.Store([2]int{i, c}, true)
					}
				})
			}
		}
		wg.Wait()
		n := 0
		granted.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Errorf("%d were granted the lease", n)
		}
	})
}
