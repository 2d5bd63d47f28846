package loads_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// heavy is the value of a key that a cache of crowded refuses at its first sight. Its weight is the
// value.
const heavy = 500

// crowded returns a cache whose L1 is full of 1000 entries of weight 1.
func crowded(t *testing.T) *strata.Cache[string, int64] {
	t.Helper()
	c := lab.NewCache(t, lab.Negatives, func(o *strata.Options[string, int64]) {
		o.TTL, o.Memory.MaxWeight = time.Hour, 1000
		o.Memory.Weigh = func(_ string, v int64) int64 { return v }
	})
	for i := range 1000 {
		lab.Must(t, c.Set(t.Context(), strconv.Itoa(i), 1))
	}
	return c
}

// loadHeavy loads k, and reports whether that took a load.
func loadHeavy(t *testing.T, c *strata.Cache[string, int64], opts ...strata.CallOption) (loaded bool) {
	t.Helper()
	v, err := c.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) {
		loaded = true
		return heavy, nil
	}, opts...)
	if v != heavy || err != nil {
		t.Fatalf("heavy is %d, %v", v, err)
	}
	return loaded
}

// none is a load of a key that the origin does not have.
func none(context.Context, string) (int64, error) { return 0, strata.ErrNotFound }

// TestRefusedLoadEndsTheNegativeEntry: a key that the origin did not have gets a heavy value. L1 does
// not keep the value, and must not go on to say that there is none.
func TestRefusedLoadEndsTheNegativeEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := crowded(t)
		if _, err := c.GetOrLoad(t.Context(), "k", none); !strata.IsNotFound(err) {
			t.Fatalf("got %v", err)
		}
		if !loadHeavy(t, c, strata.SkipRead()) {
			t.Fatal("found before a load")
		}
		lab.WantAbsent(t, "after a refused load", c)
		if !loadHeavy(t, c) {
			t.Fatal("a refused value is found")
		}
		if loadHeavy(t, c) {
			t.Fatal("the value is not kept when it comes back")
		}
	})
}

// TestNegativeAnswerFollowsARefusedLoad: the origin loses the key after its heavy value was refused.
func TestNegativeAnswerFollowsARefusedLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := crowded(t)
		loadHeavy(t, c)
		for range 2 {
			if _, err := c.GetOrLoad(t.Context(), "k", none); !strata.IsNotFound(err) {
				t.Fatalf("got %v", err)
			}
		}
		if _, err := c.GetOrLoad(t.Context(), "k", lab.Never(t)); !strata.IsNotFound(err) {
			t.Fatalf("the negative entry: %v", err)
		}
	})
}

// TestDropDuringALoadOfARefusedKeyCounts drops the key, and its tag, while the load runs whose value
// L1 would keep: it is the second one.
func TestDropDuringALoadOfARefusedKeyCounts(t *testing.T) {
	for name, drop := range map[string]func(context.Context, *strata.Cache[string, int64]) error{
		"key": func(ctx context.Context, c *strata.Cache[string, int64]) error { return c.Invalidate(ctx, "k") },
		"tag": func(ctx context.Context, c *strata.Cache[string, int64]) error { return c.InvalidateTags(ctx, "t") },
		"all": func(ctx context.Context, c *strata.Cache[string, int64]) error { return c.InvalidateAll(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := crowded(t)
				loadHeavy(t, c, strata.WithTags("t"))
				_, err := c.GetOrLoad(t.Context(), "k", func(ctx context.Context, _ string) (int64, error) {
					return heavy, drop(ctx, c)
				}, strata.WithTags("t"))
				lab.Must(t, err)
				if _, ok := c.Get(t.Context(), "k"); ok {
					t.Error("a value from before the drop is kept")
				}
			})
		})
	}
}

// TestHoldKeepsOutAValueThatWasRefusedBefore: L1 keeps no load during the hold, however often the key
// comes, and keeps one after it.
func TestHoldKeepsOutAValueThatWasRefusedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := crowded(t)
		loadHeavy(t, c)
		lab.Must(t, c.InvalidateHold(t.Context(), 10*time.Second, "k"))
		for range 3 {
			if !loadHeavy(t, c) {
				t.Fatal("a value is kept during the hold")
			}
		}
		time.Sleep(11 * time.Second)
		if !loadHeavy(t, c) {
			t.Fatal("found after the hold, before a load")
		}
		missed := 0
		for missed < 2 && loadHeavy(t, c) {
			missed++
		}
		if missed == 2 {
			t.Error("never kept after the hold")
		}
	})
}

// TestRefusedExtraKeyOfABatchIsNotFound: the batch Loader returns a heavy value that was not asked
// for.
func TestRefusedExtraKeyOfABatchIsNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := crowded(t)
		got, err := c.GetMany(t.Context(), []string{"asked"}, func(context.Context, []string) (map[string]int64, error) {
			return map[string]int64{"asked": 1, "k": heavy}, nil
		})
		lab.Must(t, err)
		if _, ok := c.Get(t.Context(), "k"); ok || len(got) != 1 || c.Len() < 999 || c.Stats().Rejected != 1 {
			t.Errorf("found %v, %d results, %d entries, %d rejected", ok, len(got), c.Len(), c.Stats().Rejected)
		}
		lab.Must(t, errors.Join(c.Invalidate(t.Context(), "asked"), c.Set(t.Context(), "k", heavy)))
		if v, ok := c.Get(t.Context(), "k"); v != heavy || !ok {
			t.Errorf("after Set: %d, %v", v, ok)
		}
	})
}
