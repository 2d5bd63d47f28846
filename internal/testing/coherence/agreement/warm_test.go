package agreement_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// numbered are the keys from 0 to n.
func numbered(n int) (keys []string) {
	for i := range n {
		keys = append(keys, strconv.Itoa(i))
	}
	return keys
}

func TestWarmInstanceAnswersFromL1WithoutALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		first, second := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		keys := numbered(1200)
		for i, k := range keys {
			lab.Must(t, first.Set(t.Context(), k, int64(i)))
		}
		synctest.Wait() // the second instance has heard of them
		lab.MustGet(t, second, "7", lab.PlainLoad)
		var steps []strata.Warmed
		w, err := second.Warm(t.Context(), slices.Values(append(keys, "none", "8")), strata.WarmOptions{Progress: func(w strata.Warmed) { steps = append(steps, w) }})
		if want := (strata.Warmed{Keys: 1202, Present: 2, Found: 1199, Absent: 1}); w != want || err != nil {
			t.Errorf("%+v, %v, want %+v", w, err, want)
		}
		if len(steps) != 3 || steps[2] != w || steps[0].Keys != 500 {
			t.Errorf("told of %+v", steps)
		}
		for i, k := range keys {
			if v := lab.MustGet(t, second, k, func(context.Context, string) (int64, error) { return -1, nil }); v != int64(i) {
				t.Fatalf("%s is %d", k, v)
			}
		}
		st := second.Stats()
		if st.Warmed != 1200 || st.L1.Misses != 1 || st.L1.Misses+st.Refreshes+st.Warmed != st.Flights+st.Joins+st.TurnedAway+st.Remembered {
			t.Errorf("%+v", st)
		}
	})
}

func TestWarmEndsWhenL1IsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		first := lab.Instance[string, int64](t, s)
		small := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Memory.MaxEntries = 200 })
		keys := numbered(1000)
		for _, k := range keys {
			lab.Must(t, first.Set(t.Context(), k, 1))
		}
		synctest.Wait() // the messages about them have come
		w, err := small.Warm(t.Context(), slices.Values(keys), strata.WarmOptions{})
		if w.Found < 200 || w.Found > 220 || err != nil || small.Len() < 180 || small.Stats().Evicted > 20 { // the bound of a shard may come first
			t.Errorf("%+v, %v; %d entries", w, err, small.Len())
		}
		if w, err = small.Warm(t.Context(), slices.Values(keys), strata.WarmOptions{}); w.Found > 20 || err != nil {
			t.Errorf("%+v, %v in a full cache", w, err)
		}
	})
}

func TestWarmKeepsToItsRateAndItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		first, second := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		keys := numbered(1000)
		for _, k := range keys {
			lab.Must(t, first.Set(t.Context(), k, 1))
		}
		synctest.Wait() // the messages about them have come
		_, err := second.Warm(t.Context(), slices.Values(keys[:300]), strata.WarmOptions{})
		lab.Must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 4950*time.Millisecond)
		defer cancel()
		w, err := second.Warm(ctx, slices.Values(keys), strata.WarmOptions{PerSecond: 100})
		if !errors.Is(err, context.DeadlineExceeded) || w.Keys != 800 || w.Present != 300 || w.Found != 500 {
			t.Errorf("%+v, %v after 4.95 s of 100 keys a second, ten at a time", w, err)
		}
	})
}

func TestWarmTellsWhyItCannot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		s := lab.NewShared()
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = lab.Failing(o.Remote.Tier, "Get", &down) })
		down.Store(true)
		keys := slices.Values(numbered(2000))
		if w, err := c.Warm(t.Context(), keys, strata.WarmOptions{}); err == nil || w.Keys != 1500 {
			t.Errorf("%+v, %v while L2 is down", w, err)
		}
		if _, err := c.Warm(t.Context(), keys, strata.WarmOptions{PerSecond: -1}); err == nil {
			t.Error("a negative rate is accepted")
		}
		if _, err := lab.NewCache[string, int64](t).Warm(t.Context(), keys, strata.WarmOptions{}); err == nil {
			t.Error("a cache without L2 is warmed")
		}
		lab.Must(t, c.Close(t.Context()))
		for _, keys := range []iter.Seq[string]{keys, slices.Values[[]string](nil)} {
			if _, err := c.Warm(t.Context(), keys, strata.WarmOptions{}); !errors.Is(err, strata.ErrClosed) {
				t.Errorf("%v after Close", err)
			}
		}
	})
}

func TestWarmLoadsWhatL2DoesNotHave(t *testing.T) {
	for _, many := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			loads := 0
			load := func(keys []string) (map[string]int64, error) {
				found := map[string]int64{}
				for _, k := range keys {
					if k == "bad" {
						return found, errors.New("the database refuses")
					}
					if loads++; k != "none" {
						found[k] = 7
					}
				}
				return found, nil
			}
			first := lab.Instance[string, int64](t, s)
			c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
				if many {
					o.ManyLoader = func(_ context.Context, keys []string) (map[string]int64, error) { return load(keys) }
					return
				}
				o.Loader = func(_ context.Context, key string) (int64, error) {
					found, err := load([]string{key})
					if v, ok := found[key]; ok || err != nil {
						return v, err
					}
					return 0, strata.ErrNotFound
				}
			})
			keys := numbered(1000)
			for _, k := range keys[:300] {
				lab.Must(t, first.Set(t.Context(), k, 1))
			}
			synctest.Wait()
			var last strata.Warmed
			w, err := c.Warm(t.Context(), slices.Values(append(keys, "none")), strata.WarmOptions{Load: true, Progress: func(w strata.Warmed) { last = w }})
			if want := (strata.Warmed{Keys: 1001, Found: 300, Loaded: 700, Absent: 1}); w != want || last != want || err != nil || loads != 701 {
				t.Errorf("%+v, %v, %d loads, want %+v", w, err, loads, want)
			}
			if v := lab.MustGet(t, first, "999", lab.PlainLoad); v != 7 {
				t.Errorf("the other instance has %d", v)
			}
			st := c.Stats()
			if st.L1.Misses+st.Refreshes+st.Warmed != st.Flights+st.Joins+st.TurnedAway+st.Remembered || st.Reads != 0 {
				t.Errorf("%+v", st)
			}
			if w, err := c.Warm(t.Context(), slices.Values([]string{"bad"}), strata.WarmOptions{Load: true}); w.Failed != 1 || err != nil {
				t.Errorf("%+v, %v", w, err)
			}
		})
	}
}

func TestWarmLoadsKeepToTheRateAndEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loads atomic.Int64
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Loader = func(context.Context, string) (int64, error) { return loads.Add(1), nil }
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second-time.Millisecond)
		defer cancel()
		w, err := c.Warm(ctx, slices.Values(numbered(5000)), strata.WarmOptions{Load: true, PerSecond: 100})
		if !errors.Is(err, context.DeadlineExceeded) || w.Loaded < 490 || w.Loaded > 510 || loads.Load() != int64(w.Loaded) {
			t.Errorf("%+v, %v, %d loads", w, err, loads.Load())
		}
	})
}

func TestWarmEndsWhenNoLoadSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loads := 0
		c := lab.Instance(t, lab.NewShared(), func(o *strata.Options[string, int64]) {
			o.ManyLoader = func(context.Context, []string) (map[string]int64, error) {
				loads++
				return nil, errors.New("the database is down")
			}
		})
		w, err := c.Warm(t.Context(), slices.Values(numbered(100_000)), strata.WarmOptions{Load: true})
		if err == nil || w.Failed != 1500 || loads != 3 {
			t.Errorf("%+v, %v, %d loads", w, err, loads)
		}
		bare := lab.Instance[string, int64](t, lab.NewShared())
		if _, err := bare.Warm(t.Context(), slices.Values(numbered(1)), strata.WarmOptions{Load: true}); !errors.Is(err, strata.ErrNoLoader) {
			t.Errorf("without a loader: %v", err)
		}
	})
}

func TestWarmEndsWhenTheCacheIsTurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		other := lab.Instance[string, int64](t, s)
		tier, asked := lab.CountCalls(s.Tier)
		var loads atomic.Int64
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = tier
			o.Loader = func(context.Context, string) (int64, error) { return loads.Add(1), nil }
		})
		off := strata.Tuning{Off: new(true)}
		w, err := c.Warm(t.Context(), slices.Values(numbered(2000)), strata.WarmOptions{Load: true, Progress: func(strata.Warmed) { lab.Tune(t, c, off) }})
		if err == nil || w.Keys != 500 || loads.Load() != 500 || asked("Get") != 2 {
			t.Errorf("%+v, %v, %d loads and %d questions to L2; want none after the first batch", w, err, loads.Load(), asked("Get"))
		}
		if v, ok := other.Get(t.Context(), "600"); ok {
			t.Errorf("L2 got %d from an instance that is turned off", v)
		}
		if _, err := c.Warm(t.Context(), slices.Values(numbered(1)), strata.WarmOptions{Load: true}); err == nil {
			t.Error("a cache that is turned off is warmed")
		}
	})
}
