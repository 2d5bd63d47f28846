package loads_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/stratatest"
)

// manyOrigin has a value, ten times the key, for each key below 100. It also brings the
// keys in extra unasked.
type manyOrigin struct {
	mu    sync.Mutex
	calls [][]int
	extra []int
	err   error
	takes time.Duration
}

func (o *manyOrigin) load(_ context.Context, keys []int) (map[int]int, error) {
	o.mu.Lock()
	o.calls = append(o.calls, slices.Sorted(slices.Values(keys)))
	o.mu.Unlock()
	time.Sleep(o.takes) // in a bubble
	found := map[int]int{}
	for _, k := range append(slices.Clone(keys), o.extra...) {
		if k < 100 {
			found[k] = 10 * k
		}
	}
	return found, o.err
}

func TestGetManyLoadsMissingKeysInOneCall(t *testing.T) {
	for _, tiers := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			one := func() *strata.Cache[int, int] {
				if tiers {
					return lab.Instance[int, int](t, s, func(o *strata.Options[int, int]) { o.NotFoundTTL = time.Minute })
				}
				return lab.NewCache(t, func(o *strata.Options[int, int]) { o.NotFoundTTL = time.Minute })
			}
			a := one()
			o := &manyOrigin{}
			if err := a.Set(t.Context(), 1, 10); err != nil {
				t.Fatal(err)
			}
			want := map[int]int{1: 10, 2: 20, 3: 30}
			for range 2 {
				got, err := a.GetMany(t.Context(), []int{1, 2, 3, 200, 2}, o.load)
				if err != nil || !maps.Equal(got, want) {
					t.Errorf("tiers %v: got %v, %v; want %v", tiers, got, err, want)
				}
			}
			if len(o.calls) != 1 || !slices.Equal(o.calls[0], []int{2, 3, 200}) {
				t.Errorf("tiers %v: loaded %v, want 2, 3 and 200 at once", tiers, o.calls)
			}
			if tiers {
				got, err := one().GetMany(t.Context(), []int{1, 2, 3, 200}, o.load)
				if err != nil || !maps.Equal(got, want) || len(o.calls) != 1 {
					t.Errorf("another instance got %v, %v, and loaded %v", got, err, o.calls[1:])
				}
			}
		})
	}
}

// TestGetManyLoadsEachKeyOnceWhereverItIsRepeated asks for few keys and for many, with
// one that comes twice, at any distance.
func TestGetManyLoadsEachKeyOnceWhereverItIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, n := range []int{2, 3, 100, 128, 129, 300} {
			for i := 0; i < n-1; i += (n - 1) / kit.Rounds(n-1) {
				c := lab.NewCache[int, int](t)
				keys := make([]int, n)
				for k := range keys {
					keys[k] = k
				}
				keys[n-1] = i
				o := &manyOrigin{}
				got, err := c.GetMany(t.Context(), keys, o.load)
				if err != nil || len(got) != min(n-1, 100) || len(o.calls) != 1 || !slices.Equal(o.calls[0], keys[:n-1]) {
					t.Fatalf("%d keys, of which the last is that at %d: %d values, %v, loads of %v", n, i, len(got), err, o.calls)
				}
				if joins := c.Stats().Joins; joins != 0 {
					t.Fatalf("%d keys, of which the last is that at %d: it was asked for %d times more", n, i, joins)
				}
				if err := c.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func TestGetManyReturnsItsValuesBesideAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[int, int](t)
		c.Set(t.Context(), 1, 10)
		o := &manyOrigin{err: errors.New("down")}
		failing := func(ctx context.Context, keys []int) (map[int]int, error) {
			m, err := o.load(ctx, keys)
			delete(m, 3)
			return m, err
		}
		got, err := c.GetMany(t.Context(), []int{1, 2, 3}, failing)
		var partial *strata.PartialError[int]
		if !errors.As(err, &partial) || len(partial.Failed) != 1 || !errors.Is(partial.Failed[3], o.err) || !errors.Is(err, o.err) {
			t.Errorf("error %v", err)
		}
		if !maps.Equal(got, map[int]int{1: 10, 2: 20}) {
			t.Errorf("got %v", got)
		}
	})
}

func TestOverlappingBatchesShareTheirLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance[int, int](t, s)
		o := &manyOrigin{takes: time.Second}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				keys := []int{i, i + 1, i + 2}
				got, err := c.GetMany(t.Context(), keys, o.load)
				if err != nil || len(got) != 3 {
					t.Errorf("%v: got %v, %v", keys, got, err)
				}
			})
			wg.Go(func() {
				v, err := c.GetOrLoad(t.Context(), i, func(ctx context.Context, k int) (int, error) {
					m, err := o.load(ctx, []int{k})
					return m[k], err
				})
				if err != nil || v != 10*i {
					t.Errorf("%d: got %d, %v", i, v, err)
				}
			})
		}
		wg.Wait()
		seen := map[int]int{}
		for _, call := range o.calls {
			for _, k := range call {
				seen[k]++
			}
		}
		for k, n := range seen {
			if n != 1 {
				t.Errorf("%d was loaded %d times", k, n)
			}
		}
		synctest.Wait() // a flight counts its end after its callers have left
		if st := c.Stats(); st.L1.Misses+st.Refreshes != st.Flights+st.Joins+st.TurnedAway+st.Remembered ||
			st.Flights != st.Rechecked+st.L2.Hits+st.Absent+st.Abandoned+st.Throttled+st.Loads.Total() {
			t.Errorf("the numbers do not add up: %+v", st)
		}
	})
}

func TestExtraKeysOfABatchFillGapsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[int, int](t)
		c.Set(t.Context(), 5, 1)
		o := &manyOrigin{extra: []int{5, 6}}
		got, err := c.GetMany(t.Context(), []int{1}, o.load)
		if err != nil || len(got) != 1 {
			t.Errorf("got %v, %v; want what was asked for", got, err)
		}
		five, _ := c.Get(t.Context(), 5)
		six, ok := c.Get(t.Context(), 6)
		if five != 1 || six != 60 || !ok {
			t.Errorf("5 is %d and 6 is %d, %v; want 1, which was there, and 60", five, six, ok)
		}
		invalidating := func(ctx context.Context, keys []int) (map[int]int, error) {
			m, err := o.load(ctx, keys)
			c.Invalidate(ctx, 7)
			m[7] = 70
			return m, err
		}
		if _, err := c.GetMany(t.Context(), []int{2}, invalidating); err != nil {
			t.Fatal(err)
		}
		if v, ok := c.Get(t.Context(), 7); ok {
			t.Errorf("7 is %d, which was invalidated in the middle of the batch", v)
		}
	})
}

func TestBatchWaitsForTheLoadsOfAnotherInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[int, int](t, s), lab.Instance[int, int](t, s)
		o := &manyOrigin{takes: time.Second}
		go a.GetMany(t.Context(), []int{1, 2}, o.load)
		time.Sleep(time.Millisecond)
		other := &manyOrigin{takes: 5 * time.Second}
		start := time.Now()
		got, err := b.GetMany(t.Context(), []int{2, 3}, other.load)
		if err != nil || !maps.Equal(got, map[int]int{2: 20, 3: 30}) {
			t.Errorf("got %v, %v", got, err)
		}
		if len(other.calls) != 1 || !slices.Equal(other.calls[0], []int{3}) {
			t.Errorf("loaded %v, want 3 alone", other.calls)
		}
		if took := time.Since(start); took > 5100*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

func TestManyLoaderThatPanicsOrExitsIsAnErrorForItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance[int, int](t, s)
		_, err := c.GetMany(t.Context(), []int{1, 2}, func(context.Context, []int) (map[int]int, error) { panic("no") })
		var p *strata.LoadPanicError
		if !errors.As(err, &p) || p.Value != "no" {
			t.Errorf("a panic: %v", err)
		}
		_, err = c.GetMany(t.Context(), []int{1, 2}, func(context.Context, []int) (map[int]int, error) {
			runtime.Goexit()
			return nil, nil
		})
		if !errors.Is(err, strata.ErrLoadExited) {
			t.Errorf("an exit: %v", err)
		}
		if got, err := c.GetMany(t.Context(), []int{1, 2}, (&manyOrigin{}).load); err != nil || len(got) != 2 {
			t.Errorf("afterwards: %v, %v", got, err)
		}
	})
}

func TestManyLoaderThatAsksForItsOwnKeysIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[int, int](t)
		_, err := c.GetMany(t.Context(), []int{1, 2}, func(ctx context.Context, _ []int) (map[int]int, error) {
			v, err := c.GetOrLoad(ctx, 2, func(context.Context, int) (int, error) { return 1, nil })
			return map[int]int{1: v}, err
		})
		if !errors.Is(err, strata.ErrRecursiveLoad) {
			t.Errorf("got %v", err)
		}
	})
}

// TestLoadThatAsksForItsOwnKeyInABatchIsRefused: also when its right to store was taken
// meanwhile, so that its question would wait for its own lease.
func TestLoadThatAsksForItsOwnKeyInABatchIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.Instance[int, int](t, lab.NewShared())
		began := time.Now()
		var got map[int]int
		var partial *strata.PartialError[int]
		v, err := c.GetOrLoad(t.Context(), 1, func(ctx context.Context, _ int) (int, error) {
			lab.Must(t, c.Invalidate(ctx, 1))
			var err error
			got, err = c.GetMany(ctx, []int{1, 2}, (&manyOrigin{}).load)
			errors.As(err, &partial)
			return 5, nil
		})
		if v != 5 || err != nil || time.Since(began) != 0 {
			t.Errorf("got %d, %v after %v", v, err, time.Since(began))
		}
		if len(got) != 1 || partial == nil || len(partial.Failed) != 1 || !errors.Is(partial.Failed[1], strata.ErrRecursiveLoad) {
			t.Errorf("the batch: %v, %v; want 2, and ErrRecursiveLoad for 1", got, partial)
		}
	})
}

func TestBatchWhoseCallerLeavesEarlyStillAsksL2ForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		other := lab.Instance[int, int](t, s)
		if err := other.Set(t.Context(), 1, 10); err != nil {
			t.Fatal(err)
		}
		var slow atomic.Bool
		slow.Store(true)
		c := lab.Instance[int, int](t, s, func(o *strata.Options[int, int]) {
			o.Remote.Tier, o.Remote.Timeout = lab.Stalling(s.Tier, "Get", 5*time.Second, &slow), time.Minute
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o := &manyOrigin{}
		go c.GetMany(ctx, []int{1, 2}, o.load)
		synctest.Wait()
		got, err := c.GetMany(t.Context(), []int{1, 2}, o.load)
		if err != nil || !maps.Equal(got, map[int]int{1: 10, 2: 20}) {
			t.Errorf("got %v, %v", got, err)
		}
		if len(o.calls) != 1 || !slices.Equal(o.calls[0], []int{2}) {
			t.Errorf("loaded %v, want 2 alone: L2 has 1", o.calls)
		}
	})
}

// TestGetManyWithoutALoaderAnswersFromTheTiers reads keys of L1, of L2, and of neither, in one
// round trip, and loads nothing.
func TestGetManyWithoutALoaderAnswersFromTheTiers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var gets atomic.Int64
		first := lab.Instance[string, int64](t, s)
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Stale.WhileRevalidate = time.Minute
			o.Remote.Tier = stratatest.FaultyTier(s.Tier, func(op, _ string) (time.Duration, error) {
				if op == "Get" {
					gets.Add(1)
				}
				return 0, nil
			})
		})
		lab.Must(t, first.Set(t.Context(), "near", 1))
		lab.MustGet(t, c, "near", lab.PlainLoad)
		lab.Must(t, first.Set(t.Context(), "far", 2))
		synctest.Wait()
		gets.Store(0)
		keys := []string{"near", "far", "none", "far"}
		read := func(want map[string]int64, opts ...strata.CallOption) {
			t.Helper()
			got, err := c.GetMany(t.Context(), keys, nil, opts...)
			if err != nil || !maps.Equal(got, want) {
				t.Errorf("%v, %v, want %v", got, err, want)
			}
		}
		before := c.Stats()
		read(map[string]int64{"near": 1, "far": 2})
		if st := c.Stats(); st.Loads.OK+st.Loads.Errors != 0 || st.Reads-before.Reads != 3 || gets.Load() > 1 {
			t.Errorf("%d reads, %d loads, %d requests for entries", st.Reads-before.Reads, st.Loads.OK, gets.Load())
		}
		read(map[string]int64{"near": 1, "far": 2}, strata.NoRemote())
		read(map[string]int64{"near": 1, "far": 2}, strata.NoMemory())
		lab.Must(t, first.Invalidate(t.Context(), "near"))
		lab.Must(t, first.Expire(t.Context(), "far"))
		synctest.Wait()
		read(map[string]int64{})
		read(map[string]int64{"far": 2}, strata.AllowStale())
		alone := lab.NewCache[string, int64](t)
		lab.Must(t, alone.Set(t.Context(), "near", 3))
		if got, err := alone.GetMany(t.Context(), keys, nil); err != nil || !maps.Equal(got, map[string]int64{"near": 3}) {
			t.Errorf("without L2: %v, %v", got, err)
		}
		lab.Must(t, c.Close(t.Context()))
		read(map[string]int64{}, strata.NoMemory())
	})
}

// TestGetManyJudgesHitsAsGetOrLoadDoes has entries that L1 serves plainly between others: one with a
// dropped tag, one whose life is over, and one that is due for a refresh.
func TestGetManyJudgesHitsAsGetOrLoadDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := lab.NewCache(t, func(o *strata.Options[int, int]) { o.RefreshAt = 0.5 }), &manyOrigin{}
		for k, opt := range map[int]strata.CallOption{
			1: {}, 2: strata.WithTags("a"), 3: strata.WithTags("b"), 4: strata.WithTTL(10 * time.Second), 5: strata.WithTTL(40 * time.Second),
		} {
			lab.Must(t, c.Set(t.Context(), k, -k, opt))
		}
		time.Sleep(25 * time.Second)
		lab.Must(t, c.InvalidateTags(t.Context(), "a"))
		get := func(want map[int]int, opts ...strata.CallOption) {
			t.Helper()
			o.calls = nil
			if got, err := c.GetMany(t.Context(), []int{1, 2, 3, 4, 5, 1}, o.load, opts...); err != nil || !maps.Equal(got, want) {
				t.Errorf("got %v, %v; want %v", got, err, want)
			}
			synctest.Wait()
			slices.SortFunc(o.calls, slices.Compare)
		}
		get(map[int]int{1: -1, 2: 20, 3: -3, 4: 40, 5: -5}, strata.WithTTL(time.Minute))
		if !slices.EqualFunc(o.calls, [][]int{{2, 4}, {5}}, slices.Equal) {
			t.Errorf("loads of %v, want of 2 and 4, and a refresh of 5", o.calls)
		}
		if st := c.Stats(); st.L1.Hits != 3 || st.L1.Misses != 2 || st.Refreshes != 1 {
			t.Errorf("%d hits, %d misses, %d refreshes; want 3, 2 and 1", st.L1.Hits, st.L1.Misses, st.Refreshes)
		}
		fresh := map[int]int{1: -1, 2: 20, 3: -3, 4: 40, 5: 50}
		if get(fresh); len(o.calls) != 0 {
			t.Errorf("loads of %v, want none", o.calls)
		}
		loaded := map[int]int{1: 10, 2: 20, 3: 30, 4: 40, 5: 50}
		if get(loaded, strata.NoMemory()); len(o.calls) != 1 || len(o.calls[0]) != 5 {
			t.Errorf("loads of %v, want of all without L1", o.calls)
		}
		lab.Must(t, c.InvalidateAll(t.Context()))
		get(loaded)
	})
}

// Without a ManyLoader the Loader runs for one key after the other, and one that fails is no failure of the others.
func TestKeyThatFailsInABatchOfALoaderFailsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Loader = func(_ context.Context, key string) (int64, error) {
				switch key {
				case "fails":
					return 0, broken
				case "panics":
					panic(broken)
				case "none":
					return 0, strata.ErrNotFound
				}
				return 1, nil
			}
		})
		keys := []string{"a", "fails", "b", "panics", "none", "c"}
		got, err := c.GetMany(t.Context(), keys, nil)
		var partial *strata.PartialError[string]
		if len(got) != 3 || !errors.As(err, &partial) || len(partial.Failed) != 2 || !errors.Is(partial.Failed["fails"], broken) {
			t.Fatalf("got %v, %v", got, err)
		}
		var panicked *strata.LoadPanicError
		if !errors.As(partial.Failed["panics"], &panicked) {
			t.Errorf("%v", partial.Failed["panics"])
		}
		if v, err := c.GetOrLoad(t.Context(), "c", nil); v != 1 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
		if got, err := c.GetMany(t.Context(), []string{"fails", "a"}, nil, strata.SkipRead()); len(got) != 1 || !errors.As(err, &partial) || !errors.Is(partial.Failed["fails"], broken) {
			t.Errorf("skipping reads: %v, %v", got, err)
		}
	})
}

// TestKeyThatFailsInABatchOfALoaderHasItsStaleValue, and the other keys have new ones.
func TestKeyThatFailsInABatchOfALoaderHasItsStaleValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loads := int64(0)
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.TTL, o.Jitter, o.RefreshAt, o.Stale = time.Minute, -1, -1, strata.Stale{OnError: time.Hour}
			o.Loader = func(_ context.Context, key string) (int64, error) {
				if loads++; loads > 3 && key == "fails" {
					return 0, errors.New("broken")
				}
				return loads, nil
			}
		})
		keys := []string{"a", "fails", "b"}
		first, err := c.GetMany(t.Context(), keys, nil)
		lab.Must(t, err)
		time.Sleep(2 * time.Minute) // in the bubble
		got, err := c.GetMany(t.Context(), keys, nil)
		if want := map[string]int64{"a": 4, "fails": first["fails"], "b": 6}; err != nil || !maps.Equal(got, want) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	})
}

func TestBatchOfALoaderEndsWhenTheOriginFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := lab.NewCache(t, func(o *strata.Options[int, int64]) {
			o.Loader = func(context.Context, int) (int64, error) { asked++; return 0, errors.New("down") }
		})
		keys := make([]int, 100)
		for i := range keys {
			keys[i] = i
		}
		_, err := c.GetMany(t.Context(), keys, nil)
		var partial *strata.PartialError[int]
		if !errors.As(err, &partial) || len(partial.Failed) != len(keys) || asked != 5 {
			t.Errorf("asked %d times: %v", asked, err)
		}
	})
}
