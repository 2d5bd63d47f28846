package agreement_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// wayToStore is a way in which an entry with the tag t is kept under k.
type wayToStore struct {
	store func(t *testing.T, c *strata.Cache[string, int64]) error
	// none says that the entry is negative: the origin has no such key. extra says that
	// it is kept in L1 alone.
	none, extra bool
}

// tagT is a Loader that names the tag t.
func tagT(ctx context.Context, _ string) (int64, error) {
	strata.Loading(ctx).SetTags("t")
	return 1, nil
}

// getOne is a way to store by a call of GetOrLoad.
func getOne(load strata.Loader[string, int64], opts ...strata.CallOption) func(*testing.T, *strata.Cache[string, int64]) error {
	return func(t *testing.T, c *strata.Cache[string, int64]) error {
		_, err := c.GetOrLoad(t.Context(), "k", load, opts...)
		return err
	}
}

// getMany is a way to store by a call of GetMany for a key.
func getMany(key string, load strata.ManyLoader[string, int64], opts ...strata.CallOption) func(*testing.T, *strata.Cache[string, int64]) error {
	return func(t *testing.T, c *strata.Cache[string, int64]) error {
		_, err := c.GetMany(t.Context(), []string{key, "another"}, load, opts...)
		return err
	}
}

// bothT brings a value of k, whether asked for or not, and names its tag alone.
func bothT(ctx context.Context, _ []string) (map[string]int64, error) {
	strata.LoadingKey(ctx, "k").SetTags("t")
	return map[string]int64{"k": 1, "another": 1, "asked for": 1}, nil
}

// waysToStore are all of them; in a bubble.
func waysToStore() map[string]wayToStore {
	tagged := strata.WithTags("t")
	write := func(context.Context) (int64, error) { return 1, nil }
	plain := func(context.Context, []string) (map[string]int64, error) {
		return map[string]int64{"k": 1, "another": 1, "asked for": 1}, nil
	}
	return map[string]wayToStore{
		"a load, by its call":   {store: getOne((&lab.Origin{}).Load, tagged)},
		"a load, by its loader": {store: getOne(tagT)},
		"a load, by its key": {store: getOne(func(ctx context.Context, key string) (int64, error) {
			strata.LoadingKey(ctx, key).SetTags("t")
			return 1, nil
		})},
		"a refresh": {store: func(t *testing.T, c *strata.Cache[string, int64]) error {
			lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
			time.Sleep(50 * time.Second) // it is due
			_, err := c.GetOrLoad(t.Context(), "k", tagT)
			synctest.Wait()
			return err
		}},
		"a refresh of a batch": {store: func(t *testing.T, c *strata.Cache[string, int64]) error {
			lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
			time.Sleep(50 * time.Second)
			_, err := c.GetMany(t.Context(), []string{"k"}, bothT)
			synctest.Wait()
			return err
		}},
		"a value that still holds, with the tags of before": {store: func(t *testing.T, c *strata.Cache[string, int64]) error {
			lab.MustGet(t, c, "k", tagT)
			lab.Must(t, c.Expire(t.Context(), "k"))
			return getOne(lab.NotModified(0))(t, c)
		}},
		"a value that still holds, with tags of now": {store: func(t *testing.T, c *strata.Cache[string, int64]) error {
			lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
			lab.Must(t, c.Expire(t.Context(), "k"))
			return getOne(lab.NotModified(0), tagged)(t, c)
		}},
		"a reload":                           {store: getOne(tagT, strata.SkipRead())},
		"a reload, by its call":              {store: getOne((&lab.Origin{}).Load, strata.SkipRead(), tagged)},
		"a batch, by its call":               {store: getMany("k", plain, tagged)},
		"a batch, by its key":                {store: getMany("k", bothT)},
		"a batch of reloads":                 {store: getMany("k", bothT, strata.SkipRead())},
		"a batch of Options.Loader":          {store: getMany("k", nil)},
		"a key brought unasked, by its call": {store: getMany("asked for", plain, tagged), extra: true},
		"a key brought unasked, by itself":   {store: getMany("asked for", bothT), extra: true},
		"a batch, by all its keys": {store: getMany("k", func(ctx context.Context, _ []string) (map[string]int64, error) {
			strata.Loading(ctx).SetTags("t")
			return map[string]int64{"k": 1, "another": 1}, nil
		})},
		"Set": {store: func(t *testing.T, c *strata.Cache[string, int64]) error {
			return c.Set(t.Context(), "k", 1, tagged)
		}},
		"SetMany": {store: func(t *testing.T, c *strata.Cache[string, int64]) error {
			return c.SetMany(t.Context(), map[string]int64{"k": 1, "another": 1}, tagged)
		}},
		"Update, by its call": {store: func(t *testing.T, c *strata.Cache[string, int64]) error {
			return c.Update(t.Context(), "k", write, tagged)
		}},
		"Update, by its write": {store: func(t *testing.T, c *strata.Cache[string, int64]) error {
			return c.Update(t.Context(), "k", func(ctx context.Context) (int64, error) { return tagT(ctx, "k") })
		}},
		"not found, by its call": {none: true, store: getOne(func(context.Context, string) (int64, error) {
			return 0, strata.ErrNotFound
		}, tagged)},
		"not found, by its loader": {none: true, store: getOne(lab.NoneOf)},
		"not found, in a batch": {none: true, store: getMany("k", func(ctx context.Context, _ []string) (map[string]int64, error) {
			strata.LoadingKey(ctx, "k").SetTags("t")
			return map[string]int64{"another": 1}, nil
		})},
		"not found, where something was": {none: true, store: func(t *testing.T, c *strata.Cache[string, int64]) error {
			lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
			lab.Must(t, c.Expire(t.Context(), "k"))
			return getOne(lab.NoneOf)(t, c)
		}},
	}
}

// keeps reports whether c answers for k without the origin.
func keeps(t *testing.T, c *strata.Cache[string, int64]) bool {
	asked := false
	_, _ = c.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) {
		asked = true
		return 0, errors.New("the origin was asked")
	})
	return !asked
}

// TestEveryWayOfStoringEndsWithTheDropOfATag stores something with a tag in each way
// there is, and drops that tag, or the one that Options.Tags has for every value,
// here and elsewhere. In a bubble.
func TestEveryWayOfStoringEndsWithTheDropOfATag(t *testing.T) {
	options := func(o *strata.Options[string, int64]) {
		o.RefreshAt, o.NotFoundTTL, o.Loader = 0.8, time.Hour, tagT
		o.Stale = strata.Stale{WhileRevalidate: -1, OnError: time.Hour}
		o.Tags = func(string, int64) []string { return []string{"every"} }
	}
	places := map[string]func(t *testing.T) (c, other *strata.Cache[string, int64], cold func() *strata.Cache[string, int64]){
		"L1 alone": func(t *testing.T) (c, other *strata.Cache[string, int64], cold func() *strata.Cache[string, int64]) {
			c = lab.NewCache(t, options)
			return c, c, func() *strata.Cache[string, int64] { return c }
		},
		"two instances": func(t *testing.T) (c, other *strata.Cache[string, int64], cold func() *strata.Cache[string, int64]) {
			s := lab.NewTagged(t)
			c, other = lab.Instance(t, s, options), lab.Instance(t, s, options)
			return c, other, func() *strata.Cache[string, int64] { return lab.Instance(t, s, options) }
		},
	}
	for place, make := range places {
		for name, way := range waysToStore() {
			for _, tag := range []string{"t", "every"} {
				if way.none && tag == "every" {
					continue // Options.Tags is not called without a value
				}
				t.Run(place+"/"+name+"/"+tag, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c, other, cold := make(t)
						checkDiesWithItsTag(t, way, tag, c, other, c, cold)
					})
					synctest.Test(t, func(t *testing.T) {
						c, other, cold := make(t)
						checkDiesWithItsTag(t, way, tag, c, other, other, cold)
					})
				})
			}
		}
	}
}

// checkDiesWithItsTag stores something in c, has it read by another instance, and
// drops its tag.
func checkDiesWithItsTag(t *testing.T, way wayToStore, tag string, c, other, dropper *strata.Cache[string, int64], cold func() *strata.Cache[string, int64]) {
	t.Helper()
	if err := way.store(t, c); err != nil && !(way.none && errors.Is(err, strata.ErrNotFound)) {
		t.Fatal(err)
	}
	synctest.Wait()
	if !keeps(t, c) || !way.extra && !keeps(t, other) {
		t.Fatal("it is not kept")
	}
	if r := c.Explain(t.Context(), "k"); !way.none && !slices.Contains(r.L1.Tags, tag) {
		t.Errorf("L1 has it with the tags %q", r.L1.Tags)
	}
	lab.Must(t, dropper.InvalidateTags(t.Context(), "unrelated"))
	synctest.Wait()
	if !keeps(t, c) {
		t.Error("a drop of another tag has ended it")
	}
	lab.Must(t, dropper.InvalidateTags(t.Context(), tag))
	synctest.Wait()
	for who, c := range map[string]*strata.Cache[string, int64]{"who stored it": c, "another instance": other, "an instance without L1": cold()} {
		if keeps(t, c) {
			t.Errorf("%s has it when its tag was dropped", who)
		}
	}
}

// TestExpireTagsEndsNotFound: there is nothing that could be served as stale.
func TestExpireTagsEndsNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewTagged(t)
		long := func(o *strata.Options[string, int64]) { o.NotFoundTTL = time.Hour }
		a, b := lab.Instance(t, s, long), lab.Instance(t, s, long)
		if _, err := a.GetOrLoad(t.Context(), "k", lab.NoneOf); !errors.Is(err, strata.ErrNotFound) || !keeps(t, b) {
			t.Fatalf("it is not kept that there is none: %v", err)
		}
		lab.Must(t, b.ExpireTags(t.Context(), "t"))
		synctest.Wait()
		for who, c := range map[string]*strata.Cache[string, int64]{"who loaded": a, "who called": b, "an instance without L1": lab.Instance(t, s, long)} {
			if keeps(t, c) {
				t.Errorf("%s still says that there is none", who)
			}
		}
	})
}

// TestNotFoundOfALoadWithADroppedTagIsNotKept drops the tag while the load that
// finds nothing runs, and joins it then, or asks when it has ended.
func TestNotFoundOfALoadWithADroppedTagIsNotKept(t *testing.T) {
	for name, waits := range map[string]time.Duration{"joins": 0, "comes later": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			eachTagged(t, func(t *testing.T, c, dropper *strata.Cache[string, int64]) {
				there := false
				load := func(ctx context.Context, _ string) (int64, error) {
					strata.Loading(ctx).SetTags("t")
					was := there
					time.Sleep(time.Second) // in a bubble
					if !was {
						return 0, strata.ErrNotFound
					}
					return 1, nil
				}
				before := make(chan error, 1)
				go func() { _, err := c.GetOrLoad(t.Context(), "k", load); before <- err }()
				synctest.Wait()
				there = true
				lab.Must(t, dropper.InvalidateTags(t.Context(), "t"))
				synctest.Wait()
				time.Sleep(waits)
				if v := lab.MustGet(t, c, "k", load); v != 1 {
					t.Errorf("who called after the drop got %d, want 1", v)
				}
				if err := <-before; !errors.Is(err, strata.ErrNotFound) {
					t.Errorf("who called before the drop got %v", err)
				}
			}, func(o *strata.Options[string, int64]) { o.NotFoundTTL = time.Minute })
		})
	}
}

// TestKeysOfABatchHaveTagsAndLivesOfTheirOwn has a ManyLoader say different things
// of its keys.
func TestKeysOfABatchHaveTagsAndLivesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewTagged(t)
		c := lab.Instance[string, int64](t, s)
		load := func(ctx context.Context, keys []string) (map[string]int64, error) {
			strata.Loading(ctx).SetTTL(20 * time.Second)
			strata.Loading(ctx).SetTags("all")
			strata.LoadingKey(ctx, "short").SetTTL(10 * time.Second)
			strata.LoadingKey(ctx, "tagged").SetTags("one")
			strata.LoadingKey(ctx, "unkept").NoStore()
			strata.LoadingKey(ctx, "bad").SetTags("")
			strata.LoadingKey(ctx, "extra").SetTTL(5 * time.Second)
			strata.LoadingKey(ctx, "no extra").NoStore()
			strata.LoadingKey(ctx, 7).NoStore() // a key of another type is none of this cache
			found := map[string]int64{"extra": 1, "no extra": 1}
			for _, k := range keys {
				found[k] = 1
			}
			return found, nil
		}
		keys := []string{"short", "tagged", "unkept", "bad", "plain"}
		found, err := c.GetMany(t.Context(), keys, load)
		if err != nil || len(found) != len(keys) {
			t.Fatalf("got %v, %v", found, err)
		}
		for key, want := range map[string]struct {
			fresh time.Duration
			tags  string
		}{
			"short": {10 * time.Second, "all"}, "tagged": {20 * time.Second, "all one"}, "plain": {20 * time.Second, "all"},
			"extra": {5 * time.Second, "all"}, "unkept": {}, "bad": {}, "no extra": {},
		} {
			r := c.Explain(t.Context(), key)
			if got := strings.Join(r.L1.Tags, " "); r.L1.Fresh != want.fresh || got != want.tags {
				t.Errorf("%q is fresh for %v with the tags %q, want %v with %q", key, r.L1.Fresh, got, want.fresh, want.tags)
			}
			if extra := strings.Contains(key, "extra"); !extra && r.L2.Fresh != want.fresh {
				t.Errorf("%q is fresh for %v in L2, want %v", key, r.L2.Fresh, want.fresh)
			}
		}
		if n := c.Stats().EncodeErrors; n != 1 {
			t.Errorf("%d encode errors, want that of the bad tag", n)
		}
	})
}

// TestLoaderOfOneKeySpeaksOfThatKeyInABatchToo has GetMany use Options.Loader.
func TestLoaderOfOneKeySpeaksOfThatKeyInABatchToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Loader = func(ctx context.Context, key string) (int64, error) {
				strata.Loading(ctx).SetTags("of " + key)
				return 1, nil
			}
		})
		_, err := c.GetMany(t.Context(), []string{"k", "l"}, nil)
		lab.Must(t, err)
		lab.Must(t, c.InvalidateTags(t.Context(), "of l"))
		lab.WantHeld(t, "the cache", c, 1)
		if found := present(t, c, "l"); len(found) > 0 {
			t.Error("what carries the tag is still there")
		}
	})
}

// TestWriteOfAnUpdateSpeaksOfItsOwnEntry: the tags and the TTL that the function of an
// Update sets are for the key of the Update. If the Update runs inside the load of another
// key, that key gets neither.
func TestWriteOfAnUpdateSpeaksOfItsOwnEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewTagged(t)
		c := lab.Instance[string, int64](t, s)
		lab.MustGet(t, c, "outer", func(ctx context.Context, _ string) (int64, error) {
			return 1, c.Update(ctx, "k", func(ctx context.Context) (int64, error) {
				strata.Loading(ctx).SetTags("inner")
				strata.Loading(ctx).SetTTL(10 * time.Second)
				return 2, nil
			})
		})
		if r := c.Explain(t.Context(), "k"); r.L1.Fresh != 10*time.Second || !slices.Equal(r.L1.Tags, []string{"inner"}) {
			t.Errorf("fresh for %v with the tags %q, want 10s with inner", r.L1.Fresh, r.L1.Tags)
		}
		lab.Must(t, c.InvalidateTags(t.Context(), "inner"))
		lab.WantAbsent(t, "the cache", c)
		if found := present(t, c, "outer"); len(found) == 0 {
			t.Error("the outer entry has got the tags of the inner one")
		}
		lab.Must(t, c.Update(t.Context(), "k", func(ctx context.Context) (int64, error) {
			strata.Loading(ctx).NoStore()
			return 3, nil
		}))
		lab.WantAbsent(t, "after NoStore the cache", c)
		err := c.Update(t.Context(), "k", func(ctx context.Context) (int64, error) {
			strata.Loading(ctx).SetTags("")
			return 3, nil
		})
		if err == nil {
			t.Error("a tag that cannot be is no error of Update")
		}
		lab.WantAbsent(t, "after a tag that cannot be the cache", c)
	})
}

// TestTagsThatPanicOrCannotBeKeepValuesFromBeingStored has Options.Tags fail: a
// read gets the value, a write an error.
func TestTagsThatPanicOrCannotBeKeepValuesFromBeingStored(t *testing.T) {
	bad := map[string]func(string, int64) []string{
		"panics":    func(string, int64) []string { panic("boom") },
		"empty tag": func(string, int64) []string { return []string{"t", ""} },
	}
	for name, tags := range bad {
		for way, w := range waysToStore() {
			if w.none || strings.HasPrefix(way, "a refresh") || strings.HasPrefix(way, "a value that") {
				continue // there is no value, or the value before is not kept
			}
			t.Run(name+"/"+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := lab.NewTagged(t)
					options := func(o *strata.Options[string, int64]) { o.Tags, o.Loader = tags, tagT }
					c := lab.Instance(t, s, options)
					err := w.store(t, c)
					if writes := strings.HasPrefix(way, "Set") || strings.HasPrefix(way, "Update"); writes != (err != nil) {
						t.Errorf("it returned %v", err)
					}
					if keeps(t, c) || keeps(t, lab.Instance(t, s, options)) {
						t.Error("what has no tags that could be is kept")
					}
				})
			})
		}
	}
}

func TestTagsOfOptionsNeedATierThatHasThem(t *testing.T) {
	s := lab.NewShared()
	_, err := strata.New(strata.Options[string, int64]{
		Name: "test", TTL: time.Minute, Tags: func(string, int64) []string { return nil },
		Remote: strata.Remote[string, int64]{Tier: newTagless(s)},
	})
	if err == nil || !strings.Contains(err.Error(), "Tags: ") {
		t.Errorf("New returned %v", err)
	}
}

func TestEntriesOfASetManyHaveTheirOwnTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.Instance(t, lab.NewShared(), func(o *strata.Options[string, int64]) {
			o.Tags = func(key string, _ int64) []string { return []string{key} }
		})
		all := map[string]int64{"a": 1, "b": 2, "c": 3, "d": 4}
		for dropped := range all {
			lab.Must(t, c.SetMany(t.Context(), all))
			lab.Must(t, c.InvalidateTags(t.Context(), dropped))
			for key := range all {
				if _, ok := c.Get(t.Context(), key); ok == (key == dropped) {
					t.Errorf("%s is there: %v after a drop of the tag %s", key, ok, dropped)
				}
			}
		}
	})
}
