package castier_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
)

// putTagged stores a value with a tag.
func putTagged(t *testing.T, tier *castier.Tier, key string, l remote.Lease, tag string) {
	t.Helper()
	refused, err := tier.Put(t.Context(), []remote.Put{{Key: key, Data: []byte("v"), Fresh: time.Minute, Left: time.Hour, Lease: l, Tags: []string{tag}}})
	if err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
}

// TestValueWithANewTagOutlivesDropsOfOtherTags stores values with tags never used before, or
// used by a later load first, while an instance drops other tags during their loads.
func TestValueWithANewTagOutlivesDropsOfOtherTags(t *testing.T) {
	for _, servers := range []int{1, 3} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprint("servers=", servers, "/plain=", plain), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { storesBesideDrops(t, servers, plain) })
			})
		}
	}
}

func storesBesideDrops(t *testing.T, servers int, plain bool) {
	m, tier := open(t, servers)
	m.Plain = plain
	other := another(m)
	dropTags(t, other, false, "first")
	time.Sleep(4 * time.Second) // in the bubble: the first drop has taken the clock ahead of the time
	for i := range 200 {
		key, tag := fmt.Sprint("key", i), fmt.Sprint("tag", i)
		lease := acquire(t, tier, key).Lease
		for n := range i % 8 {
			dropTags(t, other, n%2 == 0, fmt.Sprint("other", n))
		}
		if i%3 == 0 {
			second := acquire(t, other, "second"+key).Lease
			putTagged(t, other, "second"+key, second, tag)
		}
		putTagged(t, tier, key, lease, tag)
		for _, is := range []remote.Tag{tagsOf(t, tier, tag), tagsOf(t, another(m), tag)} {
			if is.Dropped > lease.Clock || is.Expired > lease.Clock {
				t.Fatalf("%s after %d drops: %+v, and the value has clock %d", tag, i%8, is, lease.Clock)
			}
		}
		time.Sleep(time.Duration(i%50) * 100 * time.Millisecond) // in the bubble
	}
}

// TestValuesOfABatchShareTheirNewTags stores two values with leases from before and behind the drop of
// another tag, and then from before and behind a drop of theirs that is lost.
func TestValuesOfABatchShareTheirNewTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, tier := open(t, 2)
		other := another(m)
		dropTags(t, other, false, "first")
		time.Sleep(4 * time.Second) // in the bubble: the first drop has taken the clock ahead of the time
		for _, dropped := range []string{"another", "shared"} {
			tags := []string{"shared", "own of " + dropped}
			before := acquire(t, tier, "before "+dropped).Lease
			dropTags(t, other, false, dropped)
			m.Lose(func(key string) bool { return strings.HasSuffix(key, ":tshared") })
			tier.Recheck()
			behind := acquire(t, tier, "behind "+dropped).Lease
			puts := []remote.Put{
				{Key: "before " + dropped, Data: []byte("v"), Fresh: time.Minute, Left: time.Hour, Lease: before, Tags: tags},
				{Key: "behind " + dropped, Data: []byte("v"), Fresh: time.Minute, Left: time.Hour, Lease: behind, Tags: tags},
			}
			if refused, err := tier.Put(t.Context(), puts); err != nil || len(refused) > 0 {
				t.Fatal(refused, err)
			}
			is, own := tagsOf(t, another(m), "shared"), tagsOf(t, another(m), tags[1])
			if there := is.Dropped <= before.Clock; there != (dropped == "another") {
				t.Errorf("after a drop of %s the shared tag is %+v, and the earlier value has clock %d", dropped, is, before.Clock)
			}
			if own.Dropped > before.Clock || behind.Clock <= before.Clock {
				t.Errorf("after a drop of %s the own tag is %+v, the clocks are %d and %d", dropped, own, before.Clock, behind.Clock)
			}
		}
	})
}

// TestEntitiesWithNewTagsAreLoadedOnceBesideDropsOfOtherTags has loads take 300 ms, and an
// instance drop another tag each 100 ms.
func TestEntitiesWithNewTagsAreLoadedOnceBesideDropsOfOtherTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &duo{T: t}
		load := func(ctx context.Context, key string) (string, error) {
			time.Sleep(300 * time.Millisecond) // in the bubble
			strata.Loading(ctx).SetTags("tag:" + key)
			return d.load(ctx, key)
		}
		m := lab.NewModel(t, 2)
		var all []*strata.Cache[string, string]
		for range 3 {
			c, err := strata.New(strata.Options[string, string]{
				Name: "users", TTL: time.Hour, Loader: load, Remote: strata.Remote[string, string]{Tier: castier.NewFleet(m)},
			})
			d.must(err)
			all = append(all, c)
		}
		d.must(all[2].InvalidateTags(t.Context(), "first"))
		time.Sleep(4 * time.Second) // in the bubble: the first drop has taken the clock ahead of the time
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				d.must(all[2].InvalidateTags(t.Context(), fmt.Sprint("other", i)))
				time.Sleep(100 * time.Millisecond) // in the bubble
			}
		})
		time.Sleep(50 * time.Millisecond) // in the bubble: no load ends during a drop, which would count for all tags
		for i := range 30 {
			for _, c := range all {
				if v, err := c.GetOrLoad(t.Context(), fmt.Sprint("k", i), nil); err != nil || v != fmt.Sprint("k", i, " 0") {
					t.Errorf("%q, %v", v, err)
				}
			}
			d.loaded(1)
		}
		cancel()
		wg.Wait()
		for _, c := range all {
			d.must(c.Close(context.Background()))
		}
	})
}

// TestTagThatWasLostIsDroppedDespiteTheRecord loses the item of a tag after a drop during
// a load, and harms the record of recent drops, which the other drops during the load are in.
func TestTagThatWasLostIsDroppedDespiteTheRecord(t *testing.T) {
	record := func(key string) bool { return strings.HasSuffix(key, ":r") }
	for name, drop := range map[string]func(t *testing.T, m *lab.Model, other *castier.Tier){
		"is complete": func(t *testing.T, _ *lab.Model, other *castier.Tier) {
			dropTags(t, other, false, "t")
		},
		"is of a soft drop": func(t *testing.T, _ *lab.Model, other *castier.Tier) {
			dropTags(t, other, true, "t")
		},
		"is of many tags": func(t *testing.T, _ *lab.Model, other *castier.Tier) {
			if err := other.DropTags(t.Context(), append(many(200), "t"), false); err != nil {
				t.Fatal(err)
			}
		},
		"is full of later drops": func(t *testing.T, _ *lab.Model, other *castier.Tier) {
			dropTags(t, other, false, "t")
			for i := range 300 {
				dropTags(t, other, false, fmt.Sprint("later", i))
			}
		},
		"was lost": func(t *testing.T, m *lab.Model, other *castier.Tier) {
			dropTags(t, other, false, "t")
			m.Lose(record)
		},
		"lacks the drop of an earlier version": func(t *testing.T, m *lab.Model, other *castier.Tier) {
			lacks(m, func() { dropTags(t, other, false, "t") })
		},
		"was of a clock that was lost": func(t *testing.T, m *lab.Model, other *castier.Tier) {
			dropTags(t, other, false, "t")
			m.Lose(func(key string) bool { return strings.HasSuffix(key, ":c") })
		},
		"is damaged": func(t *testing.T, m *lab.Model, other *castier.Tier) {
			dropTags(t, other, false, "t")
			m.Each(0, func(key string, is *lab.ModelItem) {
				if record(key) {
					is.Data[rand.IntN(len(is.Data))] ^= 1 << rand.IntN(8)
				}
			})
		},
	} {
		for _, others := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "/others=", others), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m, tier := open(t, 1)
					other := another(m)
					dropTags(t, other, false, "first")
					time.Sleep(4 * time.Second) // in the bubble
					dropTags(t, other, false, "second")
					lease := acquire(t, tier, "k").Lease
					if others {
						dropTags(t, other, false, "before")
					}
					drop(t, m, other)
					if others {
						dropTags(t, other, false, "after")
					}
					m.Lose(func(key string) bool { return strings.HasSuffix(key, ":tt") })
					putTagged(t, tier, "k", lease, "t")
					if is := tagsOf(t, tier, "t"); is.Dropped <= lease.Clock {
						t.Errorf("%+v, and the value has clock %d", is, lease.Clock)
					}
				})
			})
		}
	}
}

func many(n int) (tags []string) {
	for i := range n {
		tags = append(tags, fmt.Sprint("many", i))
	}
	return tags
}

// lacks runs f, and takes the record of recent drops back to before.
func lacks(m *lab.Model, f func()) {
	each := func(f func(is *lab.ModelItem)) {
		m.Each(0, func(key string, is *lab.ModelItem) {
			if strings.HasSuffix(key, ":r") {
				f(is)
			}
		})
	}
	var before []byte
	each(func(is *lab.ModelItem) { before = slices.Clone(is.Data) })
	f()
	each(func(is *lab.ModelItem) { is.Data = before })
}

// TestNoDropOfATagIsLostWhateverIsLost has instances load and store values with tags, and drop tags,
// also between any two steps of a store, while items are lost at any time. Each drop stays later than
// the clocks of all leases from before it, by whatever instance.
func TestNoDropOfATagIsLostWhateverIsLost(t *testing.T) {
	kept := 0
	for seed := range uint64(1500) {
		synctest.Test(t, func(t *testing.T) { kept += losesTagsAtRandom(t, seed) })
	}
	if kept < 1000 {
		t.Errorf("only %d values with a tag made beside drops are there", kept)
	}
}

// tagLosses is a run of TestNoDropOfATagIsLostWhateverIsLost.
type tagLosses struct {
	*testing.T
	*rand.Rand
	m      *lab.Model
	tiers  []*castier.Tier
	latest uint64            // the latest clock of all leases so far
	before map[string]uint64 // the latest clock of the leases from before the last drop of a tag
	drops  int
}

func losesTagsAtRandom(t *testing.T, seed uint64) (kept int) {
	m := lab.NewModel(t, 1) // each step of a call is one of this goroutine
	x := &tagLosses{T: t, Rand: rand.New(rand.NewPCG(seed, 2)), m: m, before: map[string]uint64{}}
	for range 3 {
		// The instances know the server's time differently well.
		time.Sleep(time.Duration(x.IntN(1500)) * time.Millisecond) // in the bubble
		x.tiers = append(x.tiers, another(m))
		acquire(t, x.tiers[len(x.tiers)-1], "first")
	}
	for i := range 15 {
		tier, key, drops := x.tiers[x.IntN(3)], fmt.Sprint("k", i), x.drops
		if x.IntN(3) == 0 {
			tier.Recheck()
		}
		lease := acquire(t, tier, key).Lease
		x.latest = max(x.latest, lease.Clock)
		for range x.IntN(4) {
			x.disturb()
		}
		tag := fmt.Sprint("t", x.IntN(4))
		x.put(tier, key, lease, tag)
		is := tagsOf(t, another(m), tag)
		if before, ok := x.before[tag]; ok && is.Dropped <= before && is.Expired <= before {
			t.Fatalf("seed %d, load %d: %s is %+v, and a lease from before its drop has clock %d", seed, i, tag, is, before)
		}
		if is.Dropped <= lease.Clock && is.Expired <= lease.Clock && x.drops > drops {
			kept++
		}
	}
	return kept
}

// put stores a value with a tag, and disturbs the store after one of its steps.
func (x *tagLosses) put(tier *castier.Tier, key string, lease remote.Lease, tag string) {
	left, inside := x.IntN(12), false
	x.m.After = func(*lab.ModelCall) {
		if inside {
			return
		}
		if left--; left == 0 {
			inside = true
			x.disturb()
			inside = false
		}
	}
	putTagged(x.T, tier, key, lease, tag)
	x.m.After = nil
}

// disturb loses an item, drops a tag, or lets time pass.
func (x *tagLosses) disturb() {
	tag := fmt.Sprint("t", x.IntN(4))
	switch x.IntN(4) {
	case 0:
		lost := []string{":c", ":r", ":t" + tag, ":t" + tag, ":t" + tag}[x.IntN(5)]
		if lost == ":c" {
			time.Sleep(2 * time.Second) // in the bubble: no instance can know the time better
		}
		x.m.Lose(func(key string) bool { return strings.HasSuffix(key, lost) })
	case 1:
		x.drops++
		x.before[tag] = x.latest
		f := func() { dropTags(x.T, x.tiers[x.IntN(3)], x.IntN(3) == 0, tag) }
		if x.IntN(5) == 0 {
			lacks(x.m, f)
		} else {
			f()
		}
		if x.IntN(2) == 0 {
			x.m.Lose(func(key string) bool { return strings.HasSuffix(key, ":t"+tag) })
		}
	case 2:
		x.drops++
		dropTags(x.T, x.tiers[x.IntN(3)], false, fmt.Sprint("other", x.IntN(9)))
	default:
		time.Sleep(time.Duration(x.IntN(1500)) * time.Millisecond) // in the bubble
	}
}
