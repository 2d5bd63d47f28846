package coherence_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
)

func TestExpireAllServesStaleValuesAtOnceAndRebuildsInTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := newShared(), windows(10*time.Minute, time.Hour)
		all := map[string]*strata.Cache[string, int64]{
			"alone": newCache(t, w), "the caller": instance(t, s, w), "L1": instance(t, s, w), "L2": instance(t, s, w),
		}
		o := &origin{takes: time.Second}
		for _, k := range []string{"k", "of a batch", "late"} {
			for _, name := range []string{"alone", "the caller", "L1"} {
				mustGet(t, all[name], k, o.load)
			}
		}
		o.value.Store(2)
		must(t, all["alone"].ExpireAll(t.Context()))
		must(t, all["the caller"].ExpireAll(t.Context()))
		synctest.Wait()
		for range 3 {
			for name, c := range all {
				var info strata.Info
				begun := time.Now()
				v, err := c.GetOrLoad(t.Context(), "k", o.load, strata.ReadInfo(&info))
				if took := time.Since(begun); v != 0 || err != nil || !info.Stale || took != 0 {
					t.Errorf("%s: %d, %v, %+v after %v; want the stale value at once", name, v, err, info, took)
				}
				found, err := c.GetMany(t.Context(), []string{"of a batch"}, manyOf(o.load))
				if v, ok := found["of a batch"]; v != 0 || !ok || err != nil || time.Since(begun) != 0 {
					t.Errorf("%s: GetMany: %v, %v after %v; want the stale value at once", name, found, err, time.Since(begun))
				}
			}
		}
		time.Sleep(2 * time.Second)
		for name, c := range all {
			if took := gets(t, c, o.load, 2); took != 0 {
				t.Errorf("%s: what was rebuilt took %v", name, took)
			}
		}
		if n := o.loads.Load(); n != 10 {
			t.Errorf("%d loads, want 10: with and without L2 three at first, and two to rebuild the keys that were read", n)
		}
		time.Sleep(10 * time.Minute)
		for name, c := range all {
			if v := mustGet(t, c, "late", o.load); v != 2 {
				t.Errorf("%s: got %d after Stale.WhileRevalidate; want what a load brings", name, v)
			}
		}
	})
}

func TestExpireAllWithoutWhileRevalidateMakesReadersWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCache(t, windows(-1, time.Hour))
		o := &origin{takes: time.Second}
		mustGet(t, c, "k", o.load)
		o.value.Store(2)
		must(t, c.ExpireAll(t.Context()))
		if took := gets(t, c, o.load, 2); took != time.Second {
			t.Errorf("took %v, want 1s", took)
		}
	})
}

func TestExpiredValueWithoutExpiryIsNotServedForEver(t *testing.T) {
	for name, expire := range map[string]func(*strata.Cache[string, int64], context.Context) error{
		"by its key":      func(c *strata.Cache[string, int64], ctx context.Context) error { return c.Expire(ctx, "k") },
		"by its tag":      func(c *strata.Cache[string, int64], ctx context.Context) error { return c.ExpireTags(ctx, "tag") },
		"with all others": (*strata.Cache[string, int64]).ExpireAll,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newTagged(t)
				change := func(o *strata.Options[string, int64]) {
					o.TTL, o.ErrorTTL, o.Stale = strata.NoExpiry, time.Second, strata.Stale{WhileRevalidate: -1, OnError: 12 * time.Minute}
				}
				all := map[string]*strata.Cache[string, int64]{
					"alone": newCache(t, change), "the caller": instance(t, s, change), "L1": instance(t, s, change), "L2": instance(t, s, change),
				}
				// The entry of L2 is first read six minutes after it was expired.
				s2 := newTagged(t)
				other, late := instance(t, s2, change), instance(t, s2, change)
				for _, c := range []*strata.Cache[string, int64]{all["alone"], all["the caller"], all["L1"], other} {
					if _, err := c.GetOrLoad(t.Context(), "k", (&origin{}).load, strata.WithTags("tag")); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(25 * time.Minute)
				for _, c := range []*strata.Cache[string, int64]{all["alone"], all["the caller"], other} {
					must(t, expire(c, t.Context()))
				}
				synctest.Wait()
				down := &fallible{}
				down.fail(errDown)
				began := time.Now()
				served := map[string]time.Duration{}
				for time.Since(began) < 30*time.Minute {
					if time.Since(began) >= 6*time.Minute {
						all["late"] = late
					}
					for name, c := range all {
						if _, err := c.GetOrLoad(t.Context(), "k", down.load); err == nil {
							served[name] = time.Since(began)
						} else if !errors.Is(err, errDown) {
							t.Fatal(err)
						}
					}
					time.Sleep(time.Minute)
				}
				for name, last := range served {
					if last >= 12*time.Minute || last < 10*time.Minute {
						t.Errorf("%s: served on error until %v after it was expired; want 12 minutes", name, last)
					}
				}
				if len(served) < len(all) {
					t.Errorf("served by %v only", served)
				}
			})
		})
	}
}

func TestValueThatWasExpiredDuringASilenceIsNotServedForEver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShared()
		change := func(o *strata.Options[string, int64]) {
			o.TTL, o.Stale = strata.NoExpiry, strata.Stale{WhileRevalidate: time.Hour, OnError: time.Hour}
		}
		a := instance(t, s, change)
		mustGet(t, a, "k", (&origin{}).load)
		must(t, a.ExpireAll(t.Context()))
		time.Sleep(10 * time.Hour)
		b := instance(t, s, change)
		down := &fallible{}
		down.fail(errDown)
		mustGet(t, b, "k", down.load) // by now it is known to be expired
		for range 11 {
			time.Sleep(5 * time.Minute)
			mustGet(t, b, "k", down.load)
		}
		time.Sleep(5 * time.Minute)
		if v, err := b.GetOrLoad(t.Context(), "k", down.load); !errors.Is(err, errDown) {
			t.Errorf("got %d, %v an hour after it was first served; want the failure", v, err)
		}
	})
}
