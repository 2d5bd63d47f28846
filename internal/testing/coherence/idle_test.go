package coherence_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
)

// idles sets IdleTTL.
func idles(d time.Duration) func(*strata.Options[string, int64]) {
	return func(o *strata.Options[string, int64]) { o.IdleTTL = d }
}

func TestEntryThatIsNotReadIsGoneFromL1WithinIdleTTL(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := &origin{}
		c := newCache(t, forever, idles(8*time.Second))
		many := func(context.Context, []string) (map[string]int64, error) { return nil, errDown }
		reads := map[string]func(){
			"GetOrLoad": func() { mustGet(t, c, "GetOrLoad", o.load) },
			"Get":       func() { c.Get(t.Context(), "Get") },
			"GetMany":   func() { _, _ = c.GetMany(t.Context(), []string{"GetMany"}, many) },
			"Touch":     func() { c.Touch("Touch") },
			"Explain":   func() { c.Explain(t.Context(), "Explain") },
			"All":       func() { c.All()(func(string, int64) bool { return true }) },
		}
		for key := range reads {
			must(t, c.Set(t.Context(), key, 1))
		}
		for range 20 {
			time.Sleep(3 * time.Second)
			for _, read := range reads {
				read()
			}
		}
		synctest.Wait()
		if n := c.Touch("GetOrLoad", "Get", "GetMany", "Touch", "Explain", "All"); n != 4 || c.Len() != 4 || o.loads.Load() != 0 {
			t.Errorf("%d entries are left of %d, %d loads; want the 4 that were read", n, c.Len(), o.loads.Load())
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
	bubble(t, func(t *testing.T) {
		o := &origin{}
		c := newCache(t, idles(10*time.Second)) // the TTL is a minute
		mustGet(t, c, "k", o.load)
		for range 119 {
			time.Sleep(500 * time.Millisecond)
			mustGet(t, c, "k", o.load)
			c.Touch("k")
		}
		if o.loads.Load() != 1 {
			t.Fatalf("%d loads within the TTL", o.loads.Load())
		}
		time.Sleep(500 * time.Millisecond)
		if mustGet(t, c, "k", o.load); o.loads.Load() != 2 {
			t.Error("it was served after its TTL")
		}
	})
}

func TestIdleEntryComesBackFromL2(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := &origin{}
		c := instance(t, newShared(), idles(5*time.Second))
		mustGet(t, c, "k", o.load)
		time.Sleep(6 * time.Second)
		if r := c.Explain(t.Context(), "k"); r.L1.Present || !r.L2.Present {
			t.Fatalf("L1 %+v, L2 %+v", r.L1, r.L2)
		}
		var info strata.Info
		if _, err := c.GetOrLoad(t.Context(), "k", o.load, strata.ReadInfo(&info)); err != nil || info.Tier != "L2" || o.loads.Load() != 1 {
			t.Errorf("%+v, %v after %d loads", info, err, o.loads.Load())
		}
	})
}

// TestIdleEntryIsGoneAndNotStale: no failure of a load brings it back.
func TestIdleEntryIsGoneAndNotStale(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := &fallible{}
		c := newCache(t, idles(5*time.Minute), windows(time.Hour, time.Hour))
		for _, key := range []string{"read", "idle"} {
			mustGet(t, c, key, o.load)
		}
		time.Sleep(4 * time.Minute) // both are stale
		o.fail(errDown)
		mustGet(t, c, "read", o.load)
		time.Sleep(2 * time.Minute)
		mustGet(t, c, "read", o.load)
		if _, err := c.GetOrLoad(t.Context(), "idle", o.load); !errors.Is(err, errDown) {
			t.Errorf("got %v, want the error of the load", err)
		}
	})
}

func TestTouchCountsKeysThatL1MayServe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := instance(t, newTagged(t), windows(time.Minute, time.Minute))
		for _, key := range []string{"fresh", "stale", "tagged", "dropped"} {
			var opts []strata.CallOption
			if key == "tagged" {
				opts = append(opts, strata.WithTags("t"))
			}
			must(t, c.Set(t.Context(), key, 1, opts...))
		}
		must(t, c.Expire(t.Context(), "stale"))
		must(t, c.Invalidate(t.Context(), "dropped"))
		must(t, c.InvalidateTags(t.Context(), "t"))
		before := c.Stats()
		for key, want := range map[string]int{"fresh": 1, "stale": 1, "tagged": 0, "dropped": 0, "none": 0} {
			if n := c.Touch(key); n != want {
				t.Errorf("Touch of %s returns %d, want %d", key, n, want)
			}
		}
		if after := c.Stats(); after.Reads != before.Reads || after.L1 != before.L1 {
			t.Errorf("it is counted: %+v, %+v before", after, before)
		}
		must(t, c.Close(context.Background()))
		if n := c.Touch("fresh"); n != 0 {
			t.Error("a closed cache has keys to touch")
		}
	})
}
