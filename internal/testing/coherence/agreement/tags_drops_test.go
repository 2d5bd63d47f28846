package agreement_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// changeOf changes the options of a cache that a test makes.
type changeOf = func(*strata.Options[string, int64])

// tagsHeld are the ways in which a drop of tags reaches a cache. It is read-only.
var tagsHeld = map[string]func(t *testing.T, change ...changeOf) (c, dropper *strata.Cache[string, int64]){
	"L1 alone": func(t *testing.T, change ...changeOf) (c, dropper *strata.Cache[string, int64]) {
		c = lab.NewCache(t, change...)
		return c, c
	},
	"L1 and L2": func(t *testing.T, change ...changeOf) (c, dropper *strata.Cache[string, int64]) {
		c = lab.Instance(t, lab.NewTagged(t), change...)
		return c, c
	},
	"dropped by another instance": func(t *testing.T, change ...changeOf) (c, dropper *strata.Cache[string, int64]) {
		s := lab.NewTagged(t)
		return lab.Instance(t, s, change...), lab.Instance[string, int64](t, s)
	},
}

// eachTagged runs test in a bubble for each of tagsHeld.
func eachTagged(t *testing.T, test func(t *testing.T, c, dropper *strata.Cache[string, int64]), change ...changeOf) {
	for name, caches := range tagsHeld {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, dropper := caches(t, change...)
				test(t, c, dropper)
			})
		})
	}
}

// tagging is a Loader that names tags and then loads the value of o.
func tagging(o *lab.Origin, tags ...string) strata.Loader[string, int64] {
	return func(ctx context.Context, key string) (int64, error) {
		strata.Loading(ctx).SetTags(tags...)
		return o.Load(ctx, key)
	}
}

// TestDropsOfOtherTagsCostNoLoad, in a bubble, drops a tag every 100 ms while 50 callers ask
// for a value that has another tag and takes 200 ms to load.
func TestDropsOfOtherTagsCostNoLoad(t *testing.T) {
	eachTagged(t, func(t *testing.T, c, dropper *strata.Cache[string, int64]) {
		o := &lab.Origin{Takes: 200 * time.Millisecond}
		stop := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
					lab.Must(t, dropper.InvalidateTags(t.Context(), "unrelated"))
					lab.Must(t, dropper.ExpireTags(t.Context(), "unrelated too"))
				}
			}
		})
		var callers sync.WaitGroup
		for i := range 50 {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * 40 * time.Millisecond)
				lab.MustGet(t, c, "k", tagging(o, "mine"))
				_, err := c.GetMany(t.Context(), []string{"k", "l"}, lab.ManyOf(tagging(o, "mine")))
				lab.Must(t, err)
			})
		}
		callers.Wait()
		close(stop)
		all.Wait()
		if n := o.Loads.Load(); n != 2 {
			t.Errorf("%d loads of 2 keys, want 2", n)
		}
		for _, k := range []string{"k", "l"} {
			if r := c.Explain(t.Context(), k); !r.L1.Present {
				t.Errorf("%q is not in L1", k)
			}
		}
	})
}

// TestWritesAndExtraKeysOutliveDropsOfOtherTags drops a tag while a Set, a SetMany
// and an Update are under way, and while a batch brings a key unasked.
func TestWritesAndExtraKeysOutliveDropsOfOtherTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewTagged(t)
		w := lab.NewWire(s)
		c, dropper := lab.Instance(t, s, w.Use), lab.Instance[string, int64](t, s)
		w.Slows("Put", 0, 50*time.Millisecond)
		mine := strata.WithTags("mine")
		ways := map[string]func(key string) error{
			"Set":     func(key string) error { return c.Set(t.Context(), key, 1, mine) },
			"SetMany": func(key string) error { return c.SetMany(t.Context(), map[string]int64{key: 1}, mine) },
			"Update": func(key string) error {
				return c.Update(t.Context(), key, func(context.Context) (int64, error) { return 1, nil }, mine)
			},
			"an extra key": func(key string) error {
				_, err := c.GetMany(t.Context(), []string{"asked for"}, func(context.Context, []string) (map[string]int64, error) {
					time.Sleep(50 * time.Millisecond)
					return map[string]int64{"asked for": 1, key: 1}, nil
				}, mine)
				return err
			},
		}
		for way, store := range ways {
			done := make(chan error)
			go func() { done <- store(way) }()
			synctest.Wait()
			lab.Must(t, dropper.InvalidateTags(t.Context(), "unrelated"))
			lab.Must(t, c.ExpireTags(t.Context(), "unrelated"))
			lab.Must(t, <-done)
			if r := c.Explain(t.Context(), way); !r.L1.Present || r.L1.Fresh <= 0 {
				t.Errorf("%s: what it has stored is not in L1", way)
			}
		}
	})
}

// TestLoadThatEndsWithADroppedTagIsNotKept has a tag dropped, or expired, during
// the load or write that names it at its end.
func TestLoadThatEndsWithADroppedTagIsNotKept(t *testing.T) {
	ways := map[string]func(c *strata.Cache[string, int64], drop func()) error{
		"load": func(c *strata.Cache[string, int64], drop func()) error {
			_, err := c.GetOrLoad(context.Background(), "k", func(ctx context.Context, _ string) (int64, error) {
				drop()
				strata.Loading(ctx).SetTags("t")
				return 1, nil
			})
			return err
		},
		"batch": func(c *strata.Cache[string, int64], drop func()) error {
			_, err := c.GetMany(context.Background(), []string{"k", "other"}, func(ctx context.Context, keys []string) (map[string]int64, error) {
				drop()
				strata.Loading(ctx).SetTags("t")
				return map[string]int64{"k": 1, "other": 1}, nil
			})
			return err
		},
		"extra key": func(c *strata.Cache[string, int64], drop func()) error {
			_, err := c.GetMany(context.Background(), []string{"other"}, func(ctx context.Context, keys []string) (map[string]int64, error) {
				drop()
				return map[string]int64{"k": 1, "other": 1}, nil
			}, strata.WithTags("t"))
			return err
		},
		"update": func(c *strata.Cache[string, int64], drop func()) error {
			return c.Update(context.Background(), "k", func(ctx context.Context) (int64, error) { drop(); return 1, nil }, strata.WithTags("t"))
		},
	}
	for way, store := range ways {
		for _, soft := range []bool{false, true} {
			eachTagged(t, func(t *testing.T, c, dropper *strata.Cache[string, int64]) {
				lab.Must(t, store(c, func() {
					if soft {
						lab.Must(t, dropper.ExpireTags(t.Context(), "t"))
					} else {
						lab.Must(t, dropper.InvalidateTags(t.Context(), "t"))
					}
					synctest.Wait()
				}))
				lab.WantAbsent(t, way, c)
				if n := c.Len(); !soft && n != 0 {
					t.Errorf("%s: %d entries are held that nobody may read", way, n)
				}
				if v, err := c.GetOrLoad(t.Context(), "k", lab.Unavailable); soft != (err == nil) || soft && v != 1 {
					t.Errorf("%s, soft %v: got %d, %v when the origin is down", way, soft, v, err)
				}
			})
		}
	}
}

// TestCallersFromAfterADropOfATagGetNothingFromBefore joins a running load, in every
// way, after the drop of a tag. The load names this tag for its value only at its end.
// Callers from before the drop still get the value.
func TestCallersFromAfterADropOfATagGetNothingFromBefore(t *testing.T) {
	type get func(t *testing.T, c *strata.Cache[string, int64], load strata.Loader[string, int64]) int64
	single := get(func(t *testing.T, c *strata.Cache[string, int64], load strata.Loader[string, int64]) int64 {
		return lab.MustGet(t, c, "k", load)
	})
	batch := get(func(t *testing.T, c *strata.Cache[string, int64], load strata.Loader[string, int64]) int64 {
		found, err := c.GetMany(t.Context(), []string{"k", "other"}, lab.ManyOf(load))
		if err != nil {
			t.Error(err)
		}
		return found["k"]
	})
	ways := map[string]struct{ before, after get }{
		"one joins one": {single, single}, "one joins a batch": {batch, single},
		"a batch joins one": {single, batch}, "a batch joins a batch": {batch, batch},
	}
	for way, w := range ways {
		for _, soft := range []bool{false, true} {
			t.Run(way, func(t *testing.T) {
				eachTagged(t, func(t *testing.T, c, dropper *strata.Cache[string, int64]) {
					o := &lab.Origin{Takes: time.Second}
					o.Value.Store(1)
					load := tagging(o, "t")
					var all sync.WaitGroup
					before := func() {
						if v := w.before(t, c, load); v != 1 {
							t.Errorf("who called before the drop got %d, want 1", v)
						}
					}
					all.Go(before)
					synctest.Wait()
					all.Go(before) // has joined, and is from before the drop too
					synctest.Wait()
					o.Value.Store(2)
					drop := dropper.InvalidateTags
					if soft {
						drop = dropper.ExpireTags
					}
					lab.Must(t, drop(t.Context(), "t"))
					synctest.Wait()
					for range 10 {
						all.Go(func() {
							if v := w.after(t, c, load); v != 2 {
								t.Errorf("soft %v: who called after the drop got %d, want 2", soft, v)
							}
						})
					}
					all.Wait()
					if v, ok := c.Get(t.Context(), "k"); v != 2 || !ok {
						t.Errorf("soft %v: kept is %d, %v; want 2", soft, v, ok)
					}
					if n := c.Stats().Joins; n < 10 {
						t.Errorf("soft %v: %d joins, want 10 and more: nobody has waited for what ran", soft, n)
					}
				})
			})
		}
	}
}

// TestGetFromAfterADropOfATagFindsNothingFromBefore joins a Get that reads L2 while the
// tag of its value is dropped.
func TestGetFromAfterADropOfATagFindsNothingFromBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewTagged(t)
		w := lab.NewWire(s)
		a, b := lab.Instance[string, int64](t, s), lab.Instance(t, s, w.Use)
		lab.Must(t, a.Set(t.Context(), "k", 1, strata.WithTags("t")))
		synctest.Wait()
		w.Slows("Tags", 0, 50*time.Millisecond) // it has been asked before the drop
		var all sync.WaitGroup
		all.Go(func() { lab.WantHeld(t, "who called before the drop", b, 1) })
		synctest.Wait()
		lab.Must(t, a.InvalidateTags(t.Context(), "t"))
		synctest.Wait()
		all.Go(func() { lab.WantAbsent(t, "who called after the drop", b) })
		all.Wait()
		lab.WantAbsent(t, "L1", b)
	})
}

// TestStaleValueThatATagHasDroppedIsNotServedOnError, in a bubble, joins a failing load with a
// stale value to serve on error, after the tag of this value was dropped.
func TestStaleValueThatATagHasDroppedIsNotServedOnError(t *testing.T) {
	eachTagged(t, func(t *testing.T, c, dropper *strata.Cache[string, int64]) {
		lab.Must(t, c.Set(t.Context(), "k", 1, strata.WithTags("t")))
		time.Sleep(2 * time.Minute)
		load := func(context.Context, string) (int64, error) {
			time.Sleep(time.Second)
			return 0, errors.New("down")
		}
		var all sync.WaitGroup
		all.Go(func() {
			if v := lab.MustGet(t, c, "k", load); v != 1 {
				t.Errorf("who called before the drop got %d, want the stale 1", v)
			}
		})
		synctest.Wait()
		lab.Must(t, dropper.InvalidateTags(t.Context(), "t"))
		synctest.Wait()
		all.Go(func() {
			if v, err := c.GetOrLoad(t.Context(), "k", load); err == nil {
				t.Errorf("who called after the drop got %d", v)
			}
		})
		all.Wait()
	})
}

// TestOfferedValueThatATagHasDroppedIsNotTaken, in a bubble, has a caller with
// little patience join a slow load after the tag of its stale value was dropped.
func TestOfferedValueThatATagHasDroppedIsNotTaken(t *testing.T) {
	kit.Watch(t, 10*time.Second) // a value that is offered and turned down again and again stops the time of the bubble
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Limits.SoftTimeout = 100 * time.Millisecond })
		lab.Must(t, c.Set(t.Context(), "k", 1, strata.WithTags("t")))
		time.Sleep(2 * time.Minute)
		o := &lab.Origin{Takes: time.Second}
		o.Value.Store(2)
		get := func(who string, want int64) func() {
			return func() {
				if v := lab.MustGet(t, c, "k", tagging(o, "t")); v != want {
					t.Errorf("%s got %d, want %d", who, v, want)
				}
				found, err := c.GetMany(t.Context(), []string{"k"}, lab.ManyOf(tagging(o, "t")))
				if v := found["k"]; v != want || err != nil {
					t.Errorf("a batch of %s got %d, %v, want %d", who, v, err, want)
				}
			}
		}
		var all sync.WaitGroup
		all.Go(get("who called before the drop", 1))
		time.Sleep(250 * time.Millisecond)
		all.Wait()
		lab.Must(t, c.InvalidateTags(t.Context(), "t"))
		o.Value.Store(3)
		all.Go(get("who called after the drop", 3))
		all.Wait()
	})
}

// TestSetThatATagOverlapsLeavesNothingOlder has the tag of a Set dropped while it
// is under way.
func TestSetThatATagOverlapsLeavesNothingOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewTagged(t)
		w := lab.NewWire(s)
		c, dropper := lab.Instance(t, s, w.Use), lab.Instance[string, int64](t, s)
		w.Slows("Put", 0, 50*time.Millisecond)
		done := make(chan error)
		go func() { done <- c.Set(t.Context(), "k", 1, strata.WithTags("t")) }()
		synctest.Wait()
		lab.Must(t, dropper.InvalidateTags(t.Context(), "t"))
		lab.Must(t, <-done)
		lab.WantAbsent(t, "who has set it", c)
		lab.WantAbsent(t, "another instance", dropper)
		if n := c.Len(); n != 0 {
			t.Errorf("%d entries are held that nobody may read", n)
		}
	})
}

// TestLoadThatBeginsAfterADropOfItsTagIsKept has a load wait for its slot while
// its tag is dropped.
func TestLoadThatBeginsAfterADropOfItsTagIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Limits.MaxLoads = 1 })
		o := &lab.Origin{Takes: time.Second}
		var all sync.WaitGroup
		for _, k := range []string{"slot", "k"} {
			all.Go(func() { lab.MustGet(t, c, k, tagging(o, "of "+k)) })
			synctest.Wait()
		}
		lab.Must(t, c.InvalidateTags(t.Context(), "of k"))
		all.Wait()
		lab.WantHeld(t, "L1", c, 0)
	})
}

func TestInvalidateTagsOfNothingDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Remote.Tier = newTagless(s) })
		o := &lab.Origin{Takes: time.Second}
		done := make(chan int64, 1)
		go func() { done <- lab.MustGet(t, c, "k", o.Load) }()
		synctest.Wait()
		lab.Must(t, c.InvalidateTags(t.Context()))
		lab.Must(t, c.ExpireTags(t.Context()))
		<-done
		lab.WantHeld(t, "the cache", c, 0)
		if st := c.Stats(); st.Invalidations != 0 || st.Pending != 0 {
			t.Errorf("%d invalidations, %d pending; want none", st.Invalidations, st.Pending)
		}
		lab.Must(t, c.Close(t.Context()))
		if err := c.InvalidateTags(t.Context()); !errors.Is(err, strata.ErrClosed) {
			t.Errorf("a closed cache returned %v", err)
		}
	})
}

// lateAnswers is a tier that answers questions about tags a second late, and fails
// drops of tags while a switch is on.
type lateAnswers struct {
	*stratatest.Tier
	fails *atomic.Bool
}

func (l lateAnswers) Bind(s remote.Space) remote.Tier {
	return lateAnswers{l.Tier.Bind(s).(*stratatest.Tier), l.fails}
}

func (l lateAnswers) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	known, err := l.Tier.Tags(ctx, tags)
	time.Sleep(time.Second) // of the bubble
	return known, err
}

func (l lateAnswers) DropTags(ctx context.Context, tags []string, soft bool) error {
	if l.fails.Load() {
		return lab.ErrDown
	}
	return l.Tier.DropTags(ctx, tags, soft)
}

func TestDropOfATagThatIsConfirmedWhileL2IsAskedAboutItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var fails atomic.Bool
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Tier, o.Remote.Timeout = lateAnswers{s.Tier, &fails}, 10*time.Second
		})
		for _, k := range []string{"one", "two"} {
			lab.Must(t, c.Set(t.Context(), k, 1, strata.WithTags("t")))
		}
		fails.Store(true)
		if err := c.InvalidateTags(t.Context(), "t"); err == nil {
			t.Fatal("the scenario does not come about: the drop is confirmed")
		}
		fails.Store(false) // it is confirmed by a retry, long before the answer comes
		o := &lab.Origin{}
		o.Value.Store(2)
		if v := lab.MustGet(t, c, "one", o.Load); v != 2 {
			t.Errorf("GetOrLoad: got %d, from before the drop", v)
		}
		found, err := c.GetMany(t.Context(), []string{"one", "two"}, func(context.Context, []string) (map[string]int64, error) {
			return map[string]int64{"two": 2}, nil
		})
		if found["two"] != 2 || err != nil {
			t.Errorf("GetMany: got %v, %v; want what was loaded after the drop", found, err)
		}
	})
}
