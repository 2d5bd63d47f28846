package loads_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// someKeys is an origin of batches: it has the keys in has, and fails with err.
type someKeys struct {
	mu    sync.Mutex
	takes time.Duration
	has   map[string]int64
	err   error
	calls [][]string
}

func (o *someKeys) load(_ context.Context, keys []string) (map[string]int64, error) {
	o.mu.Lock()
	o.calls = append(o.calls, slices.Sorted(slices.Values(keys)))
	takes := o.takes
	o.mu.Unlock()
	time.Sleep(takes) // in a bubble
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return nil, o.err
	}
	found := map[string]int64{}
	for _, k := range keys {
		if v, ok := o.has[k]; ok {
			found[k] = v
		}
	}
	return found, nil
}

// change replaces the values and the error of the origin.
func (o *someKeys) change(err error, has map[string]int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err, o.has = err, has
}

// asked returns the keys asked for since the last call.
func (o *someKeys) asked() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer func() { o.calls = nil }()
	return fmt.Sprint(o.calls)
}

// getsMany checks the values that a GetMany brings.
func getsMany(t *testing.T, c *strata.Cache[string, int64], o *someKeys, want map[string]int64, keys ...string) {
	t.Helper()
	got, err := c.GetMany(t.Context(), keys, o.load)
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

// both runs a test on a cache alone, and on one with an L2.
func both(t *testing.T, change func(*strata.Options[string, int64]), test func(t *testing.T, c *strata.Cache[string, int64])) {
	t.Run("alone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, lab.NewCache(t, change)) })
	})
	t.Run("with L2", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, lab.Instance(t, lab.NewShared(), change)) })
	})
}

func TestKeysThatABatchDoesNotBringAreRememberedAsNotThere(t *testing.T) {
	both(t, lab.Negatives, func(t *testing.T, c *strata.Cache[string, int64]) {
		o := &someKeys{has: map[string]int64{"a": 1}}
		for range 3 {
			getsMany(t, c, o, map[string]int64{"a": 1}, "a", "b")
		}
		if got := o.asked(); got != "[[a b]]" {
			t.Errorf("asked for %s, want a and b once", got)
		}
		if _, err := c.GetOrLoad(t.Context(), "b", lab.Never(t)); !errors.Is(err, strata.ErrNotFound) {
			t.Errorf("by itself: %v, want ErrNotFound", err)
		}
		time.Sleep(20 * time.Second) // in a bubble
		getsMany(t, c, o, map[string]int64{"a": 1}, "a", "b")
		if got := o.asked(); got != "[[b]]" {
			t.Errorf("asked for %s after its TTL, want b", got)
		}
	})
}

func TestBatchRefreshesDueEntriesInOneCallInTheBackground(t *testing.T) {
	both(t, refreshAt(0.5), func(t *testing.T, c *strata.Cache[string, int64]) {
		o := &someKeys{has: map[string]int64{"a": 1, "b": 1, "c": 1}}
		old := map[string]int64{"a": 1, "b": 1, "c": 1}
		getsMany(t, c, o, map[string]int64{"a": 1, "b": 1}, "a", "b")
		time.Sleep(60 * time.Second)
		getsMany(t, c, o, old, "a", "b", "c")
		synctest.Wait()
		if got := o.asked(); got != "[[a b] [a b] [c]]" && got != "[[a b] [c] [a b]]" {
			t.Errorf("asked for %s, want the missing c, and a and b in one refresh", got)
		}
		o.change(nil, map[string]int64{"a": 2, "b": 2})
		o.takes = time.Second
		time.Sleep(40 * time.Second)
		getsMany(t, c, o, old, "a", "b", "c")
		time.Sleep(55 * time.Second)
		start := time.Now()
		getsMany(t, c, o, map[string]int64{"a": 1, "b": 1}, "a", "b")
		if took := time.Since(start); took != 0 {
			t.Errorf("a refresh was waited for: %v", took)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		getsMany(t, c, o, map[string]int64{"a": 2, "b": 2}, "a", "b")
	})
}

func TestRefreshOfABatchRemovesMissingKeysUnlessItFails(t *testing.T) {
	both(t, refreshAt(0.5), func(t *testing.T, c *strata.Cache[string, int64]) {
		old := map[string]int64{"a": 1, "b": 1}
		o := &someKeys{has: old}
		getsMany(t, c, o, old, "a", "b")
		time.Sleep(60 * time.Second)
		o.change(lab.ErrDown, nil)
		getsMany(t, c, o, old, "a", "b")
		synctest.Wait()
		for k := range old {
			if v, ok := c.Get(t.Context(), k); v != 1 || !ok {
				t.Errorf("%s is %d, %v after a refresh that failed", k, v, ok)
			}
		}
		o.change(nil, map[string]int64{"a": 2})
		getsMany(t, c, o, old, "a", "b")
		synctest.Wait()
		if v, ok := c.Get(t.Context(), "a"); v != 2 || !ok {
			t.Errorf("a is %d, %v; want 2", v, ok)
		}
		if v, ok := c.Get(t.Context(), "b"); ok {
			t.Errorf("b is %d, which is not there any more", v)
		}
	})
}

func TestBatchServesStaleValues(t *testing.T) {
	both(t, lab.Windows(10*time.Second, time.Hour), func(t *testing.T, c *strata.Cache[string, int64]) {
		old := map[string]int64{"a": 1, "b": 1}
		o := &someKeys{has: old}
		getsMany(t, c, o, old, "a", "b")
		time.Sleep(65 * time.Second)
		o.change(nil, map[string]int64{"a": 2, "b": 2})
		getsMany(t, c, o, old, "a", "b")
		synctest.Wait()
		getsMany(t, c, o, map[string]int64{"a": 2, "b": 2}, "a", "b")
		if got := o.asked(); got != "[[a b] [a b]]" {
			t.Errorf("asked for %s, want one refresh", got)
		}
		time.Sleep(2 * time.Minute)
		o.change(lab.ErrDown, nil)
		getsMany(t, c, o, map[string]int64{"a": 2, "b": 2}, "a", "b")
		time.Sleep(time.Hour)
		got, err := c.GetMany(t.Context(), []string{"a", "b"}, o.load)
		if len(got) != 0 || !errors.Is(err, lab.ErrDown) {
			t.Errorf("after the window: %v, %v", got, err)
		}
	})
}

func TestFailureOfABatchIsRememberedForItsKeys(t *testing.T) {
	both(t, lab.Remembering, func(t *testing.T, c *strata.Cache[string, int64]) {
		o := &someKeys{err: lab.ErrDown}
		lab.Must(t, c.Set(t.Context(), "held", 1))
		for range 5 {
			got, err := c.GetMany(t.Context(), []string{"a", "b", "held"}, o.load)
			var partial *strata.PartialError[string]
			if !errors.As(err, &partial) || len(partial.Failed) != 2 || !errors.Is(err, lab.ErrDown) || got["held"] != 1 {
				t.Errorf("got %v, %v", got, err)
			}
			if want := "strata: load test: origin is down"; partial.Failed["a"].Error() != want {
				t.Errorf("%v, want %s", partial.Failed["a"], want)
			}
		}
		if got := o.asked(); got != "[[a b]]" {
			t.Errorf("asked for %s, want a and b once", got)
		}
	})
}

func TestBatchCountsAsOneLoadForMaxLoads(t *testing.T) {
	both(t, limits(strata.Limits{MaxLoads: 2}), func(t *testing.T, c *strata.Cache[string, int64]) {
		b := &busy{takes: time.Second}
		load := func(ctx context.Context, keys []string) (map[string]int64, error) {
			_, err := b.load(ctx, "")
			return map[string]int64{keys[0]: 1}, err
		}
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				if _, err := c.GetMany(t.Context(), []string{fmt.Sprint(i, "a"), fmt.Sprint(i, "b")}, load); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if b.most.Load() != 2 || b.total.Load() != 10 {
			t.Errorf("%d of %d at once, want 2 of 10", b.most.Load(), b.total.Load())
		}
	})
}

func TestRefreshOfABatchThatALoadHasStartedIsNotPartOfThatLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, refreshAt(0.5), limits(strata.Limits{MaxLoads: 1}))
		b := &busy{takes: 5 * time.Second}
		inner := func(ctx context.Context, keys []string) (map[string]int64, error) {
			_, err := b.load(ctx, "")
			return map[string]int64{"a": 2, "b": 2}, err
		}
		outer := func(ctx context.Context, _ string) (int64, error) {
			defer b.begin()()
			got, err := c.GetMany(ctx, []string{"a", "b"}, inner)
			time.Sleep(5 * time.Second)
			return got["a"], err
		}
		lab.Must(t, c.SetMany(t.Context(), map[string]int64{"a": 1, "b": 1}))
		time.Sleep(60 * time.Second)
		if v := lab.MustGet(t, c, "outer", outer); v != 1 {
			t.Errorf("got %d, want the fresh 1", v)
		}
		time.Sleep(10 * time.Second)
		if v := lab.MustGet(t, c, "a", lab.Never(t)); v != 2 || b.most.Load() != 1 {
			t.Errorf("got %d, %d loads at once; want 2, 1", v, b.most.Load())
		}
	})
}

func TestAttemptsOfBatchesAreRationedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Remembering)
		o := &someKeys{err: lab.ErrDown}
		keys := make([]string, 200)
		for i := range keys {
			keys[i] = fmt.Sprint(i)
		}
		for range 2 {
			if _, err := c.GetMany(t.Context(), keys, o.load); !errors.Is(err, lab.ErrDown) {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if n := len(o.calls[1]); len(o.calls) != 2 || n != 10 {
			t.Errorf("%d calls, the second for %d keys; want 10 keys in a second", len(o.calls), n)
		}
	})
}

func TestEmptyBatchAsksNoTier(t *testing.T) {
	both(t, lab.Negatives, func(t *testing.T, c *strata.Cache[string, int64]) {
		o := &someKeys{}
		getsMany(t, c, o, map[string]int64{})
		if got := o.asked(); got != "[]" {
			t.Errorf("asked for %s", got)
		}
		nothing := func(context.Context, []string) (map[string]int64, error) { return nil, nil }
		if got, err := c.GetMany(t.Context(), []string{"a"}, nothing); len(got) != 0 || err != nil {
			t.Errorf("a nil map: %v, %v", got, err)
		}
	})
}

func TestExtraKeysOfABatchHaveTheSettingsOfTheLoader(t *testing.T) {
	for name, say := range map[string]func(*strata.Load){
		"tags":     func(l *strata.Load) { l.SetTags("t") },
		"no store": (*strata.Load).NoStore,
	} {
		t.Run(name, func(t *testing.T) {
			c := lab.NewCache[string, int64](t)
			_, err := c.GetMany(t.Context(), []string{"k"}, func(ctx context.Context, _ []string) (map[string]int64, error) {
				say(strata.Loading(ctx))
				return map[string]int64{"k": 1, "extra": 1}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.InvalidateTags(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
			for _, k := range []string{"k", "extra"} {
				if v, ok := c.Get(t.Context(), k); ok {
					t.Errorf("%s is kept: %d", k, v)
				}
			}
		})
	}
}

// TestValueBesideAnErrorCountsHoweverItsKeyIsLoaded has a loader that knows a, and nothing of other keys.
func TestValueBesideAnErrorCountsHoweverItsKeyIsLoaded(t *testing.T) {
	partly := func(context.Context, []string) (map[string]int64, error) {
		return map[string]int64{"a": 1}, lab.ErrDown
	}
	for name, get := range map[string]func(t *testing.T) (map[string]int64, error){
		"alone": func(t *testing.T) (map[string]int64, error) {
			return lab.NewCache[string, int64](t).GetMany(t.Context(), []string{"a"}, partly)
		},
		"with others": func(t *testing.T) (map[string]int64, error) {
			return lab.NewCache[string, int64](t).GetMany(t.Context(), []string{"a", "b"}, partly)
		},
		"SkipRead": func(t *testing.T) (map[string]int64, error) {
			return lab.NewCache[string, int64](t).GetMany(t.Context(), []string{"a", "b"}, partly, strata.SkipRead())
		},
		"GetOrLoad": func(t *testing.T) (map[string]int64, error) {
			c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.ManyLoader = partly })
			v, err := c.GetOrLoad(t.Context(), "a", nil)
			return map[string]int64{"a": v}, err
		},
		"beside another instance": func(t *testing.T) (map[string]int64, error) {
			s := lab.NewShared()
			a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
			go a.GetOrLoad(t.Context(), "a", func(context.Context, string) (int64, error) { time.Sleep(time.Second); return 0, lab.ErrDown })
			synctest.Wait()
			return b.GetMany(t.Context(), []string{"a", "b"}, partly)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, err := get(t)
				if partial, ok := errors.AsType[*strata.PartialError[string]](err); all["a"] != 1 || err != nil && !ok || ok && (partial.Failed["a"] != nil || !errors.Is(partial.Failed["b"], lab.ErrDown)) {
					t.Errorf("%v, %v; want the value of a", all, err)
				}
			})
		})
	}
}
