package castier_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
)

// limited is a Store that refuses large items, each by itself.
type limited struct {
	*table
	most int
}

func (l limited) SwapMany(ctx context.Context, swaps []castier.Swap) ([]bool, error) {
	swapped, errs := make([]bool, len(swaps)), make([]error, len(swaps))
	for i, s := range swaps {
		if len(s.Value) > l.most {
			errs[i] = remote.ErrValueTooLarge
			continue
		}
		one, err := l.table.SwapMany(ctx, swaps[i:i+1])
		if err != nil {
			return nil, err
		}
		swapped[i] = one[0]
	}
	return swapped, remote.JoinKeys(errs)
}

// unkept opens two instances over a Store. Negative entries live for half a second. loads counts keys.
func unkept(t *testing.T, s castier.Store) (a, b *strata.Cache[string, string], many func(context.Context, []string) (map[string]string, error), loads *atomic.Int64) {
	loads = new(atomic.Int64)
	var all []*strata.Cache[string, string]
	for range 2 {
		c, err := strata.New(strata.Options[string, string]{
			Name: "users", TTL: time.Minute, Jitter: -1, NotFoundTTL: 500 * time.Millisecond, RefreshAt: -1,
			Memory: strata.Memory[string, string]{TTL: seconds}, Remote: strata.Remote[string, string]{Tier: castier.New(s)},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		all = append(all, c)
	}
	return all[0], all[1], func(_ context.Context, keys []string) (map[string]string, error) {
		loads.Add(int64(len(keys)))
		values := map[string]string{}
		for _, key := range keys {
			switch key {
			case "none":
			case "big":
				values[key] = string(make([]byte, 2000))
			default:
				values[key] = "value of " + key
			}
		}
		return values, nil
	}, loads
}

// names are the keys of a batch, among them one.
func names(one string) (keys []string) {
	for i := range 20 {
		keys = append(keys, fmt.Sprint("k", i))
	}
	return slices.Insert(keys, 7, one)
}

// TestValueThatTheStoreCannotKeepLeavesTheOthersOfItsBatch is about a life shorter than a step of the clock, and a value
// too large: the other values of the batch are in both tiers, and the lease of that one has ended.
func TestValueThatTheStoreCannotKeepLeavesTheOthersOfItsBatch(t *testing.T) {
	for one, store := range map[string]castier.Store{
		"none": clockless{&table{rows: map[string]row{}}}, "big": limited{&table{rows: map[string]row{}}, 1000},
	} {
		t.Run(one, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b, many, loads := unkept(t, store)
				begun := time.Now()
				for range 2 {
					if _, err := a.GetMany(t.Context(), names(one), many); err != nil {
						t.Errorf("GetMany: %v", err)
					}
				}
				s := a.Stats()
				if n := loads.Swap(0); n != 21 || s.L2.Hits > 0 || s.RemoteRefused > 0 {
					t.Errorf("%d loads of 21 keys, %d hits of L2, %d values refused", n, s.L2.Hits, s.RemoteRefused)
				}
				if _, err := b.GetMany(t.Context(), names(one), many); err != nil {
					t.Errorf("GetMany by another instance: %v", err)
				}
				if n := loads.Load(); n != 1 || time.Since(begun) > 100*time.Millisecond {
					t.Errorf("another instance has loaded %d keys, and waited for %v", n, time.Since(begun))
				}
			})
		})
	}
}

// TestShortLivesAreNoFailuresOfTheStore: values that live for less than a step of the clock stop no other value from
// being stored.
func TestShortLivesAreNoFailuresOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, many, loads := unkept(t, clockless{&table{rows: map[string]row{}}})
		for i := range 20 {
			if err := a.SetNotFound(t.Context(), fmt.Sprint("none ", i)); !errors.Is(err, remote.ErrRefused) {
				t.Errorf("SetNotFound: %v", err)
			}
		}
		if s := a.Stats(); s.StoringStopped || s.BreakerOpen {
			t.Errorf("after short lives: StoringStopped %t, BreakerOpen %t", s.StoringStopped, s.BreakerOpen)
		}
		for _, c := range []*strata.Cache[string, string]{a, b} {
			if values, err := c.GetMany(t.Context(), []string{"k"}, many); len(values) != 1 || err != nil {
				t.Errorf("%q, %v", values, err)
			}
		}
		if n := loads.Load(); n != 1 {
			t.Errorf("%d loads by two instances", n)
		}
	})
}

// hung is a Store that does not answer while it hangs.
type hung struct {
	clockless
	hangs atomic.Bool
}

func (h *hung) GetMany(ctx context.Context, keys []string) ([]castier.Item, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.clockless.GetMany(ctx, keys)
}

// TestCallsOnAHungStoreEndWithTheirContexts, also the ones that ask beside for the clock of tags.
func TestCallsOnAHungStoreEndWithTheirContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hung{clockless: clockless{&table{rows: map[string]row{}}}}
		h.hangs.Store(true)
		tier := castier.New(h)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			begun := time.Now()
			if _, err := tier.Acquire(ctx, []remote.Request{{Key: "k"}}, time.Minute); err == nil {
				t.Error("a store that hangs has answered")
			}
			if took := time.Since(begun); took > 100*time.Millisecond {
				t.Errorf("Acquire took %v of 100ms", took)
			}
			cancel()
		}
		h.hangs.Store(false)
		time.Sleep(2 * time.Second) // in the bubble
		acquire(t, tier, "k")
		synctest.Wait()
		if l := acquire(t, tier, "other").Lease; l.Clock == 0 {
			t.Error("the clock of tags is not known when the store is back")
		}
	})
}
