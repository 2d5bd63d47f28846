package loads_test

import (
	"context"
	"errors"
	"fmt"
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

// refreshAt makes reads refresh after that share of a TTL of 100 seconds.
func refreshAt(share float64) func(*strata.Options[string, int64]) {
	return func(o *strata.Options[string, int64]) {
		o.TTL, o.RefreshAt = 100*time.Second, share
	}
}

func TestReadLateInTheTTLRefreshesInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, refreshAt(0.75))
		o := &lab.Origin{Takes: time.Second}
		lab.MustGet(t, c, "k", o.Load)
		time.Sleep(75*time.Second - 1)
		lab.GetTakes(t, c, o.Load, 0)
		synctest.Wait()
		if n := o.Loads.Load(); n != 1 {
			t.Errorf("%d loads 1ns before its time, want 1", n)
		}
		o.Value.Store(2)
		time.Sleep(1)
		for range 10 {
			if took := lab.GetTakes(t, c, o.Load, 0); took != 0 {
				t.Errorf("a fresh value took %v", took)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		lab.GetTakes(t, c, o.Load, 2)
		if st := c.Stats(); o.Loads.Load() != 2 || st.Refreshes != 1 {
			t.Errorf("%d loads, %d refreshes; want 2, 1", o.Loads.Load(), st.Refreshes)
		}
		if left := c.Explain(t.Context(), "k").L1.Fresh; left != 100*time.Second {
			t.Errorf("fresh for %v after it, want 100s", left)
		}
	})
}

func TestKeyWithoutReadersIsNotRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, refreshAt(0.1), lab.Windows(time.Hour, time.Hour))
		o := &lab.Origin{}
		lab.MustGet(t, c, "k", o.Load)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if n := o.Loads.Load(); n != 1 || c.Len() != 0 && !lab.Encoded() { // there it counts until its memory is needed
			t.Errorf("%d loads, %d entries; want 1, 0", n, c.Len())
		}
	})
}

func TestReadersThatArriveTogetherRefreshOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, refreshAt(0.75))
		o := &lab.Origin{Takes: time.Second}
		lab.MustGet(t, c, "k", o.Load)
		time.Sleep(90 * time.Second)
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() { lab.MustGet(t, c, "k", o.Load) })
		}
		wg.Wait()
		time.Sleep(2 * time.Second)
		if n := o.Loads.Load(); n != 2 {
			t.Errorf("%d loads, want 2", n)
		}
	})
}

func TestMissJoinsTheRefreshThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, refreshAt(0.75))
		o := &lab.Origin{Takes: 30 * time.Second}
		lab.MustGet(t, c, "k", o.Load)
		time.Sleep(90 * time.Second)
		o.Value.Store(2)
		lab.GetTakes(t, c, o.Load, 0)
		time.Sleep(15 * time.Second)
		if took := lab.GetTakes(t, c, o.Load, 2); took != 15*time.Second || o.Loads.Load() != 2 {
			t.Errorf("the miss took %v, %d loads; want 15s, 2", took, o.Loads.Load())
		}
		if st := c.Stats(); st.Joins != 1 || st.Refreshes != 1 {
			t.Errorf("%d joins, %d refreshes; want 1, 1", st.Joins, st.Refreshes)
		}
	})
}

func TestRefreshKeepsTheValuesOfAContextButNotItsEnd(t *testing.T) {
	type trace struct{}
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, refreshAt(0.75))
		lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
		time.Sleep(90 * time.Second)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), trace{}, "id"))
		seen := make(chan any, 1)
		load := func(ctx context.Context, _ string) (int64, error) {
			time.Sleep(time.Second)
			seen <- ctx.Value(trace{})
			return 2, ctx.Err()
		}
		if _, err := c.GetOrLoad(ctx, "k", load); err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Second)
		synctest.Wait()
		select {
		case id := <-seen:
			if id != "id" {
				t.Errorf("the loader sees %v, want id", id)
			}
		default:
			t.Error("there was no refresh")
		}
		lab.GetTakes(t, c, load, 2)
	})
}

func TestRefreshesBeyondMaxRefreshesAreLeftOutAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 500
		c := lab.NewCache(t, func(o *strata.Options[int, int]) {
			o.TTL, o.RefreshAt = 100*time.Second, 0.5
			o.Limits.MaxRefreshes = 8
		})
		var loads atomic.Int64
		load := func(context.Context, int) (int, error) { loads.Add(1); time.Sleep(10 * time.Second); return 1, nil }
		values := map[int]int{}
		for k := range keys {
			values[k] = k
		}
		if err := c.SetMany(t.Context(), values); err != nil {
			t.Fatal(err)
		}
		time.Sleep(60 * time.Second)
		start := time.Now()
		for k := range keys {
			if _, err := c.GetOrLoad(t.Context(), k, load); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		st := c.Stats()
		if time.Since(start) != 0 || st.RefreshesDropped == 0 || st.Refreshes+st.RefreshesDropped != keys {
			t.Errorf("%v, %d refreshes and %d dropped; want all at once, some dropped, %d in sum",
				time.Since(start), st.Refreshes, st.RefreshesDropped, keys)
		}
		if st.Refreshes != 8 {
			t.Errorf("%d refreshes at once, want 8", st.Refreshes)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for range 3 { // the refreshed entries make room
			if _, err := c.GetOrLoad(t.Context(), keys-1, load); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := uint64(loads.Load()); n != st.Refreshes+1 {
			t.Errorf("%d loads, want %d: one more", n, st.Refreshes+1)
		}
	})
}

func TestRefreshSpreadMakesInstancesRefreshAtDifferentTimes(t *testing.T) {
	refreshes := func(spread float64) map[time.Duration]int {
		times := map[time.Duration]int{}
		synctest.Test(t, func(t *testing.T) {
			for range 60 {
				c := lab.NewCache(t, refreshAt(0.875), func(o *strata.Options[string, int64]) { o.RefreshSpread = spread })
				o := &lab.Origin{Takes: 10 * time.Second}
				lab.MustGet(t, c, "k", o.Load)
				start := time.Now()
				for o.Loads.Load() == 1 && time.Since(start) < 100*time.Second {
					time.Sleep(time.Second)
					lab.MustGet(t, c, "k", o.Load)
					synctest.Wait()
				}
				times[time.Since(start)]++
			}
		})
		return times
	}
	if times := refreshes(0); len(times) != 1 || times[88*time.Second] != 60 {
		t.Errorf("without it: %v, want all at 88s", times)
	}
	times := refreshes(2)
	for at := range times {
		if at > 88*time.Second || at < 50*time.Second {
			t.Errorf("refreshed after %v, want 50s to 88s", at)
		}
	}
	if len(times) < 8 {
		t.Errorf("with it: %v, want many times", times)
	}
}

func TestInstancesThatRefreshTogetherLoadOnce(t *testing.T) {
	for name, want := range map[string]int64{"another value": 2, "not modified": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				all := make([]*strata.Cache[string, int64], 3)
				o := &lab.Origin{Takes: time.Second}
				o.Value.Store(1)
				for i := range all {
					all[i] = lab.Instance(t, s, refreshAt(0.75))
					lab.MustGet(t, all[i], "k", o.Load)
				}
				o.Value.Store(want)
				load := func(c *strata.Cache[string, int64]) strata.Loader[string, int64] {
					return func(ctx context.Context, key string) (int64, error) {
						v, err := o.Load(ctx, key)
						if held, ok := c.Previous(ctx); ok && held == v {
							return 0, strata.ErrNotModified
						}
						return v, err
					}
				}
				time.Sleep(85 * time.Second)
				for _, c := range all {
					lab.GetTakes(t, c, load(c), 1)
				}
				time.Sleep(3 * time.Second)
				synctest.Wait()
				for _, c := range all {
					lab.GetTakes(t, c, load(c), want)
				}
				synctest.Wait()
				if n := o.Loads.Load(); n != 2 {
					t.Errorf("%d loads in the cluster, want 2", n)
				}
			})
		})
	}
}

func TestRefreshByATierWithoutRefresherIsNoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance(t, s, refreshAt(0.75), func(o *strata.Options[string, int64]) {
			o.Remote.Tier = struct{ remote.Tier }{lab.WithoutRefresh(s.Tier)}
		})
		o := &lab.Origin{}
		lab.MustGet(t, c, "k", o.Load)
		time.Sleep(90 * time.Second)
		lab.GetTakes(t, c, o.Load, 0)
		synctest.Wait()
		if n := o.Loads.Load(); n != 1 {
			t.Errorf("%d loads without a lease, want 1", n)
		}
	})
}

func TestRefreshThatFindsNothingRemovesTheValueEverywhere(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"remembered": 30 * time.Second, "not remembered": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				change := func(o *strata.Options[string, int64]) { o.NotFoundTTL = ttl }
				a, b := lab.Instance(t, s, refreshAt(0.5), change), lab.Instance(t, s, refreshAt(0.5), change)
				o := &lab.Fallible{}
				lab.MustGet(t, a, "k", o.Load)
				lab.MustGet(t, b, "k", o.Load)
				time.Sleep(60 * time.Second)
				o.Fail(strata.ErrNotFound)
				lab.GetTakes(t, a, o.Load, 0) // and refreshes
				synctest.Wait()
				for name, c := range map[string]*strata.Cache[string, int64]{"refreshed": a, "other": b} {
					if v, err := c.GetOrLoad(t.Context(), "k", o.Load); !errors.Is(err, strata.ErrNotFound) {
						t.Errorf("%s: %d, %v; want ErrNotFound", name, v, err)
					}
				}
			})
		})
	}
}

func TestRefreshThatFailsLeavesTheValueAndIsTriedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.TTL, o.RefreshAt, o.ErrorTTL = 100*time.Second, 0.5, time.Second
		})
		var attempts []time.Time
		load := func(context.Context, string) (int64, error) {
			attempts = append(attempts, time.Now())
			if len(attempts) == 1 {
				return 7, nil
			}
			return 0, lab.ErrDown
		}
		lab.MustGet(t, c, "k", load)
		loaded := time.Now()
		for time.Since(loaded) < 99*time.Second {
			time.Sleep(10 * time.Millisecond)
			lab.GetTakes(t, c, load, 7)
			synctest.Wait()
		}
		if first := attempts[1].Sub(loaded); first != 50*time.Second {
			t.Errorf("refreshed after %v, want 50s", first)
		}
		checkBackoff(t, attempts[1:], 10*time.Millisecond)
		if st := c.Stats(); st.StaleOnError+st.StaleRevalidating != 0 {
			t.Errorf("%+v: fresh values were counted as stale", st)
		}
	})
}

// checkBackoff checks that the times between attempts double from a second to ten, shortened by up
// to a fifth. The test may see an attempt late, by up to the duration late.
func checkBackoff(t *testing.T, attempts []time.Time, late time.Duration) {
	t.Helper()
	if len(attempts) < 5 {
		t.Fatalf("%d attempts", len(attempts))
	}
	longest := time.Second
	for i := range attempts[1:] {
		gap := attempts[i+1].Sub(attempts[i])
		if gap < longest*4/5 || gap > longest+late {
			t.Errorf("%v between attempts %d and %d, want %v to %v", gap, i, i+1, longest*4/5, longest)
		}
		longest = min(2*longest, 10*time.Second)
	}
}

func TestNotModifiedInARefreshProlongsBothTiersWithoutSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var puts, extends atomic.Int64
		c := lab.Instance(t, s, refreshAt(0.5), func(o *strata.Options[string, int64]) {
			o.Remote.Tier = stratatest.FaultyTier(s.Tier, func(op, _ string) (time.Duration, error) {
				switch op {
				case "Put":
					puts.Add(1)
				case "Extend":
					extends.Add(1)
				}
				return 0, nil
			})
		})
		lab.MustGet(t, c, "k", func(context.Context, string) (int64, error) { return 5, nil })
		holds := func(ctx context.Context, _ string) (int64, error) {
			if v, ok := c.Previous(ctx); v != 5 || !ok {
				t.Errorf("Previous: %d, %v", v, ok)
			}
			return 0, fmt.Errorf("origin: %w", strata.ErrNotModified)
		}
		for i := range int64(3) {
			time.Sleep(60 * time.Second)
			lab.GetTakes(t, c, holds, 5)
			synctest.Wait()
			if puts.Load() != 1 || extends.Load() != i+1 {
				t.Errorf("%d values sent and %d prolonged, want 1 and %d", puts.Load(), extends.Load(), i+1)
			}
			r := c.Explain(t.Context(), "k")
			if r.L1.Fresh != 100*time.Second || r.L2.Fresh != 100*time.Second || r.L1.Left != r.L2.Left {
				t.Errorf("%+v, want fresh for 100s in both tiers", r)
			}
		}
	})
}

func TestEntryThatL1KeepsForLessThanItsTTLIsNotRefreshedAllTheTime(t *testing.T) {
	for name, change := range map[string]func(*strata.Options[string, int64]){
		"no bus":           func(o *strata.Options[string, int64]) { o.Remote.Bus = nil },
		"short life in L1": func(o *strata.Options[string, int64]) { o.Memory.TTL = 10 * time.Second },
		"set by this, alone": func(o *strata.Options[string, int64]) {
			o.Remote, o.Memory.TTL = strata.Remote[string, int64]{}, time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				hour := func(o *strata.Options[string, int64]) { o.TTL, o.RefreshAt = time.Hour, 0.8 }
				c := lab.Instance(t, s, hour, change)
				o := &lab.Origin{}
				if err := c.Set(t.Context(), "set", 1); err != nil {
					t.Fatal(err)
				}
				for range 20 {
					for range 10 {
						lab.MustGet(t, c, "k", o.Load)
						lab.MustGet(t, c, "set", o.Load)
						synctest.Wait()
					}
					if st := c.Stats(); st.Refreshes != 0 {
						t.Fatalf("%d refreshes at the beginning of the TTL", st.Refreshes)
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		})
	}
}

func TestRefreshThatALoadHasStartedIsNotPartOfThatLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, refreshAt(0.5), func(o *strata.Options[string, int64]) { o.Limits.MaxLoads = 1 })
		var running, most atomic.Int64
		var load strata.Loader[string, int64]
		load = func(ctx context.Context, key string) (int64, error) {
			if key == "alone" {
				return 1, nil
			}
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(time.Second)
			if key == "outer" {
				v, err := c.GetOrLoad(ctx, "inner", load)
				time.Sleep(10 * time.Second)
				return v, err
			}
			return 2, nil
		}
		if err := c.Set(t.Context(), "inner", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(60 * time.Second)
		if v := lab.MustGet(t, c, "outer", load); v != 1 {
			t.Errorf("got %d, want the fresh 1", v)
		}
		time.Sleep(20 * time.Second)
		if v := lab.MustGet(t, c, "inner", load); v != 2 {
			t.Errorf("got %d: it was not refreshed", v)
		}
		if n := most.Load(); n != 1 {
			t.Errorf("%d loads at once, want 1", n)
		}
	})
}

func TestRefreshMayAskForTheKeyOfTheLoadThatStartedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, refreshAt(0.5))
		var refreshed error
		var inner, outer strata.Loader[string, int64]
		inner = func(ctx context.Context, _ string) (int64, error) {
			var v int64
			v, refreshed = c.GetOrLoad(ctx, "outer", outer)
			return v + 1, refreshed
		}
		outer = func(ctx context.Context, _ string) (int64, error) {
			v, err := c.GetOrLoad(ctx, "inner", inner)
			time.Sleep(time.Second)
			return v, err
		}
		lab.Must(t, c.Set(t.Context(), "inner", 1))
		time.Sleep(60 * time.Second)
		lab.MustGet(t, c, "outer", outer)
		synctest.Wait()
		if v := lab.MustGet(t, c, "inner", outer); v != 2 || refreshed != nil {
			t.Errorf("got %d, and inside the refresh %v; want 2", v, refreshed)
		}
	})
}

func TestRefreshSlowerThanTheTTLLands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, refreshAt(0.5), lab.Windows(time.Hour, -1), func(o *strata.Options[string, int64]) { o.Limits.HardTimeout = -1 })
		o := &lab.Origin{Takes: 150 * time.Second}
		lab.MustGet(t, c, "k", o.Load)
		o.Value.Store(2)
		for range 300 {
			time.Sleep(time.Second)
			lab.MustGet(t, c, "k", o.Load)
		}
		lab.GetTakes(t, c, o.Load, 2)
	})
}

func TestRefreshThatPanicsLeavesTheValue(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("refresh") }, "exit": lab.ExitGoroutine} {
		synctest.Test(t, func(t *testing.T) {
			c := lab.NewCache(t, refreshAt(0.5), lab.Windows(-1, -1))
			if err := c.Set(t.Context(), "k", 3); err != nil {
				t.Fatal(err)
			}
			time.Sleep(60 * time.Second)
			bad := func(context.Context, string) (int64, error) { end(); return 0, nil }
			for range 5 {
				lab.GetTakes(t, c, bad, 3)
				synctest.Wait()
			}
			if n := c.Stats().Loads.Panics; n != 5 {
				t.Errorf("%s: %d refreshes, want 5", name, n)
			}
		})
	}
}

func TestCloseEndsRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, refreshAt(0.5))
		if err := c.Set(t.Context(), "k", 3); err != nil {
			t.Fatal(err)
		}
		time.Sleep(60 * time.Second)
		ended := false
		lab.GetTakes(t, c, func(ctx context.Context, _ string) (int64, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = true
			return 0, ctx.Err()
		}, 3)
		synctest.Wait()
		if err := c.Close(t.Context()); err != nil || !ended {
			t.Errorf("Close: %v; the refresh has ended: %v", err, ended)
		}
	})
}

func TestShortLifeInL2IsNotRefreshedByEveryInstanceInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var loads atomic.Int64
		load := func(ctx context.Context, _ string) (int64, error) {
			strata.Loading(ctx).SetTTL(10 * time.Second)
			return loads.Add(1), nil
		}
		var all []*strata.Cache[string, int64]
		for range 5 {
			all = append(all, lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.TTL, o.RefreshAt = 5*time.Minute, 0.8 }))
		}
		for range 1000 {
			for _, c := range all {
				lab.MustGet(t, c, "k", load)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := loads.Load(); n < 10 || n > 25 {
			t.Errorf("%d loads in 100 s of a value that lives for 10 s", n)
		}
	})
}
