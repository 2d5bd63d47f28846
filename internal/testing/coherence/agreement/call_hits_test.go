package agreement_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// forLoads are options that concern loads and stores alone: hits are as without them. It is read-only.
var forLoads = []strata.CallOption{
	strata.WithTTL(time.Hour), strata.WithTags("of the reader"), strata.WithMemoryTTL(time.Millisecond), strata.NoRemote(),
	strata.WithStale(strata.Stale{WhileRevalidate: time.Hour, OnError: time.Hour}), strata.AllowStale(),
}

// TestOptionsOfAHitChangeNothingInAFleet reads the entry of another instance with options for loads: neither instance keeps
// it longer, under other tags, or after a drop.
func TestOptionsOfAHitChangeNothingInAFleet(t *testing.T) {
	for name, drop := range map[string]func(t *testing.T, c *strata.Cache[string, int64]) error{
		"Invalidate":     func(t *testing.T, c *strata.Cache[string, int64]) error { return c.Invalidate(t.Context(), "k") },
		"Expire":         func(t *testing.T, c *strata.Cache[string, int64]) error { return c.Expire(t.Context(), "k") },
		"InvalidateTags": func(t *testing.T, c *strata.Cache[string, int64]) error { return c.InvalidateTags(t.Context(), "t") },
		"InvalidateAll":  func(t *testing.T, c *strata.Cache[string, int64]) error { return c.InvalidateAll(t.Context()) },
		"end of the TTL": func(*testing.T, *strata.Cache[string, int64]) error { time.Sleep(time.Minute); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewTagged(t)
				tier, asked := lab.CountCalls(s.Tier)
				a, b := lab.Instance[string, int64](t, s), lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = tier })
				lab.Must(t, a.Set(t.Context(), "k", 1, strata.WithTags("t")))
				synctest.Wait()
				lab.WantHeld(t, "b", b, 1)
				before := [...]int64{asked("Get"), asked("Tags"), asked("Put"), asked("Acquire")}
				hitMany(t, b, "k", 1, forLoads...)
				if after := [...]int64{asked("Get"), asked("Tags"), asked("Put"), asked("Acquire")}; after != before {
					t.Errorf("hits ask L2: %v, %v before", after, before)
				}
				lab.Must(t, a.InvalidateTags(t.Context(), "of the reader"))
				synctest.Wait()
				hitMany(t, b, "k", 1, forLoads...)
				lab.WantHeld(t, "a", a, 1)
				lab.Must(t, drop(t, a))
				synctest.Wait()
				for who, c := range map[string]*strata.Cache[string, int64]{"a": a, "b": b, "a cold instance": lab.Instance[string, int64](t, s)} {
					lab.WantAbsent(t, who, c)
					if v, ok := c.Get(t.Context(), "k", forLoads[:5]...); ok {
						t.Errorf("%s, asked with options, has %d", who, v)
					}
				}
			})
		})
	}
}

// TestOptionsAgainstAHitReachTheFleet passes L1 by where the entry is: NoMemory takes the value of L2, and SkipRead brings a new
// value to all instances, with the life and the tags of its call.
func TestOptionsAgainstAHitReachTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o, ctx := lab.NewTagged(t), &lab.Origin{}, t.Context()
		ear := s.Bus.Connect()
		a, b := lab.Instance[string, int64](t, s), lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Bus = ear })
		lab.Must(t, a.Set(ctx, "k", 1))
		synctest.Wait()
		lab.WantHeld(t, "b", b, 1)
		ear.Lose(100)
		lab.Must(t, a.Set(ctx, "k", 2))
		synctest.Wait()
		hitMany(t, b, "k", 1, forLoads...) // it has heard nothing
		if v, ok := b.Get(ctx, "k", strata.NoMemory()); v != 2 || !ok {
			t.Errorf("past L1 there is %d, %v; want 2, which L2 has", v, ok)
		}
		ear.Lose(0)
		o.Value.Store(3)
		if v, err := b.GetOrLoad(ctx, "k", o.Load, strata.SkipRead(), strata.WithTTL(10*time.Second), strata.WithTags("t")); v != 3 || err != nil {
			t.Errorf("SkipRead: %d, %v", v, err)
		}
		synctest.Wait()
		lab.WantHeld(t, "a", a, 3)
		lab.WantHeld(t, "b, which has to ask L2 after the lost messages", b, 3)
		hitMany(t, a, "k", 3, forLoads...)
		hitMany(t, b, "k", 3, forLoads...)
		lab.Must(t, a.InvalidateTags(ctx, "t"))
		synctest.Wait()
		lab.WantAbsent(t, "b", b)
		lab.MustGet(t, b, "k", o.Load)
		if v, err := b.GetOrLoad(ctx, "k", o.Load, strata.SkipRead(), strata.WithTTL(10*time.Second)); v != 3 || err != nil {
			t.Errorf("SkipRead: %d, %v", v, err)
		}
		synctest.Wait()
		lab.WantHeld(t, "a", a, 3)
		hitMany(t, a, "k", 3, forLoads...)
		time.Sleep(10 * time.Second)
		lab.WantAbsent(t, "a, after the life that b has given to the value", a)
		lab.WantAbsent(t, "b", b)
	})
}
