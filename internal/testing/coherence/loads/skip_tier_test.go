package loads_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

func TestReadersAreServedTheEntryOfL2WhileASkipReadLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		lab.Must(t, a.Set(t.Context(), "k", 1))
		synctest.Wait() // its message would fence the SkipRead
		o := &lab.Origin{Takes: 10 * time.Second}
		o.Value.Store(2)
		var wg sync.WaitGroup
		for _, key := range []string{"k", "absent"} {
			wg.Go(func() {
				if v, err := b.GetOrLoad(t.Context(), key, o.Load, strata.SkipRead()); v != 2 || err != nil {
					t.Errorf("SkipRead: %d, %v", v, err)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		for range 3 {
			wg.Go(func() {
				never := func(context.Context, string) (int64, error) { t.Error("a reader loads"); return 0, nil }
				if v := lab.MustGet(t, b, "k", never); v != 1 || time.Since(start) > 0 {
					t.Errorf("got %d after %v, want what L2 holds at once", v, time.Since(start))
				}
				if v := lab.MustGet(t, b, "absent", never); v != 2 {
					t.Errorf("got %d, want what the SkipRead brings", v)
				}
			})
		}
		wg.Wait()
		if n := o.Loads.Load(); n != 2 {
			t.Errorf("%d loads, want 2", n)
		}
		st := b.Stats()
		if in, out := st.L1.Misses, st.Flights+st.Joins+st.TurnedAway+st.Remembered; in != out {
			t.Errorf("%d misses are %d flights, joins and answers", in, out)
		}
		if out := st.L2.Hits + st.Absent + st.Loads.Total() + st.Rechecked; st.Flights != out {
			t.Errorf("%d flights have %d ends", st.Flights, out)
		}
	})
}

func TestBatchIsServedTheEntriesOfL2WhileSkipReadsLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		lab.Must(t, a.SetMany(t.Context(), map[string]int64{"k": 1, "l": 1}))
		synctest.Wait() // its messages would fence the SkipReads
		o := &lab.Origin{Takes: 10 * time.Second}
		o.Value.Store(2)
		for _, key := range []string{"k", "l", "absent"} {
			go b.GetOrLoad(t.Context(), key, o.Load, strata.SkipRead())
		}
		synctest.Wait()
		load := func(_ context.Context, keys []string) (map[string]int64, error) {
			if !slices.Equal(keys, []string{"other"}) {
				t.Errorf("the batch loads %v, want what no SkipRead loads", keys)
			}
			return map[string]int64{"other": 3}, nil
		}
		start := time.Now()
		for range 2 { // the second time from L1
			got, err := b.GetMany(t.Context(), []string{"k", "l", "other"}, load)
			if want := map[string]int64{"k": 1, "l": 1, "other": 3}; err != nil || !maps.Equal(got, want) || time.Since(start) > 0 {
				t.Errorf("got %v, %v after %v, want %v at once", got, err, time.Since(start), want)
			}
		}
		got, err := b.GetMany(t.Context(), []string{"absent"}, load)
		if err != nil || got["absent"] != 2 {
			t.Errorf("got %v, %v, want what the SkipRead brings", got, err)
		}
		synctest.Wait() // the SkipReads of the other keys end at the same instant
		for _, key := range []string{"k", "l"} {
			if v := lab.MustGet(t, b, key, o.Load); v != 2 {
				t.Errorf("%s is %d when the SkipRead has ended, want what it has brought", key, v)
			}
		}
		st := b.Stats()
		if in, out := st.L1.Misses, st.Flights+st.Joins+st.TurnedAway+st.Remembered; in != out {
			t.Errorf("%d misses are %d flights, joins and answers", in, out)
		}
		if out := st.L2.Hits + st.Absent + st.Loads.Total() + st.Rechecked; st.Flights != out {
			t.Errorf("%d flights have %d ends", st.Flights, out)
		}
	})
}

func TestNotFoundThatL2RemembersIsServedWhileASkipReadLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		long := func(o *strata.Options[string, int64]) { o.NotFoundTTL = time.Hour }
		a, b := lab.Instance(t, s, long), lab.Instance(t, s, long)
		if _, err := a.GetOrLoad(t.Context(), "k", lab.NoneOf); !errors.Is(err, strata.ErrNotFound) {
			t.Fatal(err)
		}
		go b.GetOrLoad(t.Context(), "k", (&lab.Origin{Takes: 10 * time.Second}).Load, strata.SkipRead())
		synctest.Wait()
		start := time.Now()
		if v, err := b.GetOrLoad(t.Context(), "k", lab.Unavailable); !errors.Is(err, strata.ErrNotFound) || time.Since(start) > 0 {
			t.Errorf("got %d, %v after %v, want ErrNotFound at once", v, err, time.Since(start))
		}
	})
}

// TestReaderBesideASkipReadGetsNoEntryWithADroppedTag has a reader join another
// one that reads L2 beside the SkipRead, after the tag of the value was dropped.
func TestReaderBesideASkipReadGetsNoEntryWithADroppedTag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewTagged(t)
		w := lab.NewWire(s)
		a, b := lab.Instance[string, int64](t, s), lab.Instance(t, s, w.Use)
		lab.Must(t, a.Set(t.Context(), "k", 1, strata.WithTags("t")))
		synctest.Wait() // its message would fence the SkipRead
		o := &lab.Origin{Takes: 10 * time.Second}
		o.Value.Store(2)
		go b.GetOrLoad(t.Context(), "k", o.Load, strata.SkipRead())
		synctest.Wait()
		w.Slows("Tags", 0, 50*time.Millisecond) // the tier is asked before the drop
		var all sync.WaitGroup
		get := func(who string, want int64) {
			all.Go(func() {
				if v := lab.MustGet(t, b, "k", lab.Unavailable); v != want {
					t.Errorf("%s got %d, want %d", who, v, want)
				}
			})
			synctest.Wait()
		}
		get("the caller from before the drop", 1)
		lab.Must(t, a.InvalidateTags(t.Context(), "t"))
		synctest.Wait()
		get("the caller from after the drop", 2)
		all.Wait()
	})
}

func TestReaderThatTimesOutBesideASkipReadIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var slow atomic.Bool
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = lab.Stalling(s.Tier, "Get", 90*time.Millisecond, &slow)
		})
		o := &lab.Origin{Takes: time.Second}
		for _, key := range []string{"held", "absent"} {
			go c.GetOrLoad(t.Context(), key, o.Load, strata.SkipRead())
			synctest.Wait()
			if key == "held" {
				lab.Must(t, lab.Instance[string, int64](t, s).Set(t.Context(), key, 1))
			}
			slow.Store(true)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			if _, err := c.GetOrLoad(ctx, key, o.Load); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got %v, want the caller's deadline", key, err)
			}
			cancel()
			slow.Store(false)
			time.Sleep(5 * time.Second)
		}
		st := c.Stats()
		if in, out := st.L1.Misses, st.Flights+st.Joins+st.TurnedAway+st.Remembered; in != out {
			t.Errorf("%d misses are %d flights, joins and answers", in, out)
		}
		if out := st.L2.Hits + st.Absent + st.Loads.Total() + st.Rechecked + st.Abandoned; st.Flights != out {
			t.Errorf("%d flights have %d ends", st.Flights, out)
		}
	})
}

// TestSlowAnswerOfL2DoesNotUndoARefresh has L2 answer a reader before a refresh, by either loader, and the answer come
// after it: the reader gets the older value, and L1 keeps the result of the refresh.
func TestSlowAnswerOfL2DoesNotUndoARefresh(t *testing.T) {
	for name, load := range map[string]strata.Loader[string, int64]{
		"value": func(context.Context, string) (int64, error) { return 2, nil }, "not found": lab.NoneOf,
	} {
		many := func(ctx context.Context, keys []string) (map[string]int64, error) {
			v, err := load(ctx, keys[0])
			if err != nil {
				return nil, nil // the key is absent
			}
			return map[string]int64{keys[0]: v}, nil
		}
		for by, loads := range map[string]func(*strata.Options[string, int64]){
			"Loader":     loadsBy(load),
			"ManyLoader": func(o *strata.Options[string, int64]) { o.ManyLoader = many },
		} {
			t.Run(name+" by "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					want, wanted := load(t.Context(), "k")
					slowAnswer(t, loads, want, wanted)
				})
			})
		}
	}
}

// slowAnswer wants want, or wanted, of a key after a slow answer of L2 to a question from before a refresh.
func slowAnswer(t *testing.T, loads func(*strata.Options[string, int64]), want int64, wanted error) {
	t.Helper()
	s := lab.NewShared()
	w := lab.NewWire(s)
	a := lab.Instance[string, int64](t, s)
	b := lab.Instance(t, s, w.Use, loads, func(o *strata.Options[string, int64]) { o.NotFoundTTL = time.Hour })
	lab.Must(t, a.Set(t.Context(), "k", 1))
	synctest.Wait()
	w.Slows("Get", 0, 50*time.Millisecond)
	var all sync.WaitGroup
	all.Go(func() {
		if v, ok := b.Get(t.Context(), "k"); v != 1 || !ok {
			t.Errorf("the reader got %d, %v, want what L2 had", v, ok)
		}
	})
	synctest.Wait()
	w.Slows("Get", 0, 0)
	lab.MustGet(t, b, "k", lab.Unavailable)
	lab.Must(t, b.Refresh(t.Context(), "k"))
	synctest.Wait()
	all.Wait()
	if v, err := b.GetOrLoad(t.Context(), "k", lab.Unavailable); v != want || !errors.Is(err, wanted) {
		t.Errorf("got %d, %v after the slow answer, want %d, %v", v, err, want, wanted)
	}
}

// TestSlowAnswerOfL2DoesNotUndoWhatARefreshHasFoundThere: the refresh finds the value of a load by another instance,
// which has told no other.
func TestSlowAnswerOfL2DoesNotUndoWhatARefreshHasFoundThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		w := lab.NewWire(s)
		a := lab.Instance(t, s, loadsBy(func(context.Context, string) (int64, error) { return 2, nil }))
		b := lab.Instance(t, s, w.Use, loadsBy(lab.Unavailable))
		lab.Must(t, a.Set(t.Context(), "k", 1))
		synctest.Wait()
		w.Slows("Get", 0, 50*time.Millisecond)
		var all sync.WaitGroup
		all.Go(func() { b.Get(t.Context(), "k") })
		synctest.Wait()
		w.Slows("Get", 0, 0)
		lab.MustGet(t, b, "k", lab.Unavailable)
		for _, c := range []*strata.Cache[string, int64]{a, b} {
			lab.Must(t, c.Refresh(t.Context(), "k"))
			synctest.Wait()
		}
		lab.WantHeld(t, "before the slow answer", b, 2)
		all.Wait()
		lab.WantHeld(t, "after the slow answer", b, 2)
	})
}
