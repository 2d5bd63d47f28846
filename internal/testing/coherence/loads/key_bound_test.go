package loads_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// longKey has a length by its name in L2 only.
type longKey struct{ name string }

// refusals are all calls with a key, by their names; each returns its error.
func refusals[K comparable](c *strata.Cache[K, int64], load strata.Loader[K, int64]) map[string]func(context.Context, K) error {
	return map[string]func(context.Context, K) error{
		"GetOrLoad": func(ctx context.Context, k K) error { _, err := c.GetOrLoad(ctx, k, load); return err },
		"SkipRead": func(ctx context.Context, k K) error {
			_, err := c.GetOrLoad(ctx, k, load, strata.SkipRead())
			return err
		},
		"GetMany": func(ctx context.Context, k K) error {
			_, err := c.GetMany(ctx, []K{k}, func(ctx context.Context, ks []K) (map[K]int64, error) {
				v, err := load(ctx, ks[0])
				return map[K]int64{ks[0]: v}, err
			})
			var partial *strata.PartialError[K]
			if errors.As(err, &partial) {
				return partial.Failed[k]
			}
			return err
		},
		"Set":     func(ctx context.Context, k K) error { return c.Set(ctx, k, 1) },
		"SetMany": func(ctx context.Context, k K) error { return c.SetMany(ctx, map[K]int64{k: 1}) },
		"Update": func(ctx context.Context, k K) error {
			return c.Update(ctx, k, func(ctx context.Context) (int64, error) { return load(ctx, k) })
		},
		"Invalidate":     func(ctx context.Context, k K) error { return c.Invalidate(ctx, k) },
		"InvalidateHold": func(ctx context.Context, k K) error { return c.InvalidateHold(ctx, time.Minute, k) },
		"Expire":         func(ctx context.Context, k K) error { return c.Expire(ctx, k) },
	}
}

// refuses checks that each call is refused for the key long, and carried out for the key fits.
func refuses[K comparable](t *testing.T, c *strata.Cache[K, int64], asked *int, long, fits K) {
	t.Helper()
	loads := 0
	load := func(context.Context, K) (int64, error) { loads++; return 1, nil }
	for name, call := range refusals(c, load) {
		before := *asked
		if err := call(t.Context(), long); !errors.Is(err, strata.ErrKeyTooLong) {
			t.Errorf("%s: %v; want ErrKeyTooLong", name, err)
		}
		if loads != 0 || *asked != before {
			t.Errorf("%s: %d loads, %d operations on L2 for a key that is refused", name, loads, *asked-before)
		}
		if err := call(t.Context(), fits); err != nil {
			t.Errorf("%s: %v for a key that fits", name, err)
		}
		loads = 0
	}
	if _, ok := c.Get(t.Context(), long); ok {
		t.Error("Get has found a key that is refused")
	}
	if st := c.Stats(); st.Entries > 1 || st.Pending != 0 {
		t.Errorf("%d entries, %d drops are pending", st.Entries, st.Pending)
	}
}

func TestKeysBeyondTheirBoundAreRefusedBeforeAnyWork(t *testing.T) {
	const most = 8 << 10
	long, fits := strings.Repeat("k", most+1), strings.Repeat("k", most)
	counted := func(asked *int) remote.Tier {
		return stratatest.FaultyTier(lab.NewShared().Tier, func(string, string) (time.Duration, error) { *asked++; return 0, nil })
	}
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			refuses(t, lab.NewCache[string, int64](t), new(int), long, fits)
		})
	})
	t.Run("L2", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var asked int
			c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Remote.Tier = counted(&asked) })
			synctest.Wait()
			refuses(t, c, &asked, long, fits)
		})
	})
	t.Run("name in L2", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var asked int
			c := lab.NewCache(t, func(o *strata.Options[longKey, int64]) {
				o.Remote.Tier = counted(&asked)
				o.Remote.Key = func(k longKey) string { return k.name }
				o.Remote.ParseKey = func(s string) (longKey, error) { return longKey{s}, nil }
			})
			synctest.Wait()
			refuses(t, c, &asked, longKey{long}, longKey{fits})
		})
	})
	t.Run("no bound", func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Limits.MaxKeyBytes = -1 })
		lab.MustGet(t, c, long, (&lab.Origin{}).Load)
		wantHeldKey(t, c, long)
	})
}

func wantHeldKey(t *testing.T, c *strata.Cache[string, int64], key string) {
	t.Helper()
	if _, ok := c.Get(t.Context(), key); !ok {
		t.Error("the key is not cached")
	}
}

// TestLongKeysThatABatchBringsAreNotKept has a loader bring 600 keys of a mebibyte.
func TestLongKeysThatABatchBringsAreNotKept(t *testing.T) {
	c := lab.NewCache[string, int64](t)
	extra := strings.Repeat("x", 1<<20)
	_, err := c.GetMany(t.Context(), []string{"k"}, func(context.Context, []string) (map[string]int64, error) {
		all := map[string]int64{"k": 1, "short": 2}
		for i := range 600 {
			all[extra[:len(extra)-i]] = 3
		}
		return all, nil
	})
	lab.Must(t, err)
	if n := c.Stats().Entries; n != 2 {
		t.Errorf("%d entries, want the one that was asked for and the short one", n)
	}
}

// TestMessagesOfKeysThatNoInstanceHasTakeNothing receives a hold on a key longer than
// this instance permits.
func TestMessagesOfKeysThatNoInstanceHasTakeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = nil })
		before := heap()
		for i := range 64 {
			key := strings.Repeat(string(rune('a'+i%26)), 1<<20+i)
			lab.Must(t, s.Bus.Publish(t.Context(), []remote.Message{{Name: "test", Kind: remote.Dropped, From: 99, Key: key, Hold: time.Hour}}))
			synctest.Wait()
		}
		if more := heap() - before; more > 16<<20 {
			t.Errorf("%d MiB are kept for holds on keys that cannot be here", more>>20)
		}
		lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
		lab.WantHeld(t, "another key", c, 0)
	})
}

// TestCallWithOneLongNameDoesNothing calls with a key that fits and a key with a long name in L2.
func TestCallWithOneLongNameDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked int
		c := lab.NewCache(t, func(o *strata.Options[longKey, int64]) {
			o.Limits.MaxKeyBytes = 100
			o.Loader = func(context.Context, longKey) (int64, error) { return 2, nil }
			o.Remote.Tier = stratatest.FaultyTier(lab.NewShared().Tier, func(string, string) (time.Duration, error) { asked++; return 0, nil })
			o.Remote.Key = func(k longKey) string { return k.name }
			o.Remote.ParseKey = func(s string) (longKey, error) { return longKey{s}, nil }
		})
		synctest.Wait()
		fits, long := longKey{"k"}, longKey{strings.Repeat("k", 101)}
		lab.Must(t, c.Set(t.Context(), fits, 1))
		before := asked
		for name, err := range map[string]error{
			"Invalidate":     c.Invalidate(t.Context(), fits, long),
			"InvalidateHold": c.InvalidateHold(t.Context(), time.Minute, fits, long),
			"Expire":         c.Expire(t.Context(), fits, long),
		} {
			if !errors.Is(err, strata.ErrKeyTooLong) {
				t.Errorf("%s: %v; want ErrKeyTooLong", name, err)
			}
		}
		if v, ok := c.Get(t.Context(), fits); !ok || v != 1 || asked != before {
			t.Errorf("%d, %v after %d operations on L2; want the value as it was", v, ok, asked-before)
		}
		err := c.Refresh(t.Context(), fits, long)
		if partial, ok := errors.AsType[*strata.PartialError[longKey]](err); !ok || len(partial.Failed) != 1 || !errors.Is(partial.Failed[long], strata.ErrKeyTooLong) {
			t.Errorf("Refresh: %v; want ErrKeyTooLong for the long key", err)
		}
		synctest.Wait()
		if v, ok := c.Get(t.Context(), fits); !ok || v != 2 {
			t.Errorf("%d, %v; want the refreshed value", v, ok)
		}
	})
}

func TestVerdictOnAKeyThatIsTooLong(t *testing.T) {
	tiers(t, func(t *testing.T, c *strata.Cache[string, int64]) {
		long := strings.Repeat("k", 9<<10)
		for _, off := range []bool{false, true} {
			lab.Tune(t, c, strata.Tuning{Off: &off})
			if v := c.Explain(t.Context(), long).Verdict; !strings.HasPrefix(v, "The read fails: ") {
				t.Errorf("off: %t: Explain says %q", off, v)
			}
			if _, err := c.GetOrLoad(t.Context(), long, lab.Never(t)); !errors.Is(err, strata.ErrKeyTooLong) {
				t.Error(err)
			}
		}
	})
}
