package loads_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// dies returns a load of a batch during which L2 dies.
func dies(p *lab.Patient, err error) strata.ManyLoader[string, int64] {
	return func(context.Context, []string) (map[string]int64, error) {
		time.Sleep(time.Second)
		p.Hangs.Store(true)
		return nil, err
	}
}

func TestL2ThatDiesDuringTheLoadOfABatchCostsOneTimeout(t *testing.T) {
	keys := lab.ManyKeys(20)
	fill := func(t *testing.T, c *strata.Cache[string, int64], opts ...strata.CallOption) {
		for _, k := range keys {
			_, err := c.GetOrLoad(t.Context(), k, (&lab.Origin{}).Load, opts...)
			lab.Must(t, err)
		}
	}
	check := func(t *testing.T, c *strata.Cache[string, int64], load strata.ManyLoader[string, int64]) {
		t.Helper()
		begun := time.Now()
		found, err := c.GetMany(t.Context(), keys, load)
		if took := time.Since(begun); took > time.Second+200*time.Millisecond {
			t.Errorf("%d found, %v after %v; want 1.1s", len(found), err != nil, took)
		}
	}
	t.Run("not modified", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &lab.Patient{}
			c := lab.IllInstance(t, lab.NewShared(), p)
			fill(t, c)
			time.Sleep(2 * time.Minute)
			check(t, c, dies(p, strata.ErrNotModified))
		})
	})
	t.Run("fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &lab.Patient{}
			c := lab.IllInstance(t, lab.NewShared(), p)
			check(t, c, dies(p, lab.ErrDown))
		})
	})
	t.Run("says lives", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &lab.Patient{}
			c := lab.IllInstance(t, lab.NewShared(), p)
			fill(t, c)
			time.Sleep(2 * time.Minute)
			load := dies(p, lab.ErrDown)
			check(t, c, func(ctx context.Context, keys []string) (map[string]int64, error) {
				strata.Loading(ctx).SetStale(strata.Stale{OnError: -1, WhileRevalidate: -1})
				return load(ctx, keys)
			})
		})
	})
	t.Run("unbounded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, p := lab.NewTagged(t), &lab.Patient{}
			a := lab.Instance[string, int64](t, s)
			fill(t, a, strata.WithTags("t"))
			lab.Must(t, a.ExpireTags(t.Context(), "t"))
			b := lab.IllInstance(t, s, p)
			check(t, b, dies(p, lab.ErrDown))
		})
	})
	t.Run("unbounded at HardTimeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, p := lab.NewTagged(t), &lab.Patient{}
			a := lab.Instance[string, int64](t, s)
			fill(t, a, strata.WithTags("t"))
			lab.Must(t, a.ExpireTags(t.Context(), "t"))
			b := lab.IllInstance(t, s, p, limits(strata.Limits{HardTimeout: time.Second}))
			check(t, b, func(ctx context.Context, _ []string) (map[string]int64, error) {
				p.Hangs.Store(true)
				<-ctx.Done()
				return nil, ctx.Err()
			})
		})
	})
	t.Run("gathered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &lab.Patient{}
			c := lab.IllInstance(t, lab.NewShared(), p, func(o *strata.Options[string, int64]) {
				o.BatchWait, o.ManyLoader = 10*time.Millisecond, func(ctx context.Context, keys []string) (map[string]int64, error) {
					return dies(p, lab.ErrDown)(ctx, keys)
				}
			})
			for k, a := range getsEach(t.Context(), c, keys...) {
				if a.took > 1250*time.Millisecond {
					t.Errorf("%s: %v after %v", k, a.err, a.took)
				}
			}
		})
	})
}

func TestLeasesOfABatchThatFailsAreGivenBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, slow := lab.NewShared(), &atomic.Bool{}
		slow.Store(true)
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = lab.Stalling(s.Tier, "Release", 50*time.Millisecond, slow)
		})
		begun := time.Now()
		_, err := c.GetMany(t.Context(), lab.ManyKeys(100), lab.EachOf(lab.DownLoad))
		if took := time.Since(begun); took > 200*time.Millisecond {
			t.Errorf("%v after %v", err != nil, took)
		}
	})
}
