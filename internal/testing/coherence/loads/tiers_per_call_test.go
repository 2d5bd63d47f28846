package loads_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

// inL1 reports whether L1 of c has a value of k, stale or not, and its negative entry.
func inL1(t *testing.T, c *strata.Cache[string, int64]) (value, notFound bool) {
	t.Helper()
	p := c.Explain(t.Context(), "k").L1
	return p.Present, p.NotFound
}

func inL2(t *testing.T, c *strata.Cache[string, int64]) bool {
	t.Helper()
	return c.Explain(t.Context(), "k").L2.Present
}

// off makes a cache keep nothing in L1.
func off(o *strata.Options[string, int64]) { o.Memory.Off = true }

func TestCacheWithoutMemoryReadsL2EachTimeAndKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance(t, s, off, lab.Negatives), lab.Instance(t, s, lab.Negatives)
		o := &lab.Origin{}
		for range 3 {
			lab.MustGet(t, a, "k", o.Load)
			lab.WantFound(t, a, 0)
		}
		if st := a.Stats(); o.Loads.Load() != 1 || st.L2.Hits != 5 || st.Entries != 0 || st.L1.Hits != 0 {
			t.Errorf("%d loads, %+v", o.Loads.Load(), st)
		}
		lab.Must(t, b.Set(t.Context(), "k", 2))
		synctest.Wait()
		lab.WantFound(t, a, 2)
		lab.Must(t, a.Set(t.Context(), "k", 3))
		synctest.Wait()
		lab.WantFound(t, b, 3)
		lab.Must(t, a.SetNotFound(t.Context(), "k"))
		findsNothing(t, a, o.Load)
		if value, notFound := inL1(t, a); value || notFound {
			t.Errorf("L1 has a value %v, a negative entry %v", value, notFound)
		}
		if r := a.Explain(t.Context(), "k"); r.L1.Used || !r.L2.Used || !r.L2.NotFound {
			t.Errorf("%+v", r)
		}
	})
}

func TestCacheWithoutAnyTierStillLoadsOnceForAllCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, off)
		o := &lab.Origin{Takes: time.Second}
		for range 100 {
			go c.GetOrLoad(t.Context(), "k", o.Load)
		}
		synctest.Wait()
		lab.MustGet(t, c, "k", o.Load)
		if n := o.Loads.Load(); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
		lab.MustGet(t, c, "k", o.Load)
		if n := o.Loads.Load(); n != 2 {
			t.Errorf("%d loads, want 2: nothing is kept", n)
		}
	})
}

func TestCallWithNoMemoryReadsAndKeepsInL2Only(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.Instance(t, lab.NewShared(), lab.Negatives)
		o := &lab.Origin{}
		past := strata.NoMemory()
		read := func(want int64, tier string) {
			t.Helper()
			var info strata.Info
			v, err := c.GetOrLoad(t.Context(), "k", o.Load, past, strata.ReadInfo(&info))
			if v != want || err != nil || info.Tier != tier {
				t.Errorf("%d, %v, %+v; want %d of %s", v, err, info, want, tier)
			}
		}
		read(0, "origin")
		if value, _ := inL1(t, c); value {
			t.Error("L1 keeps what was loaded")
		}
		read(0, "L2")
		lab.WantFound(t, c, 0, past)
		if all, err := c.GetMany(t.Context(), []string{"k", "l"}, nil, past); err != nil || len(all) != 1 || all["k"] != 0 {
			t.Errorf("GetMany without a Loader: %v, %v", all, err)
		}
		all, err := c.GetMany(t.Context(), []string{"k", "l"}, lab.EachOf(o.Load), past)
		if value, _ := inL1(t, c); value || err != nil || len(all) != 2 {
			t.Errorf("GetMany: %v, %v; in L1 %v", all, err, value)
		}
		lab.WantFound(t, c, 0) // by L1
		lab.Must(t, c.Set(t.Context(), "k", 1, past))
		if value, _ := inL1(t, c); value {
			t.Error("L1 keeps what was set, or the entry from before")
		}
		read(1, "L2")
		lab.Must(t, c.Update(t.Context(), "k", func(context.Context) (int64, error) { return 2, nil }, past))
		if value, _ := inL1(t, c); value {
			t.Error("L1 keeps what was updated")
		}
		lab.WantFound(t, c, 2)
		lab.Must(t, c.Invalidate(t.Context(), "k"))
		m := &missing{}
		if _, err := c.GetOrLoad(t.Context(), "k", m.load, past); err == nil {
			t.Error("found")
		}
		if _, notFound := inL1(t, c); notFound {
			t.Error("L1 remembers that there is no such key")
		}
	})
}

func TestCallWithNoRemoteReadsAndKeepsInL1Only(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var calls atomic.Int64
		a, b := lab.Instance(t, s, lab.Negatives, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = stratatest.FaultyTier(s.Tier, func(string, string) (time.Duration, error) {
				calls.Add(1)
				return 0, nil
			})
		}), lab.Instance(t, s, lab.Negatives)
		past := strata.NoRemote()
		o := &lab.Origin{}
		lab.Must(t, b.Set(t.Context(), "k", 5))
		synctest.Wait()
		before := calls.Load()
		lab.WantNotFound(t, a, past)
		if v, err := a.GetOrLoad(t.Context(), "k", o.Load, past); v != 0 || err != nil {
			t.Errorf("%d, %v; want 0 of the origin", v, err)
		}
		lab.WantFound(t, a, 0, past)
		lab.WantFound(t, b, 5)
		lab.Must(t, a.Set(t.Context(), "k", 1, past))
		lab.WantFound(t, a, 1)
		if _, err := a.GetMany(t.Context(), []string{"l", "m"}, lab.EachOf(o.Load), past); err != nil {
			t.Error(err)
		}
		if _, err := a.GetOrLoad(t.Context(), "n", o.Load, past, strata.SkipRead()); err != nil {
			t.Error(err)
		}
		lab.Must(t, a.SetNotFound(t.Context(), "k", past))
		findsNothing(t, a, o.Load)
		if n := calls.Load(); n != before {
			t.Errorf("%d calls of L2", n-before)
		}
		if !inL2(t, b) {
			t.Error("L2 has lost its value")
		}
		lab.Must(t, b.Invalidate(t.Context(), "k"))
		synctest.Wait()
		if value, notFound := inL1(t, a); value || notFound {
			t.Error("L1 has kept it after an Invalidate of another instance")
		}
	})
}

func TestLoadWithNoRemoteIsFencedByAnInvalidateOfAnotherInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		o := &lab.Origin{Takes: time.Second}
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.GetOrLoad(t.Context(), "k", o.Load, strata.NoRemote())
		}()
		time.Sleep(time.Millisecond)
		lab.Must(t, b.Invalidate(t.Context(), "k"))
		<-done
		if value, _ := inL1(t, a); value {
			t.Error("L1 has kept what was loaded before the Invalidate")
		}
	})
}

func TestCallWithNoMemoryJoinsNoAnswerOfL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance[string, int64](t, s)
		lab.Must(t, c.Set(t.Context(), "k", 1))
		for range 100 {
			var info strata.Info
			if _, err := c.GetOrLoad(t.Context(), "k", nil, strata.NoMemory(), strata.ReadInfo(&info)); err == nil {
				t.Fatal("no Loader, and no error")
			}
			if v, err := c.GetOrLoad(t.Context(), "k", lab.PlainLoad, strata.NoMemory(), strata.ReadInfo(&info)); v != 1 || err != nil || info.Tier != "L2" {
				t.Fatalf("%d, %v, %+v", v, err, info)
			}
		}
	})
}

func TestValuesThatAreSetAreCloned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, open := range map[string]func(...func(*strata.Options[string, []int])) *strata.Cache[string, []int]{
			"without L2": func(change ...func(*strata.Options[string, []int])) *strata.Cache[string, []int] {
				return lab.NewCache(t, change...)
			},
			"with L2": func(change ...func(*strata.Options[string, []int])) *strata.Cache[string, []int] {
				return lab.Instance(t, lab.NewShared(), change...)
			},
		} {
			c := open(func(o *strata.Options[string, []int]) { o.Memory.Clone = slices.Clone[[]int] })
			mine := []int{1, 2}
			lab.Must(t, c.Set(t.Context(), "set", mine))
			lab.Must(t, c.SetMany(t.Context(), map[string][]int{"many": mine}))
			lab.Must(t, c.Update(t.Context(), "update", func(context.Context) ([]int, error) { return mine, nil }))
			mine[0] = 9
			for _, k := range []string{"set", "many", "update"} {
				if v, ok := c.Get(t.Context(), k); !ok || v[0] != 1 {
					t.Errorf("%s, %s: %v, %v", name, k, v, ok)
				}
			}
		}
	})
}
