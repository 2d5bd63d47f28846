package loads_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

func TestExpireAllServesStaleValuesAtOnceAndRebuildsInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := lab.NewShared(), lab.Windows(10*time.Minute, time.Hour)
		all := map[string]*strata.Cache[string, int64]{
			"alone": lab.NewCache(t, w), "the caller": lab.Instance(t, s, w), "L1": lab.Instance(t, s, w), "L2": lab.Instance(t, s, w),
		}
		o := &lab.Origin{Takes: time.Second}
		for _, k := range []string{"k", "of a batch", "late"} {
			for _, name := range []string{"alone", "the caller", "L1"} {
				lab.MustGet(t, all[name], k, o.Load)
			}
		}
		o.Value.Store(2)
		lab.Must(t, all["alone"].ExpireAll(t.Context()))
		lab.Must(t, all["the caller"].ExpireAll(t.Context()))
		synctest.Wait()
		for range 3 {
			for name, c := range all {
				var info strata.Info
				begun := time.Now()
				v, err := c.GetOrLoad(t.Context(), "k", o.Load, strata.ReadInfo(&info))
				if took := time.Since(begun); v != 0 || err != nil || !info.Stale || took != 0 {
					t.Errorf("%s: %d, %v, %+v after %v; want the stale value at once", name, v, err, info, took)
				}
				found, err := c.GetMany(t.Context(), []string{"of a batch"}, lab.ManyOf(o.Load))
				if v, ok := found["of a batch"]; v != 0 || !ok || err != nil || time.Since(begun) != 0 {
					t.Errorf("%s: GetMany: %v, %v after %v; want the stale value at once", name, found, err, time.Since(begun))
				}
			}
		}
		time.Sleep(2 * time.Second)
		for name, c := range all {
			if took := lab.GetTakes(t, c, o.Load, 2); took != 0 {
				t.Errorf("%s: what was rebuilt took %v", name, took)
			}
		}
		if n := o.Loads.Load(); n != 10 {
			t.Errorf("%d loads, want 10: with and without L2 three at first, and two to rebuild the keys that were read", n)
		}
		time.Sleep(10 * time.Minute)
		for name, c := range all {
			if v := lab.MustGet(t, c, "late", o.Load); v != 2 {
				t.Errorf("%s: got %d after Stale.WhileRevalidate; want what a load brings", name, v)
			}
		}
	})
}

func TestExpireAllWithoutWhileRevalidateMakesReadersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Windows(-1, time.Hour))
		o := &lab.Origin{Takes: time.Second}
		lab.MustGet(t, c, "k", o.Load)
		o.Value.Store(2)
		lab.Must(t, c.ExpireAll(t.Context()))
		if took := lab.GetTakes(t, c, o.Load, 2); took != time.Second {
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
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewTagged(t)
				change := func(o *strata.Options[string, int64]) {
					o.TTL, o.ErrorTTL, o.Stale = strata.NoExpiry, time.Second, strata.Stale{WhileRevalidate: -1, OnError: 12 * time.Minute}
				}
				all := map[string]*strata.Cache[string, int64]{
					"alone": lab.NewCache(t, change), "the caller": lab.Instance(t, s, change), "L1": lab.Instance(t, s, change), "L2": lab.Instance(t, s, change),
				}
				// The entry of L2 is first read six minutes after it was expired.
				s2 := lab.NewTagged(t)
				other, late := lab.Instance(t, s2, change), lab.Instance(t, s2, change)
				for _, c := range []*strata.Cache[string, int64]{all["alone"], all["the caller"], all["L1"], other} {
					if _, err := c.GetOrLoad(t.Context(), "k", (&lab.Origin{}).Load, strata.WithTags("tag")); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(25 * time.Minute)
				for _, c := range []*strata.Cache[string, int64]{all["alone"], all["the caller"], other} {
					lab.Must(t, expire(c, t.Context()))
				}
				synctest.Wait()
				down := &lab.Fallible{}
				down.Fail(lab.ErrDown)
				began := time.Now()
				served := map[string]time.Duration{}
				for time.Since(began) < 30*time.Minute {
					if time.Since(began) >= 6*time.Minute {
						all["late"] = late
					}
					for name, c := range all {
						if _, err := c.GetOrLoad(t.Context(), "k", down.Load); err == nil {
							served[name] = time.Since(began)
						} else if !errors.Is(err, lab.ErrDown) {
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
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		change := func(o *strata.Options[string, int64]) {
			o.TTL, o.Stale = strata.NoExpiry, strata.Stale{WhileRevalidate: time.Hour, OnError: time.Hour}
		}
		a := lab.Instance(t, s, change)
		lab.MustGet(t, a, "k", (&lab.Origin{}).Load)
		lab.Must(t, a.ExpireAll(t.Context()))
		time.Sleep(10 * time.Hour)
		b := lab.Instance(t, s, change)
		down := &lab.Fallible{}
		down.Fail(lab.ErrDown)
		lab.MustGet(t, b, "k", down.Load) // by now it is known to be expired
		for range 11 {
			time.Sleep(5 * time.Minute)
			lab.MustGet(t, b, "k", down.Load)
		}
		time.Sleep(5 * time.Minute)
		if v, err := b.GetOrLoad(t.Context(), "k", down.Load); !errors.Is(err, lab.ErrDown) {
			t.Errorf("got %d, %v an hour after it was first served; want the failure", v, err)
		}
	})
}
