package loads_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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

func TestGetManyRefreshesEntriesThatAreStaleInL2Only(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		revalidates := func(o *strata.Options[int, int]) { o.Stale.WhileRevalidate = 20 * time.Second }
		a, b := lab.Instance(t, s, revalidates), lab.Instance(t, s, revalidates)
		if err := a.SetMany(t.Context(), map[int]int{1: 1, 2: 2}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Second)
		o := &manyOrigin{}
		got, err := b.GetMany(t.Context(), []int{1, 2}, o.load)
		if err != nil || got[1] != 1 || got[2] != 2 {
			t.Errorf("got %v, %v; want the stale values", got, err)
		}
		synctest.Wait()
		if n := len(o.calls); n != 1 {
			t.Errorf("%d loads began in the background, want 1", n)
		}
		for _, c := range []*strata.Cache[int, int]{a, b} {
			if _, ok := c.Get(t.Context(), 2); !ok {
				t.Error("nothing fresh after the refresh")
			}
		}
	})
}

func TestGetManyWithSkipReadCountsItsReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[int, int](t)
		o := &manyOrigin{}
		for range 2 { // absent, and then held
			if _, err := c.GetMany(t.Context(), []int{1, 2, 3}, o.load, strata.SkipRead()); err != nil {
				t.Fatal(err)
			}
		}
		if s := c.Stats(); s.Reads != 6 || s.L1.Misses != 6 || s.Flights != 6 {
			t.Errorf("%d reads, %d misses, %d flights; want 6 each", s.Reads, s.L1.Misses, s.Flights)
		}
	})
}

// spread is a tier that keeps each key on a server of its own.
type spread struct{ remote.Tier }

func (s spread) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	return kit.EachRequest(r, func(r remote.Request) (remote.Held, remote.Lease, error) {
		return kit.Refresh(ctx, s.Tier, r.Key, r.Replace, d)
	})
}

func TestBatchGivesBackLeasesBesideOneThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		one := stratatest.NewTier()
		faulty := stratatest.FaultyTier(one, func(op, key string) (time.Duration, error) {
			if op == "Acquire" && key == "2" && down.Load() {
				return 0, errors.New("down")
			}
			return 0, nil
		})
		alone := func(o *strata.Options[int, int]) { o.Remote.Tier = spread{faulty} }
		a, b := lab.NewCache(t, alone), lab.NewCache(t, alone)
		no := errors.New("no")
		_, err := a.GetMany(t.Context(), []int{1, 2, 3}, func(context.Context, []int) (map[int]int, error) { return nil, no })
		if !errors.Is(err, no) {
			t.Errorf("got %v, want the loader's error", err)
		}
		down.Store(false)
		start := time.Now()
		if _, err := b.GetMany(t.Context(), []int{1, 2, 3}, (&manyOrigin{}).load); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("another instance waited %v for leases that nobody used", took)
		}
	})
}

// tagCounter counts questions about tags.
type tagCounter struct {
	*stratatest.Tier
	asked *atomic.Int64
}

func (c tagCounter) Bind(s remote.Space) remote.Tier {
	return tagCounter{c.Tier.Bind(s).(*stratatest.Tier), c.asked}
}

func (c tagCounter) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	c.asked.Add(1)
	return c.Tier.Tags(ctx, tags)
}

func TestGetManyAsksForTheTagsOfAllItsValuesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var asked atomic.Int64
		a := lab.Instance[string, int64](t, s)
		b := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = tagCounter{s.Tier, &asked} })
		keys := []string{"a", "b", "c", "d", "plain"}
		for i, k := range keys[:4] {
			lab.Must(t, a.Set(t.Context(), k, 1, strata.WithTags("all", fmt.Sprint("tag ", i))))
		}
		lab.Must(t, a.Set(t.Context(), "plain", 1))
		lab.Must(t, a.InvalidateTags(t.Context(), "tag 1"))
		loaded := 0
		got, err := b.GetMany(t.Context(), keys, func(_ context.Context, keys []string) (map[string]int64, error) {
			loaded += len(keys)
			return map[string]int64{keys[0]: 2}, nil
		})
		if want := map[string]int64{"a": 1, "b": 2, "c": 1, "d": 1, "plain": 1}; !maps.Equal(got, want) || err != nil || loaded != 1 {
			t.Errorf("got %v, %v with %d loads; want %v and one load", got, err, loaded, want)
		}
		// One more question comes with the lease of the key with the dropped tag.
		if n := asked.Load(); n > 2 {
			t.Errorf("asked %d times about tags, want one question for the values of all keys", n)
		}
	})
}

// TestGetManyTakesABatchForEach500KeysThatL1DoesNotHave reads 1800 keys of which L1 has each
// third, and counts operations; then all are due for a refresh.
func TestGetManyTakesABatchForEach500KeysThatL1DoesNotHave(t *testing.T) {
	for _, tiers := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var sizes []int
			var asked sync.Mutex
			load := func(_ context.Context, keys []int) (map[int]int, error) {
				asked.Lock()
				defer asked.Unlock()
				sizes = append(sizes, len(keys))
				found := map[int]int{}
				for _, k := range keys {
					found[k] = -k
				}
				return found, nil
			}
			ops := map[string]int{}
			c := lab.NewCache(t, func(o *strata.Options[int, int]) {
				o.Stale.WhileRevalidate, o.ManyLoader = 20*time.Second, load
				if tiers {
					o.Remote.Tier = stratatest.FaultyTier(stratatest.NewTier(), func(op, _ string) (time.Duration, error) {
						asked.Lock()
						defer asked.Unlock()
						ops[op]++
						return 0, nil
					})
				}
			})
			keys, held := make([]int, 1800), map[int]int{}
			for i := range keys {
				if keys[i] = i; i%3 == 0 {
					held[i] = -i
				}
			}
			lab.Must(t, c.SetMany(t.Context(), held))
			clear(ops)
			found, err := c.GetMany(t.Context(), keys, nil)
			if err != nil || len(found) != len(keys) || found[1799] != -1799 {
				t.Fatalf("%d of %d values, %v", len(found), len(keys), err)
			}
			if !slices.Equal(sizes, []int{500, 500, 200}) {
				t.Errorf("calls of the loader for %v keys, want 500, 500 and 200", sizes)
			}
			for _, op := range []string{"Acquire", "Put"} {
				if tiers && ops[op] != 3 {
					t.Errorf("operations on L2: %v; want 3 of each", ops)
				}
			}
			time.Sleep(61 * time.Second)
			sizes = nil
			if found, err = c.GetMany(t.Context(), keys, nil); err != nil || len(found) != len(keys) {
				t.Fatalf("%d of %d stale values, %v", len(found), len(keys), err)
			}
			synctest.Wait()
			if slices.Sort(sizes); !slices.Equal(sizes, []int{300, 500, 500, 500}) {
				t.Errorf("refreshes of %v keys, want three of 500 and one of 300", sizes)
			}
		})
	}
}
