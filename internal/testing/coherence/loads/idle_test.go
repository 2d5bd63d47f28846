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

// idles sets IdleTTL.
func idles(d time.Duration) func(*strata.Options[string, int64]) {
	return func(o *strata.Options[string, int64]) { o.IdleTTL = d }
}

func TestEntryThatIsNotReadIsGoneFromL1WithinIdleTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &lab.Origin{}
		c := lab.NewCache(t, lab.Forever, idles(8*time.Second))
		many := func(context.Context, []string) (map[string]int64, error) { return nil, lab.ErrDown }
		reads := map[string]func(){
			"GetOrLoad": func() { lab.MustGet(t, c, "GetOrLoad", o.Load) },
			"Get":       func() { c.Get(t.Context(), "Get") },
			"GetMany":   func() { _, _ = c.GetMany(t.Context(), []string{"GetMany"}, many) },
			"Touch":     func() { c.Touch("Touch") },
			"Explain":   func() { c.Explain(t.Context(), "Explain") },
			"All":       func() { c.All()(func(string, int64) bool { return true }) },
		}
		for key := range reads {
			lab.Must(t, c.Set(t.Context(), key, 1))
		}
		for range 20 {
			time.Sleep(3 * time.Second)
			for _, read := range reads {
				read()
			}
		}
		synctest.Wait()
		if n := c.Touch("GetOrLoad", "Get", "GetMany", "Touch", "Explain", "All"); n != 4 || c.Len() != 4 || o.Loads.Load() != 0 {
			t.Errorf("%d entries are left of %d, %d loads; want the 4 that were read", n, c.Len(), o.Loads.Load())
		}
		time.Sleep(7*time.Second - time.Millisecond)
		left := c.Explain(t.Context(), "Get").L1.Left
		if !c.Explain(t.Context(), "Get").L1.Present || left <= 0 || left > time.Second+time.Millisecond {
			t.Errorf("%v are left after 7/8 of the life", left)
		}
		time.Sleep(time.Second + time.Millisecond)
		if _, ok := c.Get(t.Context(), "Get"); ok {
			t.Error("it is served after its idle life")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := c.Len(); n != 0 {
			t.Errorf("%d entries two seconds after their end", n)
		}
	})
}

func TestReadsOfAnIdleLifeDoNotLengthenTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &lab.Origin{}
		c := lab.NewCache(t, idles(10*time.Second)) // the TTL is a minute
		lab.MustGet(t, c, "k", o.Load)
		for range 119 {
			time.Sleep(500 * time.Millisecond)
			lab.MustGet(t, c, "k", o.Load)
			c.Touch("k")
		}
		if o.Loads.Load() != 1 {
			t.Fatalf("%d loads within the TTL", o.Loads.Load())
		}
		time.Sleep(500 * time.Millisecond)
		if lab.MustGet(t, c, "k", o.Load); o.Loads.Load() != 2 {
			t.Error("it was served after its TTL")
		}
	})
}

func TestIdleEntryComesBackFromL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &lab.Origin{}
		c := lab.Instance(t, lab.NewShared(), idles(5*time.Second))
		lab.MustGet(t, c, "k", o.Load)
		time.Sleep(6 * time.Second)
		if r := c.Explain(t.Context(), "k"); r.L1.Present || !r.L2.Present {
			t.Fatalf("L1 %+v, L2 %+v", r.L1, r.L2)
		}
		var info strata.Info
		if _, err := c.GetOrLoad(t.Context(), "k", o.Load, strata.ReadInfo(&info)); err != nil || info.Tier != "L2" || o.Loads.Load() != 1 {
			t.Errorf("%+v, %v after %d loads", info, err, o.Loads.Load())
		}
	})
}

// TestIdleEntryIsGoneAndNotStale: no failure of a load brings it back.
func TestIdleEntryIsGoneAndNotStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &lab.Fallible{}
		c := lab.NewCache(t, idles(5*time.Minute), lab.Windows(time.Hour, time.Hour))
		for _, key := range []string{"read", "idle"} {
			lab.MustGet(t, c, key, o.Load)
		}
		time.Sleep(4 * time.Minute) // both are stale
		o.Fail(lab.ErrDown)
		lab.MustGet(t, c, "read", o.Load)
		time.Sleep(2 * time.Minute)
		lab.MustGet(t, c, "read", o.Load)
		if _, err := c.GetOrLoad(t.Context(), "idle", o.Load); !errors.Is(err, lab.ErrDown) {
			t.Errorf("got %v, want the error of the load", err)
		}
	})
}

func TestTouchCountsKeysThatL1MayServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.Instance(t, lab.NewTagged(t), lab.Windows(time.Minute, time.Minute))
		for _, key := range []string{"fresh", "stale", "tagged", "dropped"} {
			var opts []strata.CallOption
			if key == "tagged" {
				opts = append(opts, strata.WithTags("t"))
			}
			lab.Must(t, c.Set(t.Context(), key, 1, opts...))
		}
		lab.Must(t, c.Expire(t.Context(), "stale"))
		lab.Must(t, c.Invalidate(t.Context(), "dropped"))
		lab.Must(t, c.InvalidateTags(t.Context(), "t"))
		before := c.Stats()
		for key, want := range map[string]int{"fresh": 1, "stale": 1, "tagged": 0, "dropped": 0, "none": 0} {
			if n := c.Touch(key); n != want {
				t.Errorf("Touch of %s returns %d, want %d", key, n, want)
			}
		}
		if after := c.Stats(); after.Reads != before.Reads || after.L1 != before.L1 {
			t.Errorf("it is counted: %+v, %+v before", after, before)
		}
		lab.Must(t, c.Close(context.Background()))
		if n := c.Touch("fresh"); n != 0 {
			t.Error("a closed cache has keys to touch")
		}
	})
}
