package agreement_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// claimers opens n instances for the tests of Add and Take.
type claimers func(t *testing.T, n int) []*strata.Cache[string, int64]

// claimSettings are read-only.
var claimSettings = map[string]claimers{
	"no L2": func(t *testing.T, n int) (all []*strata.Cache[string, int64]) {
		c := lab.NewCache[string, int64](t)
		for range n {
			all = append(all, c)
		}
		return all
	},
	"a bus alone": func(t *testing.T, n int) (all []*strata.Cache[string, int64]) {
		bus := stratatest.NewBus()
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Remote.Bus = bus.Connect() })
		for range n {
			all = append(all, c)
		}
		synctest.Wait()
		return all
	},
	"L2": func(t *testing.T, n int) (all []*strata.Cache[string, int64]) {
		s := lab.NewTagged(t)
		for range n {
			all = append(all, lab.Instance[string, int64](t, s))
		}
		return all
	},
	"L2, nothing in L1": func(t *testing.T, n int) (all []*strata.Cache[string, int64]) {
		s := lab.NewTagged(t)
		for range n {
			all = append(all, lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Memory.Off = true }))
		}
		return all
	},
}

func forEachClaim(t *testing.T, test func(t *testing.T, all []*strata.Cache[string, int64])) {
	for name, open := range claimSettings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, open(t, 3)) })
		})
	}
}

func adds(t *testing.T, c *strata.Cache[string, int64], v int64, want bool, opts ...strata.CallOption) {
	t.Helper()
	if added, err := c.Add(t.Context(), "k", v, opts...); added != want || err != nil {
		t.Errorf("Add(%d): %v, %v; want %v", v, added, err, want)
	}
}

func takes(t *testing.T, c *strata.Cache[string, int64], want int64, found bool) {
	t.Helper()
	if v, ok, err := c.Take(t.Context(), "k"); v != want || ok != found || err != nil {
		t.Errorf("Take: %d, %v, %v; want %d, %v", v, ok, err, want, found)
	}
}

func TestOneOfManyCallersAddsAKeyAndOneTakesIt(t *testing.T) {
	forEachClaim(t, func(t *testing.T, all []*strata.Cache[string, int64]) {
		for round := range int64(20) {
			var added, taken, sum atomic.Int64
			var callers sync.WaitGroup
			for i := range int64(30) {
				callers.Go(func() {
					ok, err := all[i%3].Add(t.Context(), "k", round*100+i)
					if err != nil {
						t.Errorf("Add: %v", err)
					}
					if ok {
						added.Add(1)
						sum.Add(round*100 + i)
					}
				})
			}
			callers.Wait()
			for i := range int64(30) {
				callers.Go(func() {
					v, ok, err := all[i%3].Take(t.Context(), "k")
					if err != nil {
						t.Errorf("Take: %v", err)
					}
					if ok {
						taken.Add(1)
						sum.Add(-v)
					}
				})
			}
			callers.Wait()
			if added.Load() != 1 || taken.Load() != 1 || sum.Load() != 0 {
				t.Fatalf("round %d: added %d times, taken %d times, %d left", round, added.Load(), taken.Load(), sum.Load())
			}
			synctest.Wait()
			for _, c := range all {
				lab.WantNotFound(t, c)
			}
		}
	})
}

func TestAddRespectsWhatIsThere(t *testing.T) {
	there := map[string]struct {
		before func(t *testing.T, c *strata.Cache[string, int64])
		want   bool
	}{
		"nothing":              {func(*testing.T, *strata.Cache[string, int64]) {}, true},
		"a value that was set": {func(t *testing.T, c *strata.Cache[string, int64]) { lab.Must(t, c.Set(t.Context(), "k", 1)) }, false},
		"a loaded value":       {func(t *testing.T, c *strata.Cache[string, int64]) { lab.MustGet(t, c, "k", lab.PlainLoad) }, false},
		"a tagged value": {func(t *testing.T, c *strata.Cache[string, int64]) {
			lab.Must(t, c.Set(t.Context(), "k", 1, strata.WithTags("t")))
		}, false},
		"an added value": {func(t *testing.T, c *strata.Cache[string, int64]) { adds(t, c, 1, true) }, false},
		"a stale value": {func(t *testing.T, c *strata.Cache[string, int64]) {
			lab.Must(t, c.Set(t.Context(), "k", 1))
			time.Sleep(2 * time.Minute)
		}, true},
		"an expired value": {func(t *testing.T, c *strata.Cache[string, int64]) {
			lab.Must(t, c.Set(t.Context(), "k", 1))
			lab.Must(t, c.Expire(t.Context(), "k"))
		}, true},
		"all expired": {func(t *testing.T, c *strata.Cache[string, int64]) {
			lab.Must(t, c.Set(t.Context(), "k", 1))
			lab.Must(t, c.ExpireAll(t.Context()))
		}, true},
		"an expired tag": {func(t *testing.T, c *strata.Cache[string, int64]) {
			lab.Must(t, c.Set(t.Context(), "k", 1, strata.WithTags("t")))
			lab.Must(t, c.ExpireTags(t.Context(), "t"))
		}, true},
		"a dropped tag": {func(t *testing.T, c *strata.Cache[string, int64]) {
			lab.Must(t, c.Set(t.Context(), "k", 1, strata.WithTags("t")))
			lab.Must(t, c.InvalidateTags(t.Context(), "t"))
		}, true},
		"a dropped value": {func(t *testing.T, c *strata.Cache[string, int64]) {
			lab.Must(t, c.Set(t.Context(), "k", 1))
			lab.Must(t, c.Invalidate(t.Context(), "k"))
		}, true},
		"not found": {func(t *testing.T, c *strata.Cache[string, int64]) {
			lab.Must(t, c.SetNotFound(t.Context(), "k", strata.WithTTL(time.Hour)))
		}, true},
		"a failure": {func(t *testing.T, c *strata.Cache[string, int64]) {
			_, _ = c.GetOrLoad(t.Context(), "k", lab.DownLoad)
		}, true},
		"a hold": {func(t *testing.T, c *strata.Cache[string, int64]) {
			lab.Must(t, c.InvalidateHold(t.Context(), time.Minute, "k"))
		}, false},
		"a taken value": {func(t *testing.T, c *strata.Cache[string, int64]) {
			lab.Must(t, c.Set(t.Context(), "k", 1))
			takes(t, c, 1, true)
		}, true},
	}
	for name, tt := range there {
		t.Run(name, func(t *testing.T) {
			forEachClaim(t, func(t *testing.T, all []*strata.Cache[string, int64]) {
				if name == "a value that was set" { // it is in each L1
					defer func() { lab.WantFound(t, all[2], 1) }()
				}
				tt.before(t, all[0])
				synctest.Wait()
				for _, c := range all {
					_, _ = c.Get(t.Context(), "k", strata.AllowStale())
				}
				adds(t, all[1], 7, tt.want)
				synctest.Wait()
				for i, c := range all {
					v, ok := c.Get(t.Context(), "k")
					if tt.want && (v != 7 || !ok) {
						t.Errorf("instance %d reads %d, %v after an Add", i, v, ok)
					}
					if !tt.want && v == 7 {
						t.Errorf("instance %d reads what was not added", i)
					}
				}
			})
		})
	}
}

func TestTakeTakesAFreshValueOnly(t *testing.T) {
	forEachClaim(t, func(t *testing.T, all []*strata.Cache[string, int64]) {
		takes(t, all[0], 0, false)
		lab.Must(t, all[0].Set(t.Context(), "k", 1, strata.WithTags("t"), strata.WithStale(strata.Stale{OnError: time.Hour})))
		for _, c := range all {
			lab.WantFound(t, c, 1)
		}
		takes(t, all[1], 1, true)
		synctest.Wait()
		for _, c := range all {
			lab.WantNotFound(t, c, strata.AllowStale())
		}
		takes(t, all[2], 0, false)
		for name, end := range map[string]func(c *strata.Cache[string, int64]) error{
			"Expire":         func(c *strata.Cache[string, int64]) error { return c.Expire(t.Context(), "k") },
			"Invalidate":     func(c *strata.Cache[string, int64]) error { return c.Invalidate(t.Context(), "k") },
			"InvalidateTags": func(c *strata.Cache[string, int64]) error { return c.InvalidateTags(t.Context(), "t") },
			"ExpireAll":      func(c *strata.Cache[string, int64]) error { return c.ExpireAll(t.Context()) },
			"not found": func(c *strata.Cache[string, int64]) error {
				return c.SetNotFound(t.Context(), "k", strata.WithTTL(time.Hour))
			},
			"time": func(*strata.Cache[string, int64]) error { time.Sleep(time.Minute); return nil },
		} {
			lab.Must(t, all[0].Set(t.Context(), "k", 1, strata.WithTags("t")))
			lab.Must(t, end(all[0]))
			synctest.Wait()
			if v, ok, err := all[1].Take(t.Context(), "k"); ok || err != nil {
				t.Errorf("after %s: %d, %v, %v", name, v, ok, err)
			}
		}
	})
}

// TestAddAndTakeWaitForTheLoadOfAnotherInstance, and a load that runs cannot undo them.
func TestAddAndTakeWaitForTheLoadOfAnotherInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		o := &lab.Origin{Takes: 10 * time.Second}
		o.Value.Store(5)
		var load sync.WaitGroup
		load.Go(func() { lab.MustGet(t, a, "k", o.Load) })
		synctest.Wait()
		begun := time.Now()
		adds(t, b, 7, false)
		if waited := time.Since(begun); waited < 9*time.Second || waited > 11*time.Second {
			t.Errorf("waited %v for a load of 10s", waited)
		}
		load.Wait()
		load.Go(func() { _, _ = a.GetOrLoad(t.Context(), "k", o.Load, strata.SkipRead()) })
		synctest.Wait()
		takes(t, b, 5, true)
		load.Wait()
		synctest.Wait() // a has heard of it
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		load.Go(func() { lab.MustGet(t, a, "k", o.Load) })
		synctest.Wait()
		if added, err := b.Add(ctx, "k", 7); added || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v; want the end of its context", added, err)
		}
		if v, ok, err := b.Take(ctx, "k"); ok || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d, %v, %v; want the end of its context", v, ok, err)
		}
		load.Wait()
	})
}

func TestAddAndTakeSayThatL2DidNotConfirm(t *testing.T) {
	for _, op := range []string{"Acquire", "Put"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				var down atomic.Bool
				c := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = lab.Failing(s.Tier, op, &down) })
				lab.Must(t, c.Set(t.Context(), "there", 1))
				down.Store(true)
				var re *strata.RemoteError
				if added, err := c.Add(t.Context(), "k", 7); added || !errors.As(err, &re) || re.Op != "add" {
					t.Errorf("Add: %v, %v", added, err)
				}
				lab.WantNotFound(t, c)
				if v, ok, err := c.Take(t.Context(), "there"); ok || !errors.As(err, &re) || re.Op != "take" {
					t.Errorf("Take: %d, %v, %v", v, ok, err)
				}
				down.Store(false)
				time.Sleep(time.Minute)
				synctest.Wait()
				adds(t, c, 8, true)
				lab.WantFound(t, c, 8)
			})
		})
	}
}

func TestClosedCacheAddsAndTakesNothing(t *testing.T) {
	forEachClaim(t, func(t *testing.T, all []*strata.Cache[string, int64]) {
		for _, c := range all {
			lab.Must(t, c.Close(context.Background()))
		}
		if added, err := all[0].Add(t.Context(), "k", 1); added || !errors.Is(err, strata.ErrClosed) {
			t.Errorf("%v, %v", added, err)
		}
		if v, ok, err := all[0].Take(t.Context(), "k"); ok || !errors.Is(err, strata.ErrClosed) {
			t.Errorf("%d, %v, %v", v, ok, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		var waits sync.WaitGroup
		waits.Go(func() { lab.MustGet(t, a, "k", (&lab.Origin{Takes: 10 * time.Second}).Load) })
		synctest.Wait()
		waits.Go(func() {
			if added, err := b.Add(t.Context(), "k", 1); added || !errors.Is(err, strata.ErrClosed) {
				t.Errorf("closed while it waits: %v, %v", added, err)
			}
		})
		synctest.Wait()
		lab.Must(t, b.Close(context.Background()))
		waits.Wait()
	})
}

// TestStoreHookTellsEachValueAndTier has a row for each way of storing.
func TestStoreHookTellsEachValueAndTier(t *testing.T) {
	ways := map[string]func(t *testing.T, c *strata.Cache[string, int64]){
		"load": func(t *testing.T, c *strata.Cache[string, int64]) { lab.MustGet(t, c, "k", lab.PlainLoad) },
		"Set":  func(t *testing.T, c *strata.Cache[string, int64]) { lab.Must(t, c.Set(t.Context(), "k", 1)) },
		"SetMany": func(t *testing.T, c *strata.Cache[string, int64]) {
			lab.Must(t, c.SetMany(t.Context(), map[string]int64{"k": 1}))
		},
		"Add": func(t *testing.T, c *strata.Cache[string, int64]) { adds(t, c, 1, true) },
		"Update": func(t *testing.T, c *strata.Cache[string, int64]) {
			lab.Must(t, c.Update(t.Context(), "k", func(context.Context) (int64, error) { return 1, nil }))
		},
		"batch": func(t *testing.T, c *strata.Cache[string, int64]) {
			_, err := c.GetMany(t.Context(), []string{"k"}, func(context.Context, []string) (map[string]int64, error) {
				return map[string]int64{"k": 1}, nil
			})
			lab.Must(t, err)
		},
	}
	for name, store := range ways {
		for where, tiers := range map[string]int{"no L2": 1, "L2": 2} {
			t.Run(name+", "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var mu sync.Mutex
					told := map[string]int{}
					hook := func(o *strata.Options[string, int64]) {
						o.Hooks = &strata.Hooks{Store: func(e strata.Event) {
							mu.Lock()
							defer mu.Unlock()
							told[fmt.Sprintf("%v%v%v%v", e.Tier, e.Key, e.Value, e.Context != nil)]++
						}}
					}
					s := lab.NewShared()
					open := func() *strata.Cache[string, int64] { return lab.Instance(t, s, hook) }
					if tiers == 1 {
						open = func() *strata.Cache[string, int64] { return lab.NewCache(t, hook) }
					}
					c := open()
					store(t, c)
					synctest.Wait()
					if len(told) != tiers || told["L1k1true"] != 1 || tiers == 2 && told["L2k1true"] != 1 {
						t.Errorf("told %v", told)
					}
					clear(told)
					lab.WantFound(t, c, 1)
					if len(told) != 0 {
						t.Errorf("a hit: told %v", told)
					}
					if tiers == 2 {
						lab.WantFound(t, open(), 1)
						if len(told) != 1 || told["L1k1true"] != 1 {
							t.Errorf("a value from L2: told %v", told)
						}
					}
				})
			})
		}
	}
}

// TestAddAndTakeOverOlderVersions: a value of an older version of the program is there, and is
// taken as the present version has it.
func TestAddAndTakeOverOlderVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t)
		old, now := p.v1(), p.v2()
		lab.Must(t, old.set("k", 1))
		if added, err := now.Add(t.Context(), "k", newV2(2)); added || err != nil {
			t.Errorf("Add over a value of an older version: %v, %v", added, err)
		}
		if v, ok, err := now.Take(t.Context(), "k"); v.N != 1 || !ok || err != nil {
			t.Errorf("Take of a value of an older version: %+v, %v, %v", v, ok, err)
		}
		synctest.Wait()
		if v, ok := old.Get(t.Context(), "k"); ok {
			t.Errorf("the older version still has %+v", v)
		}
		if v, ok, err := now.Take(t.Context(), "k"); ok || err != nil {
			t.Errorf("taken twice: %+v, %v, %v", v, ok, err)
		}
	})
}

// TestAddAndTakeOfAnInstanceThatIsOff: writes reach L2, and L1 stays empty.
func TestAddAndTakeOfAnInstanceThatIsOff(t *testing.T) {
	forEachClaim(t, func(t *testing.T, all []*strata.Cache[string, int64]) {
		off, other := all[0], all[1]
		lab.Tune(t, off, strata.Tuning{Off: new(true)})
		shared := off != other
		adds(t, off, 1, shared)
		if off.Len() != 0 {
			t.Errorf("%d entries in L1", off.Len())
		}
		synctest.Wait()
		if v, ok := other.Get(t.Context(), "k"); ok != shared || ok && v != 1 {
			t.Errorf("another instance: %d, %v", v, ok)
		}
		if !shared {
			takes(t, off, 0, false)
			return
		}
		takes(t, off, 1, true)
		synctest.Wait()
		lab.WantNotFound(t, other)
	})
}

// TestAddWithNoRemoteIsForThisInstance, and one with NoMemory for L2.
func TestAddWithNoRemoteIsForThisInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		adds(t, a, 1, true, strata.NoRemote())
		adds(t, a, 2, false, strata.NoRemote())
		lab.WantFound(t, a, 1)
		lab.WantNotFound(t, b)
		adds(t, b, 3, true, strata.NoMemory()) // L2 decides, and has none
		if b.Len() != 0 {
			t.Errorf("%d entries in L1", b.Len())
		}
		synctest.Wait()
		lab.WantFound(t, a, 3)
	})
}

// TestAddAndTakeCopyValuesWithClone.
func TestAddAndTakeCopyValuesWithClone(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, change func(*strata.Options[string, []byte])) *strata.Cache[string, []byte]{
		"no L2": func(t *testing.T, change func(*strata.Options[string, []byte])) *strata.Cache[string, []byte] {
			return lab.NewCache(t, change)
		},
		"L2": func(t *testing.T, change func(*strata.Options[string, []byte])) *strata.Cache[string, []byte] {
			return lab.Instance(t, lab.NewShared(), change)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := open(t, func(o *strata.Options[string, []byte]) { o.Memory.Clone = slices.Clone[[]byte] })
				v := []byte("one")
				if added, err := c.Add(t.Context(), "k", v); !added || err != nil {
					t.Fatal(added, err)
				}
				v[0] = 'X'
				if got, ok, err := c.Take(t.Context(), "k"); string(got) != "one" || !ok || err != nil {
					t.Errorf("%q, %v, %v", got, ok, err)
				}
			})
		})
	}
}

// TestSnapshotBringsNoTakenValueBack, nor an older one after an Add.
func TestSnapshotBringsNoTakenValueBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		lab.Must(t, c.Set(t.Context(), "k", 1))
		all, position := lab.EntriesOf(t, c, 0, 1)
		takes(t, c, 1, true)
		restore := func() {
			r := lab.RestoreOf(t, c)
			r.Cover(t.Context(), position)
			e := all["k"]
			r.Entry(&e, 0, false)
			r.Close()
		}
		restore()
		lab.WantNotFound(t, c)
		adds(t, c, 2, true)
		restore()
		lab.WantFound(t, c, 2)
	})
}

// TestAddSeesWhatIsStoredWhileItJudgesTheEntry: the program's Key, which is asked for the lane
// of an entry after messages were lost, is called without a lock, and may use the cache.
func TestAddSeesWhatIsStoredWhileItJudgesTheEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, asked := lab.NewShared(), true
		line := s.Bus.Connect()
		var c *strata.Cache[string, int64]
		c = lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Bus = line
			o.Remote.ParseKey = func(k string) (string, error) { return k, nil }
			o.Remote.Key = func(k string) string {
				if !asked {
					asked = true
					lab.Must(t, c.Set(context.Background(), k, 3, strata.NoRemote())) // it locks the flights of the key
				}
				return k
			}
		})
		other := lab.Instance[string, int64](t, s)
		adds(t, c, 1, true, strata.NoRemote())
		line.Cut()
		lab.Must(t, other.Invalidate(t.Context(), "k"))
		line.Join()
		time.Sleep(5 * time.Second) // in the bubble
		asked = false
		adds(t, c, 2, false, strata.NoRemote())
		if !asked {
			t.Fatal("Key was not asked")
		}
	})
}

func TestTakeTakesNothingFromAKeyOnHold(t *testing.T) {
	forEachClaim(t, func(t *testing.T, all []*strata.Cache[string, int64]) {
		c := all[0]
		lab.Must(t, c.InvalidateHold(t.Context(), time.Minute, "k"))
		lab.Must(t, c.Set(t.Context(), "k", 1))
		takes(t, c, 0, false)
		lab.WantHeld(t, "the cache", c, 1)
		time.Sleep(time.Minute)
		lab.Must(t, c.Set(t.Context(), "k", 2))
		takes(t, c, 2, true)
	})
}

// TestClaimThatFailsGivesItsLeaseBack: the question about tags fails after the lease was granted, or L2 refuses the put.
func TestClaimThatFailsGivesItsLeaseBack(t *testing.T) {
	for op, err := range map[string]error{"Tags": errors.New("down"), "Put": remote.ErrValueTooLarge} {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewTagged(t)
			down := true
			fails := func(o *strata.Options[string, int64]) {
				o.Remote.Tier = stratatest.FaultyTier(s.Tier, func(called, _ string) (time.Duration, error) {
					if called == op && down {
						down = false
						return 0, err
					}
					return 0, nil
				})
			}
			a, b := lab.Instance(t, s, fails), lab.Instance[string, int64](t, s)
			down = false
			lab.Must(t, a.Set(t.Context(), "k", 1, strata.WithTags("t")))
			time.Sleep(2 * time.Minute) // in the bubble: it is stale
			down = true
			begun := time.Now()
			_, _ = a.Add(t.Context(), "k", 2)
			if took := time.Since(begun); took > time.Second {
				t.Errorf("%s fails: Add takes %v", op, took)
			}
			begun = time.Now()
			lab.MustGet(t, b, "k", lab.PlainLoad)
			if took := time.Since(begun); took > time.Second {
				t.Errorf("%s has failed: a load by another instance takes %v", op, took)
			}
		})
	}
}

// TestTakeOfNothingCopiesNothing, and a Take that L2 has refused has dropped nothing.
func TestTakeOfNothingCopiesNothing(t *testing.T) {
	forEachClaim(t, func(t *testing.T, _ []*strata.Cache[string, int64]) {
		s := lab.NewShared()
		var down atomic.Bool
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = stratatest.FaultyTier(s.Tier, func(op, _ string) (time.Duration, error) {
				if op == "Put" && down.Load() {
					return 0, remote.ErrValueTooLarge
				}
				return 0, nil
			})
			o.Memory.Clone = func(v int64) int64 {
				if v == 0 {
					t.Error("a value that is not there is copied")
				}
				return v
			}
		})
		if _, ok, err := c.Take(t.Context(), "none"); ok || err != nil {
			t.Error(ok, err)
		}
		lab.Must(t, c.Set(t.Context(), "k", 1))
		down.Store(true)
		var re *strata.RemoteError
		if _, ok, err := c.Take(t.Context(), "k"); ok || !errors.As(err, &re) || re.Dropped {
			t.Errorf("%v, %+v", ok, err)
		}
	})
}
