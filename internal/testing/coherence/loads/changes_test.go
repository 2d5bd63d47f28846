package loads_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/snapshot"
)

// compared is a cache that compares the value of each load with the value before, and its origin.
type compared[V any] struct {
	t     *testing.T
	c     *strata.Cache[string, V]
	value V
	err   error
}

func (c *compared[V]) load(context.Context, string) (V, error) { return c.value, c.err }

func (c *compared[V]) loadMany(_ context.Context, keys []string) (map[string]V, error) {
	if c.err != nil {
		return nil, c.err
	}
	found := map[string]V{}
	for _, k := range append(keys, "unasked") {
		found[k] = c.value
	}
	return found, nil
}

func (c *compared[V]) get(o ...strata.CallOption) {
	_, err := c.c.GetOrLoad(c.t.Context(), "k", c.load, o...)
	c.settle(err)
}

func (c *compared[V]) getMany(o ...strata.CallOption) {
	_, err := c.c.GetMany(c.t.Context(), []string{"k", "new"}, c.loadMany, o...)
	c.settle(err)
}

// settle waits for the end of refreshes.
func (c *compared[V]) settle(err error) {
	c.t.Helper()
	if synctest.Wait(); !errors.Is(err, c.err) && err != nil {
		c.t.Error(err)
	}
}

func (c *compared[V]) must(err error) {
	c.t.Helper()
	lab.Must(c.t, err)
}

// pass passes time.
func (c *compared[V]) pass(d time.Duration) { time.Sleep(d) } // in a bubble

// change is an operation on a cache with an entry of k, and the number of loads that the cache then
// compares.
type change[V any] struct {
	loads uint64
	do    func(c *compared[V])
}

// changesOf are the ways in which an entry is loaded again. In some of them it is not, or is
// loaded without a value from before.
func changesOf[V any]() map[string]change[V] {
	return map[string]change[V]{
		"expired by a caller":     {1, func(c *compared[V]) { c.must(c.c.Expire(c.t.Context(), "k")); c.get() }},
		"everything expired":      {1, func(c *compared[V]) { c.must(c.c.ExpireAll(c.t.Context())); c.get() }},
		"a tag expired":           {1, func(c *compared[V]) { c.must(c.c.ExpireTags(c.t.Context(), "tag")); c.get() }},
		"past its TTL":            {1, func(c *compared[V]) { c.pass(70 * time.Second); c.get() }},
		"refreshed early":         {1, func(c *compared[V]) { c.pass(55 * time.Second); c.get() }},
		"refreshed by a call":     {1, func(c *compared[V]) { c.settle(c.c.Refresh(c.t.Context(), "k")) }},
		"read was skipped":        {1, func(c *compared[V]) { c.get(strata.SkipRead()) }},
		"read was skipped, twice": {2, func(c *compared[V]) { c.get(strata.SkipRead()); c.get(strata.SkipRead()) }},
		"of a batch":              {1, func(c *compared[V]) { c.must(c.c.Expire(c.t.Context(), "k")); c.getMany() }},
		"of a batch, early":       {1, func(c *compared[V]) { c.pass(55 * time.Second); c.getMany() }},
		"of a batch, skipped":     {1, func(c *compared[V]) { c.getMany(strata.SkipRead()) }},
		"a shorter TTL": {1, func(c *compared[V]) {
			c.must(c.c.Tune(strata.Tuning{TTL: new(time.Second)}))
			c.get(strata.SkipRead())
			c.c.Tune(strata.Tuning{TTL: new(time.Minute)})
		}},
		"warmed with loads": {1, func(c *compared[V]) {
			c.must(c.c.Expire(c.t.Context(), "k"))
			_, err := c.c.Warm(c.t.Context(), slices.Values([]string{"k", "other"}), strata.WarmOptions{Load: true})
			c.settle(err)
		}},

		"a hit":             {0, func(c *compared[V]) { c.get() }},
		"a first load":      {0, func(c *compared[V]) { _, err := c.c.GetOrLoad(c.t.Context(), "first", c.load); c.settle(err) }},
		"dropped":           {0, func(c *compared[V]) { c.must(c.c.Invalidate(c.t.Context(), "k")); c.get() }},
		"everything":        {0, func(c *compared[V]) { c.must(c.c.InvalidateAll(c.t.Context())); c.get() }},
		"the end of a life": {0, func(c *compared[V]) { c.pass(3 * time.Hour); c.get() }},
		"a write":           {0, func(c *compared[V]) { c.must(c.c.Set(c.t.Context(), "k", c.value)) }},
		"an update": {0, func(c *compared[V]) {
			c.must(c.c.Update(c.t.Context(), "k", func(context.Context) (V, error) { return c.value, nil }))
		}},
		"not modified":   {0, func(c *compared[V]) { c.err = strata.ErrNotModified; c.get(strata.SkipRead()) }},
		"not found":      {0, func(c *compared[V]) { c.err = strata.ErrNotFound; c.get(strata.SkipRead()) }},
		"a failure":      {0, func(c *compared[V]) { c.err = errors.New("down"); c.get(strata.SkipRead()) }},
		"a failed batch": {0, func(c *compared[V]) { c.err = errors.New("down"); c.getMany(strata.SkipRead()) }},
		"found again": {0, func(c *compared[V]) {
			c.err = strata.ErrNotFound
			c.get(strata.SkipRead())
			c.err = nil
			c.get(strata.SkipRead())
		}},
		"turned off": {0, func(c *compared[V]) {
			c.must(c.c.Tune(strata.Tuning{Off: new(true)}))
			c.get()
			c.get(strata.SkipRead())
			c.must(c.c.Tune(strata.Tuning{Off: new(false)}))
		}},
	}
}

// comparesLoads checks the counts of each way to change a value, with an equal value and with
// another one. It leaves out the ways named in without.
func comparesLoads[V any](t *testing.T, first, second V, options func(o *strata.Options[string, V]), without ...string) {
	for name, way := range changesOf[V]() {
		if slices.Contains(without, name) {
			continue
		}
		for _, changes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", name, changes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := &compared[V]{t: t, value: first}
					c.c = lab.NewCache(t, func(o *strata.Options[string, V]) {
						o.RefreshAt, o.NotFoundTTL = 0.9, time.Minute
						o.Tags = func(string, V) []string { return []string{"tag"} }
						o.Loader, o.ManyLoader = c.load, c.loadMany
						options(o)
					})
					synctest.Wait() // the bus is connected
					c.must(c.c.Set(t.Context(), "k", first))
					if changes {
						c.value = second
					}
					way.do(c)
					want := strata.LoadStats{Unchanged: way.loads}
					if changes {
						// Of two loads the second one brings the same value.
						want = strata.LoadStats{Changed: min(way.loads, 1), Unchanged: way.loads - min(way.loads, 1)}
					}
					if l := c.c.Stats().Loads; l.Changed != want.Changed || l.Unchanged != want.Unchanged {
						t.Errorf("changed %d, unchanged %d; want %d and %d", l.Changed, l.Unchanged, want.Changed, want.Unchanged)
					}
				})
			})
		}
	}
}

func onShared[V any](o *strata.Options[string, V]) {
	s := lab.NewShared()
	o.Remote.Tier, o.Remote.Bus = s.Tier, s.Bus
}

func TestEachLoadThatReplacesAValueIsChangedOrUnchanged(t *testing.T) {
	alone := func(o *strata.Options[string, int]) {}
	gathering := func(o *strata.Options[string, int]) { o.Loader, o.BatchWait = nil, time.Millisecond }
	comparesLoads(t, 1, 2, alone)
	comparesLoads(t, 1, 2, gathering)
	comparesLoads(t, 1, 2, onShared[int])
}

// TestLargeValueThatL2DoesNotSendAgainIsCompared has a value that the read names to L2, so that it need not come again.
func TestLargeValueThatL2DoesNotSendAgainIsCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		value := []string{strings.Repeat("a", 10_000)}
		c := lab.NewCache(t, onShared[[]string], func(o *strata.Options[string, []string]) {
			o.Loader = func(context.Context, string) ([]string, error) { return slices.Clone(value), nil }
		})
		synctest.Wait() // the bus is connected
		lab.Must(t, c.Set(t.Context(), "k", value))
		for range 3 {
			lab.Must(t, c.Refresh(t.Context(), "k"))
			synctest.Wait()
		}
		if l := c.Stats().Loads; l.Changed != 0 || l.OK != 3 {
			t.Errorf("changed %d, %d loads", l.Changed, l.OK)
		}
	})
}

// TestValuesWithPointersAreComparedAsL2HasThem has values that == does not compare: L2 has had each
// one before.
func TestValuesWithPointersAreComparedAsL2HasThem(t *testing.T) {
	comparesLoads(t, []string{"a", "b"}, []string{"a", "c"}, onShared[[]string])
	comparesLoads(t, []string{"a", "b"}, []string{"a", "c"}, func(o *strata.Options[string, []string]) {
		onShared(o)
		o.Memory.TTL = time.Second // the value before comes from L2
		o.RefreshAt, o.Stale.WhileRevalidate = -1, time.Minute
	}, "refreshed early", "of a batch, early")
}

// TestValueOfL2ThatWasNotReadIsNotCompared has loads that go past L2, and one after L2 has lost the value.
func TestValueOfL2ThatWasNotReadIsNotCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var down atomic.Bool
		c := &compared[[]string]{t: t, value: []string{"a"}}
		c.c = lab.NewCache(t, func(o *strata.Options[string, []string]) {
			o.Remote.Tier = lab.Failing(s.Tier, "Acquire", &down)
		})
		counted := func(when string, changed, unchanged uint64) {
			t.Helper()
			if l := c.c.Stats().Loads; l.Changed != changed || l.Unchanged != unchanged {
				t.Errorf("%s: changed %d, unchanged %d; want %d and %d", when, l.Changed, l.Unchanged, changed, unchanged)
			}
		}
		c.get()
		c.get(strata.SkipRead())
		counted("as usual", 0, 1)
		c.value = []string{"b"}
		c.get(strata.SkipRead(), strata.NoRemote())
		counted("past L2", 0, 1)
		down.Store(true)
		c.get(strata.SkipRead())
		counted("L2 does not answer", 0, 1)
		down.Store(false)
		c.get(strata.SkipRead())
		c.value = []string{"c"}
		c.get(strata.SkipRead())
		counted("it answers again", 2, 1)
	})
}

// TestValueOfAnotherInstanceIsTheOneBefore has two instances. One loads the value that the other
// has stored.
func TestValueOfAnotherInstanceIsTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a := &compared[[]string]{t: t, value: []string{"a"}, c: lab.Instance[string, []string](t, s)}
		b := &compared[[]string]{t: t, value: []string{"b"}, c: lab.Instance[string, []string](t, s)}
		a.get()
		lab.Must(t, a.c.Expire(t.Context(), "k"))
		b.get()
		lab.Must(t, a.c.Expire(t.Context(), "k"))
		a.value = b.value
		a.get()
		if x, y := a.c.Stats().Loads, b.c.Stats().Loads; x.Changed != 0 || x.Unchanged != 1 || y.Changed != 1 || y.Unchanged != 0 {
			t.Errorf("%+v and %+v", x, y)
		}
	})
}

func TestValueFromASnapshotIsTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &compared[int64]{t: t, value: 1, c: lab.NewCache[string, int64](t)}
		a.get()
		var file bytes.Buffer
		if _, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, a.c); err != nil {
			t.Fatal(err)
		}
		b := &compared[int64]{t: t, value: 2, c: lab.NewCache[string, int64](t)}
		if _, err := snapshot.Read(t.Context(), &file, snapshot.Options{}, b.c); err != nil {
			t.Fatal(err)
		}
		b.get(strata.SkipRead())
		if l := b.c.Stats().Loads; l.Changed != 1 || l.Unchanged != 0 {
			t.Errorf("%+v", l)
		}
	})
}

// TestValuesAreEncodedWithoutL2OnlyByACodecOfTheProgram counts loads of values that == does not
// compare.
func TestValuesAreEncodedWithoutL2OnlyByACodecOfTheProgram(t *testing.T) {
	for name, want := range map[string]uint64{"none": 0, "with a bus": 0, "a codec": 32} {
		synctest.Test(t, func(t *testing.T) {
			c := &compared[[]string]{t: t}
			c.c = lab.NewCache(t, func(o *strata.Options[string, []string]) {
				switch name {
				case "with a bus":
					o.Remote.Bus = lab.NewShared().Bus
				case "a codec":
					o.Remote.Codec = codec.JSON[[]string]()
				}
			})
			for i := range 33 {
				c.value = []string{fmt.Sprint(i)}
				c.get(strata.SkipRead())
			}
			if l := c.c.Stats().Loads; l.Changed != want || l.Unchanged != 0 {
				t.Errorf("%s: %+v, want %d changed", name, l, want)
			}
		})
	}
}

// touchy is a value with a panicking method.
type touchy struct{ n int }

func (t touchy) Equal(o touchy) bool {
	if o.n == 2 {
		panic("no")
	}
	return t == o
}

func TestPanicOfEqualIsCountedAndNothingElse(t *testing.T) {
	lab.Plain(t, "no codec keeps the value")
	synctest.Test(t, func(t *testing.T) {
		c := &compared[touchy]{t: t, c: lab.NewCache[string, touchy](t)}
		for n := range 4 {
			c.value = touchy{n}
			c.get(strata.SkipRead())
		}
		st := c.c.Stats()
		if v, ok := c.c.Get(t.Context(), "k"); v.n != 3 || !ok || st.CallbackPanics != 1 || st.Loads.Changed != 2 || st.Loads.OK != 4 {
			t.Errorf("%v, %v: %d panics, %+v", v, ok, st.CallbackPanics, st.Loads)
		}
	})
}

// TestValueOfAnOlderVersionIsNotCompared has values of which the encoded bytes differ anyway.
func TestValueOfAnOlderVersionIsNotCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		type before struct{ Names []string }
		type after struct{ Names, Titles []string }
		older := codec.From(codec.JSON[before](), func(b before) (after, error) { return after{Names: b.Names}, nil })
		a := &compared[before]{t: t, value: before{[]string{"Ann"}}, c: lab.Instance[string, before](t, s)}
		b := &compared[after]{t: t, value: after{Names: []string{"Ann"}}, c: lab.Instance(t, s, func(o *strata.Options[string, after]) {
			o.Remote.Codec = codec.Versioned(codec.JSON[after](), older)
		})}
		a.get()
		lab.Must(t, a.c.Expire(t.Context(), "k"))
		b.get()
		if l := b.c.Stats().Loads; l.OK != 1 || l.Changed+l.Unchanged != 0 {
			t.Errorf("the first load of the new version: %+v", l)
		}
		b.get(strata.SkipRead())
		if l := b.c.Stats().Loads; l.OK != 2 || l.Changed != 0 || l.Unchanged != 1 {
			t.Errorf("the second one: %+v", l)
		}
	})
}

// TestCallsThatPassMemoryHaveTheValueOfL2Before has no value from before without an L2.
func TestCallsThatPassMemoryHaveTheValueOfL2Before(t *testing.T) {
	for _, l2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := &compared[int64]{t: t, value: 1}
			c.c = lab.NewCache(t, func(o *strata.Options[string, int64]) {
				if l2 {
					onShared(o)
				}
			})
			synctest.Wait()
			c.get()
			c.value = 2
			c.get(strata.SkipRead(), strata.NoMemory())
			want := map[bool]uint64{true: 1}[l2]
			if l := c.c.Stats().Loads; l.OK != 2 || l.Changed != want || l.Unchanged != 0 {
				t.Errorf("with an L2: %v: %+v, want %d changed", l2, l, want)
			}
		})
	}
}
