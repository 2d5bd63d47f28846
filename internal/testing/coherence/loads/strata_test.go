package loads_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

func TestThousandCallersOfAnExpiredKeyLoadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		o := &lab.Origin{Takes: time.Second}
		lab.MustGet(t, c, "k", o.Load)
		time.Sleep(2 * time.Minute)
		o.Value.Store(2)
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if v := lab.MustGet(t, c, "k", o.Load); v != 2 {
					t.Errorf("got %d, want 2", v)
				}
			})
		}
		wg.Wait()
		if n := o.Loads.Load(); n != 2 {
			t.Errorf("%d loads, want 2", n)
		}
	})
}

func TestLeaderCancelledFollowerGetsTheValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		o := &lab.Origin{Takes: 800 * time.Millisecond}
		o.Value.Store(1)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.GetOrLoad(ctx, "k", o.Load); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("leader: %v, want its own deadline", err)
			}
		})
		synctest.Wait()
		if v := lab.MustGet(t, c, "k", o.Load); v != 1 || o.Loads.Load() != 1 {
			t.Errorf("follower: %d after %d loads, want 1 after 1", v, o.Loads.Load())
		}
		wg.Wait()
	})
}

func TestFollowerReturnsAtItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		o := &lab.Origin{Takes: 800 * time.Millisecond}
		var wg sync.WaitGroup
		wg.Go(func() { lab.MustGet(t, c, "k", o.Load) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := c.GetOrLoad(ctx, "k", o.Load)
		if took := time.Since(start); took != 50*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("follower returned after %v with %v", took, err)
		}
		wg.Wait()
	})
}

func TestPanicOfALoaderIsAnErrorForAllItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		cause := errors.New("cause")
		panics := func(context.Context, string) (int64, error) {
			time.Sleep(time.Second)
			panic(cause)
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := c.GetOrLoad(t.Context(), "k", panics)
				var p *strata.LoadPanicError
				if !errors.As(err, &p) || p.Value != any(cause) || len(p.Stack) == 0 || !errors.Is(err, cause) {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		if v := lab.MustGet(t, c, "k", (&lab.Origin{}).Load); v != 0 || c.Len() != 1 {
			t.Errorf("the next call did not load and store")
		}
		if s := c.Stats(); s.Loads.Panics != 1 {
			t.Errorf("%d panics counted, want 1", s.Loads.Panics)
		}
	})
}

func TestLoaderThatExitsItsGoroutineIsAnErrorForAllItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		exits := func(context.Context, string) (int64, error) {
			time.Sleep(time.Second)
			lab.ExitGoroutine()
			return 1, nil
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := c.GetOrLoad(t.Context(), "k", exits); !errors.Is(err, strata.ErrLoadExited) {
					t.Errorf("got %v, want ErrLoadExited", err)
				}
			})
		}
		wg.Wait()
		if c.Len() != 0 {
			t.Error("something was stored")
		}
		lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
	})
}

func TestRecursiveLoadIsRefused(t *testing.T) {
	tests := []struct {
		name  string
		asks  map[string]string
		start []string
	}{
		{"a loader asks for its own key", map[string]string{"a": "a"}, []string{"a"}},
		{"a circle in one chain", map[string]string{"a": "b", "b": "a"}, []string{"a"}},
		{"two chains against each other", map[string]string{"a": "b", "b": "a"}, []string{"a", "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache[string, int64](t)
				var load strata.Loader[string, int64]
				load = func(ctx context.Context, key string) (int64, error) {
					time.Sleep(time.Second)
					return c.GetOrLoad(ctx, tt.asks[key], load)
				}
				var wg sync.WaitGroup
				for _, k := range tt.start {
					wg.Go(func() {
						if _, err := c.GetOrLoad(t.Context(), k, load); !errors.Is(err, strata.ErrRecursiveLoad) {
							t.Errorf("%s: %v, want ErrRecursiveLoad", k, err)
						}
					})
				}
				wg.Wait()
			})
		})
	}
}

func TestRecursionThroughTwoCachesIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		users, orders := lab.NewCache[string, int64](t), lab.NewCache[string, int64](t)
		var user, order strata.Loader[string, int64]
		user = func(ctx context.Context, k string) (int64, error) { return orders.GetOrLoad(ctx, k, order) }
		order = func(ctx context.Context, k string) (int64, error) { return users.GetOrLoad(ctx, k, user) }
		if _, err := users.GetOrLoad(t.Context(), "k", user); !errors.Is(err, strata.ErrRecursiveLoad) {
			t.Errorf("got %v, want ErrRecursiveLoad", err)
		}
	})
}

func TestZeroValuesAreValues(t *testing.T) {
	type thing struct{ n int }
	c := lab.NewCache[string, *thing](t)
	loads := 0
	load := func(context.Context, string) (*thing, error) { loads++; return nil, nil }
	for range 2 {
		if v, err := c.GetOrLoad(t.Context(), "k", load); v != nil || err != nil {
			t.Fatalf("got %v, %v", v, err)
		}
	}
	if v, ok := c.Get(t.Context(), "k"); v != nil || !ok || loads != 1 {
		t.Errorf("Get: %v, %v after %d loads; want nil, true, 1", v, ok, loads)
	}
}

func TestLoadSlowerThanTTLIsFreshFromItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.TTL = time.Second })
		o := &lab.Origin{Takes: 5 * time.Second}
		lab.MustGet(t, c, "k", o.Load)
		time.Sleep(900 * time.Millisecond)
		lab.MustGet(t, c, "k", o.Load)
		if n := o.Loads.Load(); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
		time.Sleep(200 * time.Millisecond)
		lab.MustGet(t, c, "k", o.Load)
		if n := o.Loads.Load(); n != 2 {
			t.Errorf("%d loads after the TTL, want 2", n)
		}
	})
}

func TestEvictionDoesNotTouchARunningLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Memory.MaxEntries = 1 })
		o := &lab.Origin{Takes: time.Second}
		o.Value.Store(3)
		done := make(chan int64)
		go func() { done <- lab.MustGet(t, c, "k", o.Load) }()
		synctest.Wait()
		for _, k := range []string{"a", "b", "c"} {
			if err := c.Set(t.Context(), k, 0); err != nil {
				t.Fatal(err)
			}
		}
		if v := <-done; v != 3 || c.Len() != 1 {
			t.Errorf("got %d with %d entries, want 3 with 1", v, c.Len())
		}
	})
}

func TestSetDuringALoadWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		o := &lab.Origin{Takes: time.Second}
		o.Value.Store(1)
		var wg sync.WaitGroup
		wg.Go(func() { lab.MustGet(t, c, "k", o.Load) })
		synctest.Wait()
		if err := c.Set(t.Context(), "k", 2); err != nil {
			t.Fatal(err)
		}
		if v := lab.MustGet(t, c, "k", o.Load); v != 2 {
			t.Errorf("a caller after Set got %d, want 2", v)
		}
		wg.Wait()
		if v, ok := c.Get(t.Context(), "k"); v != 2 || !ok {
			t.Errorf("after the load: %d, %v; want 2", v, ok)
		}
		synctest.Wait() // a flight counts after its callers have woken
		if s := c.Stats(); s.Refused != 1 {
			t.Errorf("%d refused stores counted, want 1", s.Refused)
		}
	})
}

func TestManySetsAtOnceLeaveAnEntry(t *testing.T) {
	c := lab.NewCache[int, int](t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for k := range 2000 {
				if err := c.Set(t.Context(), k, g); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for k := range 2000 {
		if _, ok := c.Get(t.Context(), k); !ok {
			t.Fatalf("key %d is gone after eight Sets", k)
		}
	}
}

func TestInvalidateFencesRunningLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		slow, o := &lab.Origin{Takes: 2 * time.Second}, &lab.Origin{Takes: time.Second}
		slow.Value.Store(1)
		var wg sync.WaitGroup
		wg.Go(func() {
			if v := lab.MustGet(t, c, "k", slow.Load); v != 1 {
				t.Errorf("caller from before got %d, want 1", v)
			}
		})
		synctest.Wait()
		o.Value.Store(2)
		if err := c.Invalidate(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if v := lab.MustGet(t, c, "k", o.Load); v != 2 {
			t.Errorf("a caller after Invalidate got %d, want 2", v)
		}
		wg.Wait()
		if v := lab.MustGet(t, c, "k", o.Load); v != 2 {
			t.Errorf("later reader got %d, want 2", v)
		}
	})
}

func TestInvalidateAllFencesRunningLoadsAndEmptiesL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		fast, slow := &lab.Origin{}, &lab.Origin{Takes: time.Second}
		lab.MustGet(t, c, "held", fast.Load)
		var wg sync.WaitGroup
		wg.Go(func() { lab.MustGet(t, c, "loading", slow.Load) })
		synctest.Wait()
		if err := c.InvalidateAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		for _, k := range []string{"held", "loading"} {
			if _, ok := c.Get(t.Context(), k); ok {
				t.Errorf("%s is still there", k)
			}
		}
		if c.Len() != 0 {
			t.Errorf("%d entries", c.Len())
		}
	})
}

func TestExpireLoadsAgainAndServesTheStaleValueOnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		o := &lab.Origin{}
		o.Value.Store(1)
		lab.MustGet(t, c, "k", o.Load)
		if err := c.Expire(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if _, ok := c.Get(t.Context(), "k"); ok {
			t.Error("Get returned a stale value")
		}
		fails := func(context.Context, string) (int64, error) { return 0, errors.New("down") }
		if v := lab.MustGet(t, c, "k", fails); v != 1 {
			t.Errorf("got %d while the origin is down, want the stale 1", v)
		}
		o.Value.Store(2)
		if v := lab.MustGet(t, c, "k", o.Load); v != 2 {
			t.Errorf("got %d, want 2", v)
		}
		if s := c.Stats(); s.StaleOnError != 1 {
			t.Errorf("%d stale served, want 1", s.StaleOnError)
		}
	})
}

func TestNotModifiedGivesThePreviousValueANewLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		o := &lab.Origin{}
		o.Value.Store(1)
		lab.MustGet(t, c, "k", o.Load)
		time.Sleep(50 * time.Second)
		if err := c.Expire(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		asks := func(ctx context.Context, _ string) (int64, error) {
			if v, ok := c.Previous(ctx); v != 1 || !ok {
				t.Errorf("Previous: %d, %v; want 1, true", v, ok)
			}
			return 0, strata.ErrNotModified
		}
		if v := lab.MustGet(t, c, "k", asks); v != 1 {
			t.Errorf("got %d, want 1", v)
		}
		time.Sleep(50 * time.Second)
		if v, ok := c.Get(t.Context(), "k"); v != 1 || !ok {
			t.Errorf("50 s later: %d, %v; want 1, true", v, ok)
		}
		if _, err := c.GetOrLoad(t.Context(), "other", func(context.Context, string) (int64, error) {
			return 0, strata.ErrNotModified
		}); !errors.Is(err, strata.ErrNotModified) {
			t.Errorf("without a previous value: %v, want the error", err)
		}
	})
}

func TestNotFoundRemovesTheEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
		if err := c.Expire(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		gone := func(context.Context, string) (int64, error) { return 0, strata.ErrNotFound }
		if _, err := c.GetOrLoad(t.Context(), "k", gone); !errors.Is(err, strata.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
		if c.Len() != 0 {
			t.Error("the entry is still held")
		}
	})
}

func TestCloseEndsLoadsAndCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		o := &lab.Origin{Takes: time.Hour}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.GetOrLoad(t.Context(), "k", o.Load); !errors.Is(err, strata.ErrClosed) {
				t.Errorf("caller got %v, want ErrClosed", err)
			}
		})
		synctest.Wait()
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if _, err := c.GetOrLoad(t.Context(), "k", o.Load); !errors.Is(err, strata.ErrClosed) {
			t.Errorf("GetOrLoad: %v", err)
		}
		for name, err := range map[string]error{
			"Set": c.Set(t.Context(), "k", 1), "SetMany": c.SetMany(t.Context(), nil), "Invalidate": c.Invalidate(t.Context(), "k"),
			"Expire": c.Expire(t.Context(), "k"), "InvalidateAll": c.InvalidateAll(t.Context()),
		} {
			if !errors.Is(err, strata.ErrClosed) {
				t.Errorf("%s: %v, want ErrClosed", name, err)
			}
		}
		if _, ok := c.Get(t.Context(), "k"); ok {
			t.Error("Get found something")
		}
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

func TestLoadThatTakesTooLongIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Limits.HardTimeout = time.Second })
		start := time.Now()
		_, err := c.GetOrLoad(t.Context(), "k", func(ctx context.Context, _ string) (int64, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if took := time.Since(start); took != time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("returned after %v with %v", took, err)
		}
	})
}

func TestContextThatIsOverLoadsNothingButStillHits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		o := &lab.Origin{}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.GetOrLoad(over, "k", o.Load); !errors.Is(err, context.Canceled) || o.Loads.Load() != 0 {
			t.Errorf("%v after %d loads; want context.Canceled, 0", err, o.Loads.Load())
		}
		lab.MustGet(t, c, "k", o.Load)
		if _, err := c.GetOrLoad(over, "k", o.Load); err != nil {
			t.Errorf("hit: %v", err)
		}
	})
}

func TestKeyIsLoadedOnceHoweverItsCallersInterleave(t *testing.T) {
	c := lab.NewCache(t, func(o *strata.Options[int, int]) { o.Memory.MaxEntries = 20_000 })
	const keys = 10_000
	var loads [keys]atomic.Int32
	load := func(_ context.Context, k int) (int, error) { loads[k].Add(1); return k, nil }
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for k := range keys {
				if v, err := c.GetOrLoad(t.Context(), k, load); v != k || err != nil {
					t.Errorf("%d: %d, %v", k, v, err)
				}
			}
		})
	}
	wg.Wait()
	for k := range loads {
		if n := loads[k].Load(); n != 1 {
			t.Errorf("key %d was loaded %d times", k, n)
		}
	}
}
