package agreement_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// fillTagged stores entries that got the tags t and u in every way there is,
// one with the tag u alone, and one without tags.
func fillTagged(t *testing.T, c *strata.Cache[string, int64]) (withT []string) {
	t.Helper()
	ctx := t.Context()
	both := strata.WithTags("t", "u")
	lab.Must(t, c.Set(ctx, "set", 1, both))
	lab.Must(t, c.SetMany(ctx, map[string]int64{"set many": 1}, both))
	lab.Must(t, c.Update(ctx, "update", func(context.Context) (int64, error) { return 1, nil }, both))
	one := func(context.Context, string) (int64, error) { return 1, nil }
	_, err := c.GetOrLoad(ctx, "option", one, both)
	lab.Must(t, err)
	_, err = c.GetOrLoad(ctx, "loader", func(ctx context.Context, _ string) (int64, error) {
		strata.Loading(ctx).SetTags("t")
		strata.Loading(ctx).SetTags("u")
		return 1, nil
	})
	lab.Must(t, err)
	_, err = c.GetOrLoad(ctx, "option and loader", func(ctx context.Context, _ string) (int64, error) {
		strata.Loading(ctx).SetTags("t")
		return 1, nil
	}, strata.WithTags("u"))
	lab.Must(t, err)
	lab.Must(t, c.Set(ctx, "only u", 1, strata.WithTags("u")))
	lab.Must(t, c.Set(ctx, "none", 1))
	synctest.Wait()
	return []string{"set", "set many", "update", "option", "loader", "option and loader"}
}

// present returns which of keys a Get finds.
func present(t *testing.T, c *strata.Cache[string, int64], keys ...string) (found []string) {
	for _, k := range keys {
		if _, ok := c.Get(t.Context(), k); ok {
			found = append(found, k)
		}
	}
	return found
}

func TestInvalidateTagsReachesAllEntriesWithThemEverywhere(t *testing.T) {
	places := map[string]func(t *testing.T) (a, b, cold *strata.Cache[string, int64]){
		"L1, L2 and bus": func(t *testing.T) (a, b, cold *strata.Cache[string, int64]) {
			s := lab.NewTagged(t)
			return lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		},
		"a tier that does not announce": func(t *testing.T) (a, b, cold *strata.Cache[string, int64]) {
			s := lab.NewTagged(t)
			s.Tier.Announce(nil)
			return lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		},
		"L1 alone": func(t *testing.T) (a, b, cold *strata.Cache[string, int64]) {
			c := lab.NewCache[string, int64](t)
			return c, c, c
		},
	}
	for name, make := range places {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b, cold := make(t)
				keys := fillTagged(t, a)
				all := append(slices.Clone(keys), "only u", "none")
				if found := present(t, b, all...); !slices.Equal(found, all) {
					t.Fatalf("stored are %q", found)
				}
				lab.Must(t, a.InvalidateTags(t.Context(), "unknown", "t"))
				synctest.Wait()
				want := []string{"only u", "none"}
				for who, c := range map[string]*strata.Cache[string, int64]{"who called": a, "who heard": b, "who had nothing": cold} {
					if found := present(t, c, all...); !slices.Equal(found, want) {
						t.Errorf("%s still has %q; want %q", who, found, want)
					}
				}
				lab.Must(t, a.InvalidateTags(t.Context(), "u"))
				synctest.Wait()
				if found := present(t, b, all...); !slices.Equal(found, []string{"none"}) {
					t.Errorf("after the drop of the other tag there are %q", found)
				}
				if n := a.Stats().Invalidations; n != 3 {
					t.Errorf("%d invalidations counted, want 3", n)
				}
			})
		})
	}
}

func TestInvalidateTagsIsHeardWithoutATier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		busOnly := func(o *strata.Options[string, int64]) { o.Remote.Tier = nil }
		a, b := lab.Instance(t, s, busOnly), lab.Instance(t, s, busOnly)
		keys := fillTagged(t, b)
		lab.Must(t, a.InvalidateTags(t.Context(), "t"))
		synctest.Wait()
		if found := present(t, b, append(keys, "only u", "none")...); !slices.Equal(found, []string{"only u", "none"}) {
			t.Errorf("the other instance still has %q", found)
		}
	})
}

func TestExpireTagsKeepsStaleValuesForFailures(t *testing.T) {
	whole := func(s *lab.Shared) remote.Tier { return s.Tier }
	withoutRefresh := func(s *lab.Shared) remote.Tier { return lab.WithoutRefresh(s.Tier) }
	for _, tier := range []func(*lab.Shared) remote.Tier{whole, withoutRefresh} {
		synctest.Test(t, func(t *testing.T) { checkExpireTags(t, tier) })
	}
}

func checkExpireTags(t *testing.T, tier func(*lab.Shared) remote.Tier) {
	s := lab.NewTagged(t)
	with := func(o *strata.Options[string, int64]) { o.Remote.Tier = tier(s) }
	a, b := lab.Instance(t, s, with), lab.Instance(t, s, with)
	keys := fillTagged(t, a)
	present(t, b, append(slices.Clone(keys), "only u")...)
	lab.Must(t, a.ExpireTags(t.Context(), "t"))
	synctest.Wait()
	cold := lab.Instance(t, s, with)
	// The cold instance comes last: it has only the values that the loads of the others
	// have left in L2.
	for i, c := range []*strata.Cache[string, int64]{a, b, cold} {
		who := []string{"the caller", "another instance", "a cold instance"}[i]
		if found := present(t, c, append(slices.Clone(keys), "only u")...); !slices.Equal(found, []string{"only u"}) {
			t.Errorf("%s has fresh %q", who, found)
		}
		for _, k := range keys {
			var info strata.Info
			v, err := c.GetOrLoad(t.Context(), k, lab.Unavailable, strata.ReadInfo(&info))
			if v != 1 || err != nil || !info.Stale {
				t.Errorf("%s got %d, %v, stale %v for %q; want the stale 1", who, v, err, info.Stale, k)
			}
		}
		time.Sleep(time.Second) // of the bubble: a dropped value is gone by then
	}
	if v := lab.MustGet(t, b, "set", lab.NotModified(0)); v != 1 {
		t.Errorf("got %d, want the 1 that still holds", v)
	}
	for who, c := range map[string]*strata.Cache[string, int64]{"who loaded": b, "another": lab.Instance(t, s, with)} {
		if found := present(t, c, "set"); len(found) == 0 {
			t.Errorf("%s does not have what was not modified", who)
		}
	}
	lab.Must(t, a.InvalidateTags(t.Context(), "t"))
	synctest.Wait()
	if found := present(t, b, "set"); len(found) > 0 {
		t.Error("what was not modified has lost its tags")
	}
}

// TestRefreshAfterAnExpiryOfATagIsALoad has an instance refresh a key while another instance loads
// it, and a tag of the value expire meanwhile. The refresh waits for that value, and must load anew.
func TestRefreshAfterAnExpiryOfATagIsALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := lab.NewTagged(t), &lab.Origin{Takes: time.Second}
		load := func(ctx context.Context, key string) (int64, error) {
			v := o.Value.Load()
			strata.Loading(ctx).SetTags("t")
			_, err := o.Load(ctx, key)
			return v, err
		}
		with := func(opts *strata.Options[string, int64]) { opts.Loader = load }
		a, b := lab.Instance(t, s, with), lab.Instance(t, s, with)
		go func() { _, _ = a.GetOrLoad(t.Context(), "k", nil) }()
		synctest.Wait() // the load has begun
		o.Value.Store(2)
		lab.Must(t, b.ExpireTags(t.Context(), "t"))
		lab.Must(t, b.Refresh(t.Context(), "k"))
		synctest.Wait() // the refresh waits
		if v := lab.MustGet(t, b, "k", nil); v != 2 {
			t.Errorf("got %d, which a tag has expired before the call", v)
		}
	})
}

// slowReplacer is a tier with a delay of 10 ms, of the time of its bubble, for leases
// that replace fresh values and for drops.
type slowReplacer struct{ remote.Tier }

func (r slowReplacer) Unwrap() remote.Tier                { return r.Tier }
func (r slowReplacer) Wrap(inner remote.Tier) remote.Tier { return slowReplacer{inner} }

func (r slowReplacer) Acquire(ctx context.Context, requests []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	if requests[0].Replace != 0 {
		time.Sleep(10 * time.Millisecond) // of the bubble
	}
	return r.Tier.Acquire(ctx, requests, d)
}

func (r slowReplacer) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	time.Sleep(10 * time.Millisecond) // of the bubble
	return r.Tier.Drop(ctx, d)
}

// TestLateReadOfAnEntryThatATagExpiredCostsNoLoad has an instance find a value that a
// tag has expired, and be slow to ask for the lease: another instance gets the lease
// first.
func TestLateReadOfAnEntryThatATagExpiredCostsNoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewTagged(t)
		a := lab.Instance[string, int64](t, s)
		late := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = slowReplacer{s.Tier} })
		lab.Must(t, a.Set(t.Context(), "k", 1, strata.WithTags("t")))
		lab.Must(t, a.ExpireTags(t.Context(), "t"))
		synctest.Wait()
		o := &lab.Origin{Takes: time.Second}
		var wg sync.WaitGroup
		for _, c := range []*strata.Cache[string, int64]{late, a} {
			wg.Go(func() { lab.MustGet(t, c, "k", o.Load) })
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		if n := o.Loads.Load(); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
	})
}

// TestNotModifiedKeepsTheTagsOfTheValueThatHolds shows the Loader a value from
// L1, while L2 has another, unusable value. The tags are the tags of the value from L1.
func TestNotModifiedKeepsTheTagsOfTheValueThatHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewTagged(t)
		ear := s.Bus.Connect()
		a := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Bus = ear })
		b := lab.Instance[string, int64](t, s)
		lab.Must(t, a.Set(t.Context(), "k", 1, strata.WithTags("mine")))
		lab.Must(t, a.Expire(t.Context(), "k"))
		synctest.Wait()
		ear.Lose(100) // so that a keeps its stale value
		lab.Must(t, b.Set(t.Context(), "k", 2, strata.WithTags("other")))
		lab.Must(t, b.InvalidateTags(t.Context(), "other"))
		if v := lab.MustGet(t, a, "k", lab.NotModified(0)); v != 1 {
			t.Fatalf("the scenario does not come about: got %d", v)
		}
		ear.Lose(0)
		lab.Must(t, b.InvalidateTags(t.Context(), "mine"))
		synctest.Wait()
		lab.WantAbsent(t, "an instance without L1", lab.Instance[string, int64](t, s))
		lab.WantAbsent(t, "the instance that loaded", a)
	})
}

// TestHitsOfTaggedEntriesAskNoTier counts the questions to L2 while tagged entries are
// read and tags of other entries are dropped.
func TestHitsOfTaggedEntriesAskNoTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewTagged(t)
		var asked atomic.Int64
		counting := stratatest.FaultyTier(s.Tier, func(op, _ string) (time.Duration, error) {
			if op == "Get" || op == "Tags" {
				asked.Add(1)
			}
			return 0, nil
		})
		a, b := lab.Instance[string, int64](t, s), lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = counting })
		lab.Must(t, a.Set(t.Context(), "k", 1, strata.WithTags("t")))
		synctest.Wait()
		lab.WantHeld(t, "b", b, 1)
		if n := asked.Load(); n != 2 {
			t.Errorf("the first read asked %d times, want 2: for the value and for its tags", n)
		}
		for range 100 {
			lab.WantHeld(t, "b", b, 1)
			lab.Must(t, a.InvalidateTags(t.Context(), "other"))
			synctest.Wait()
		}
		if n := asked.Load(); n != 2 || b.Stats().L1.Hits != 100 {
			t.Errorf("100 hits asked %d times; %d were counted", n-2, b.Stats().L1.Hits)
		}
	})
}

func TestTagsThatCannotBeAreRefused(t *testing.T) {
	var many []string
	for i := range 65 {
		many = append(many, strings.Repeat("t", i+1))
	}
	bad := map[string][]string{
		"empty": {"t", ""}, "too long": {strings.Repeat("t", 513)}, "too many": many,
	}
	for name, tags := range bad {
		for _, l2 := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewTagged(t)
				c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
					if l2 {
						o.Remote.Tier = s.Tier
					}
				})
				ctx, with := t.Context(), strata.WithTags(tags...)
				loads := 0
				load := func(ctx context.Context, _ string) (int64, error) {
					loads++
					strata.Loading(ctx).SetTags(tags...)
					return 1, nil
				}
				_, err := c.GetOrLoad(ctx, "k", load, with)
				wrote := false
				calls := map[string]error{
					"GetOrLoad": err,
					"Set":       c.Set(ctx, "k", 1, with),
					"SetMany":   c.SetMany(ctx, map[string]int64{"k": 1}, with),
					"Update":    c.Update(ctx, "k", func(context.Context) (int64, error) { wrote = true; return 1, nil }, with),
				}
				if name != "too many" {
					calls["InvalidateTags"] = c.InvalidateTags(ctx, tags...)
					calls["ExpireTags"] = c.ExpireTags(ctx, tags...)
				}
				for call, err := range calls {
					if remoteErr := (*strata.RemoteError)(nil); err == nil || errors.As(err, &remoteErr) {
						t.Errorf("%s, L2 %v: %s returned %v", name, l2, call, err)
					}
				}
				if loads != 0 || wrote || c.Stats().Invalidations != 0 {
					t.Errorf("%s, L2 %v: %d loads, written %v, %d invalidations; want nothing done", name, l2, loads, wrote, c.Stats().Invalidations)
				}
				// A Loader is not told: its value is good, but is not kept.
				if v := lab.MustGet(t, c, "k", load); v != 1 {
					t.Errorf("%s, L2 %v: the Loader's callers got %d, want 1", name, l2, v)
				}
				lab.WantAbsent(t, name, c)
				if n := c.Stats().EncodeErrors; n != 1 {
					t.Errorf("%s, L2 %v: %d encode errors, want 1", name, l2, n)
				}
			})
		}
	}
}

// tagless is a tier without tags. It is bound already.
type tagless struct{ remote.Tier }

func newTagless(s *lab.Shared) tagless {
	return tagless{s.Tier.Bind(remote.Space{Name: "test", Schema: 1, Instance: 1})}
}

func TestTagsWithATierThatHasNoneAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Remote.Tier = newTagless(s) })
		ctx, with := t.Context(), strata.WithTags("t")
		o := &lab.Origin{}
		_, err := c.GetOrLoad(ctx, "k", o.Load, with)
		for call, err := range map[string]error{
			"GetOrLoad":      err,
			"Set":            c.Set(ctx, "k", 1, with),
			"Update":         c.Update(ctx, "k", func(context.Context) (int64, error) { return 1, nil }, with),
			"InvalidateTags": c.InvalidateTags(ctx, "t"),
			"ExpireTags":     c.ExpireTags(ctx, "t"),
		} {
			if err == nil || !strings.Contains(err.Error(), "remote.Tagger") {
				t.Errorf("%s returned %v", call, err)
			}
		}
		lab.WantAbsent(t, "the cache", c)
		load := func(ctx context.Context, _ string) (int64, error) {
			strata.Loading(ctx).SetTags("t")
			return 1, nil
		}
		if v := lab.MustGet(t, c, "k", load); v != 1 || o.Loads.Load() != 0 {
			t.Errorf("got %d, %d loads with tags that cannot be", v, o.Loads.Load())
		}
		lab.WantAbsent(t, "an entry with tags that cannot be dropped is kept: the cache", c)
	})
}

func TestTagDropThatL2DidNotConfirmIsAppliedHereAndTriedAgain(t *testing.T) {
	for _, soft := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewTagged(t)
			var down atomic.Bool
			a := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = lab.Failing(s.Tier, "DropTags", &down) })
			b := lab.Instance[string, int64](t, s)
			lab.Must(t, b.Set(t.Context(), "k", 1, strata.WithTags("t")))
			lab.Must(t, b.Set(t.Context(), "other", 1, strata.WithTags("u")))
			synctest.Wait()
			drop := a.InvalidateTags
			if soft {
				drop = a.ExpireTags
			}
			down.Store(true)
			var pending *strata.RemoteError
			if err := drop(t.Context(), "t"); !errors.As(err, &pending) || pending.Pending != 1 {
				t.Fatalf("soft %v: %v, want *RemoteError with 1 pending", soft, err)
			}
			lab.WantAbsent(t, "who called, by way of L2", a)
			if _, ok := a.Get(t.Context(), "other"); !ok {
				t.Errorf("soft %v: what carries another tag is not read from L2", soft)
			}
			o := &lab.Origin{}
			o.Value.Store(2)
			if v := lab.MustGet(t, a, "k", o.Load); v != 2 {
				t.Errorf("soft %v: got %d from L2, want 2 past it", soft, v)
			}
			down.Store(false)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if v := lab.MustGet(t, b, "k", o.Load); v != 2 || a.Stats().Pending != 0 {
				t.Errorf("soft %v: the other instance got %d with %d pending; want 2 with 0", soft, v, a.Stats().Pending)
			}
		})
	}
}
