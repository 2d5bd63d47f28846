package loads_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

func TestRunningLoadsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		running := func(want int64) {
			t.Helper()
			if got := c.Stats().Loads.Running; got != want {
				t.Errorf("%d loads run, want %d", got, want)
			}
		}
		var calls sync.WaitGroup
		gate := make(chan struct{})
		for i := range 3 {
			calls.Go(func() {
				_, _ = c.GetOrLoad(t.Context(), fmt.Sprint(i), func(context.Context, string) (int64, error) {
					<-gate
					if i == 1 {
						lab.ExitGoroutine()
					}
					return 1, nil
				})
			})
		}
		calls.Go(func() {
			_, _ = c.GetMany(t.Context(), []string{"a", "b"}, func(context.Context, []string) (map[string]int64, error) {
				<-gate
				panic("no")
			})
		})
		synctest.Wait()
		running(5)
		close(gate)
		calls.Wait()
		synctest.Wait()
		running(0)
	})
}

func TestSavedIsTheLoadTimeOfReadsThatRanNoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		o := &lab.Origin{Takes: 2 * time.Second}
		if lab.MustGet(t, c, "k", o.Load); c.Stats().Saved != 0 {
			t.Errorf("a load has saved %v", c.Stats().Saved)
		}
		for range 10 {
			lab.MustGet(t, c, "k", o.Load)
		}
		if got := c.Stats().Saved; got != 20*time.Second {
			t.Errorf("10 hits have saved %v, want 20s", got)
		}
		o.Takes = 0
		for i := range 99 {
			lab.MustGet(t, c, fmt.Sprint(i), o.Load) // the mean falls
		}
		if got := c.Stats().Saved; got != 20*time.Second {
			t.Errorf("loads have changed the sum to %v, want 20s", got)
		}
		lab.MustGet(t, c, "k", o.Load)
		if got := c.Stats().Saved; got != 20*time.Second+20*time.Millisecond {
			t.Errorf("a hit at a mean of 20 ms makes %v, want 20.02s", got)
		}
	})
}

func TestOperationsOnL2AreTimedByResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var slow, down atomic.Bool
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = lab.Failing(lab.Stalling(s.Tier, "Get", 20*time.Millisecond, &slow), "Drop", &down)
		})
		slow.Store(true)
		o := &lab.Origin{}
		lab.MustGet(t, c, "k", o.Load)
		down.Store(true)
		if err := c.Invalidate(t.Context(), "k"); err == nil {
			t.Fatal("the drop was confirmed")
		}
		gone, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, found := c.Get(gone, "other"); found {
			t.Fatal("there is a value")
		}
		time.Sleep(time.Second) // in the bubble: the flight without a caller ends
		got := map[string]uint64{}
		for _, op := range c.Stats().Operations {
			got[op.Operation+" "+op.Result] += op.Latency.Count()
			if op.Operation == "get" && op.Result == "ok" && op.Latency.Sum != 20*time.Millisecond*time.Duration(op.Latency.Count()) {
				t.Errorf("%d gets took %v", op.Latency.Count(), op.Latency.Sum)
			}
		}
		if got["get ok"]+got["get cancelled"]+got["get error"] == 0 || got["acquire ok"] == 0 || got["put ok"] != 1 || got["drop error"] == 0 || got["drop ok"] != 0 {
			t.Errorf("operations %v", got)
		}
		if st := c.Stats(); st.WrittenBytes.Sum == 0 {
			t.Error("no written bytes are counted")
		}
	})
}

func TestSizesOfValuesFromL2AreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		o := &lab.Origin{}
		lab.MustGet(t, a, "k", o.Load)
		lab.MustGet(t, b, "k", o.Load)
		w, r := a.Stats().WrittenBytes, b.Stats().ReadBytes
		if w.Sum == 0 || w.Sum != r.Sum || w.Buckets != r.Buckets {
			t.Errorf("written %+v, read %+v", w, r)
		}
	})
}

func TestBusSilenceAndEchoAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		ear := s.Bus.Connect()
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Bus = ear })
		time.Sleep(10 * time.Second) // in the bubble
		st := c.Stats()
		if st.BusSilence > 2*time.Second || st.BusEcho.Count() == 0 {
			t.Errorf("silent for %v, %d echoes on a healthy bus", st.BusSilence, st.BusEcho.Count())
		}
		ear.Cut()
		echoes := c.Stats().BusEcho.Count()
		time.Sleep(10 * time.Second) // in the bubble
		if st = c.Stats(); st.BusSilence < 9*time.Second || st.BusEcho.Count() > echoes {
			t.Errorf("silent for %v, %d more echoes on a bus that is cut", st.BusSilence, st.BusEcho.Count()-echoes)
		}
		if alone := lab.NewCache[string, int64](t).Stats(); alone.BusSilence != 0 || alone.BusEcho.Count() != 0 {
			t.Error("a cache without a bus hears one")
		}
	})
}

func TestEvictionAgeIsTheTimeSinceTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Memory.MaxEntries, o.TTL = 100, strata.NoExpiry
			o.Memory.Policy = 3 // FIFO: the oldest entry leaves
		})
		o := &lab.Origin{}
		for i := range 2000 {
			lab.MustGet(t, c, fmt.Sprint(i), o.Load)
			time.Sleep(time.Second) // in the bubble
		}
		st := c.Stats()
		n := st.EvictionAge.Count()
		if n < st.Evicted/64/2 || n > st.Evicted/64*2 {
			t.Errorf("%d ages of %d evictions, want one in 64", n, st.Evicted)
		}
		if mean := st.EvictionAge.Sum / time.Duration(max(n, 1)); mean != 100*time.Second {
			t.Errorf("entries leave after %v, want 100s", mean)
		}
		if st.MaxEntries != 100 || st.MaxWeight != 0 {
			t.Errorf("bounds are %d and %d", st.MaxEntries, st.MaxWeight)
		}
	})
}

// wantSums checks the sums of Stats while no call is running.
func wantSums(t *testing.T, c *strata.Cache[string, int64]) {
	t.Helper()
	st := c.Stats()
	if st.Reads != st.L1.Hits+st.L1.Misses {
		t.Errorf("%d reads, %d hits and %d misses", st.Reads, st.L1.Hits, st.L1.Misses)
	}
	if begun, parts := st.L1.Misses+st.Refreshes+st.Warmed, st.Flights+st.Joins+st.TurnedAway+st.Remembered; begun != parts {
		t.Errorf("%d misses, refreshes and warmed keys have %d parts: %+v", begun, parts, st)
	}
	if ends := st.Rechecked + st.L2.Hits + st.Absent + st.Abandoned + st.Throttled + st.Loads.Total(); st.Flights != ends {
		t.Errorf("%d flights have %d ends: %+v", st.Flights, ends, st)
	}
}

func TestSumsHoldForAReaderBesideASkipReadWithAStaleValueInL2(t *testing.T) {
	for name, batch := range map[string]bool{"alone": false, "in a batch": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				lab.Must(t, lab.Instance[string, int64](t, s).Set(t.Context(), "k", 1))
				time.Sleep(2 * time.Minute)
				c := lab.Instance[string, int64](t, s)
				o := &lab.Origin{Takes: time.Second}
				go c.GetOrLoad(t.Context(), "k", o.Load, strata.SkipRead())
				synctest.Wait()
				if batch {
					_, err := c.GetMany(t.Context(), []string{"k", "l"}, lab.EachOf(o.Load))
					lab.Must(t, err)
				} else {
					lab.MustGet(t, c, "k", o.Load)
				}
				synctest.Wait()
				wantSums(t, c)
			})
		})
	}
}

func TestSumsHoldForAWarmThatADropOfATagOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewTagged(t)
		lab.Must(t, lab.Instance[string, int64](t, s).Set(t.Context(), "k", 1, strata.WithTags("x")))
		w := lab.NewWire(s)
		c := lab.Instance(t, s, w.Use)
		w.Slows("Tags", 0, 50*time.Millisecond)
		go c.Get(t.Context(), "k")
		synctest.Wait()
		lab.Must(t, c.InvalidateTags(t.Context(), "x"))
		if so, err := c.Warm(t.Context(), slices.Values([]string{"k"}), strata.WarmOptions{}); so.Found != 0 || err != nil {
			t.Errorf("%+v, %v", so, err)
		}
		synctest.Wait()
		wantSums(t, c)
	})
}

// TestEachCallerWithAStaleValueIsCounted has five callers share a flight.
func TestEachCallerWithAStaleValueIsCounted(t *testing.T) {
	slowDown := func(context.Context, string) (int64, error) { time.Sleep(time.Second); return 0, lab.ErrDown } // in a bubble
	for name, batch := range map[string]bool{"alone": false, "in a batch": true} {
		for of, revalidates := range map[string]bool{"on error": false, "while it is refreshed": true} {
			t.Run(of+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := lab.NewShared()
					lab.Must(t, lab.Instance[string, int64](t, s, lab.Windows(time.Hour, time.Hour)).Set(t.Context(), "k", 1))
					time.Sleep(2 * time.Minute)
					w := lab.NewWire(s)
					var told atomic.Int64
					c := lab.Instance(t, s, w.Use, func(o *strata.Options[string, int64]) {
						if o.Stale.WhileRevalidate = -1; revalidates {
							o.Stale.WhileRevalidate = time.Hour
						}
						o.Hooks = &strata.Hooks{Stale: func(strata.Event) { told.Add(1) }}
					})
					w.Slows("Get", 50*time.Millisecond, 0)
					var all sync.WaitGroup
					for range 5 {
						all.Go(func() {
							get := func() (int64, error) { return c.GetOrLoad(t.Context(), "k", slowDown) }
							if batch {
								get = func() (int64, error) {
									found, err := c.GetMany(t.Context(), []string{"k"}, lab.EachOf(slowDown))
									return found["k"], err
								}
							}
							if v, err := get(); v != 1 || err != nil {
								t.Errorf("%d, %v; want the stale value", v, err)
							}
						})
					}
					all.Wait()
					time.Sleep(2 * time.Second)
					st := c.Stats()
					onError, revalidating := uint64(5), uint64(0)
					if revalidates {
						onError, revalidating = revalidating, onError
					}
					if st.StaleOnError != onError || st.StaleRevalidating != revalidating || told.Load() != 5 {
						t.Errorf("%d callers on error and %d while it is refreshed are counted, %d told; want 5", st.StaleOnError, st.StaleRevalidating, told.Load())
					}
					wantSums(t, c)
				})
			})
		}
	}
}

// TestHitsDoNotFallWhileAHookOfAStaleValueRuns: the engine has counted a hit by then.
func TestHitsDoNotFallWhileAHookOfAStaleValueRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Windows(time.Hour, 0), loadsBy(lab.PlainLoad), func(o *strata.Options[string, int64]) {
			o.Hooks = &strata.Hooks{Stale: func(strata.Event) { time.Sleep(10 * time.Millisecond) }}
		})
		lab.Must(t, c.Set(t.Context(), "k", 1))
		time.Sleep(2 * time.Minute)
		go c.GetOrLoad(t.Context(), "k", nil)
		synctest.Wait()
		during := c.Stats().L1
		time.Sleep(time.Second)
		if after := c.Stats().L1; after.Hits < during.Hits || after.Hits != 0 || after.Misses != 1 {
			t.Errorf("%+v, then %+v", during, after)
		}
	})
}
