package agreement_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// inBytes gives a cache an encoded L1, and its values a life of an hour.
func inBytes(o *strata.Options[string, int64]) { o.Memory.Encoded, o.TTL = true, time.Hour }

// TestTagsDroppedWhileL2IsDownEndEntriesOfAnEncodedL1 drops, or expires, the tag of entries in encoded L1s. L2 does
// not confirm that.
func TestTagsDroppedWhileL2IsDownEndEntriesOfAnEncodedL1(t *testing.T) {
	for _, soft := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, ctx := lab.NewTagged(t), t.Context()
			var down atomic.Bool
			a := lab.Instance(t, s, inBytes, func(o *strata.Options[string, int64]) { o.Remote.Tier = lab.Failing(s.Tier, "DropTags", &down) })
			b := lab.Instance(t, s, inBytes)
			lab.Must(t, b.Set(ctx, "k", 1, strata.WithTags("t", "u")))
			lab.Must(t, b.Set(ctx, "other", 1, strata.WithTags("u")))
			synctest.Wait()
			present(t, a, "k", "other")
			hitMany(t, a, "k", 1)
			drop := a.InvalidateTags
			if soft {
				drop = a.ExpireTags
			}
			down.Store(true)
			var pending *strata.RemoteError
			if err := drop(ctx, "t"); !errors.As(err, &pending) || pending.Pending != 1 {
				t.Fatalf("soft %v: %v, want *RemoteError with 1 pending", soft, err)
			}
			lab.WantAbsent(t, "who called", a)
			hitMany(t, a, "other", 1)
			var info strata.Info
			v, err := a.GetOrLoad(ctx, "k", lab.DownLoad, strata.ReadInfo(&info))
			if served := err == nil && v == 1 && info.Stale; served != soft {
				t.Errorf("soft %v: %d, %v, %+v from an origin that is down", soft, v, err, info)
			}
			down.Store(false)
			time.Sleep(10 * time.Second) // in the bubble: the drop is repeated
			if n := a.Stats().Pending; n != 0 {
				t.Errorf("soft %v: %d drops are pending", soft, n)
			}
			for who, c := range map[string]*strata.Cache[string, int64]{"who called": a, "another instance": b, "a cold instance": lab.Instance(t, s, inBytes)} {
				lab.WantAbsent(t, who, c)
				if v, ok := c.Get(ctx, "other"); v != 1 || !ok {
					t.Errorf("soft %v: %s has %d, %v of another tag", soft, who, v, ok)
				}
			}
		})
	}
}

// TestBatchOverAnEncodedL1HasStaleValuesAtItsSoftTimeout has values in L1, and in L2 alone. Then a batch has a key without any
// value, and waits for it.
func TestBatchOverAnEncodedL1HasStaleValuesAtItsSoftTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx, o := lab.NewShared(), t.Context(), &lab.Origin{Takes: time.Second}
		softly := func(o *strata.Options[string, int64]) { o.Limits.SoftTimeout = 100 * time.Millisecond }
		a, b := lab.Instance(t, s, inBytes, softly), lab.Instance(t, s, inBytes, softly)
		lab.Must(t, a.SetMany(ctx, map[string]int64{"a": 1, "b": 1, "c": 1}))
		synctest.Wait()
		present(t, b, "a", "b")
		lab.Must(t, a.Expire(ctx, "a", "c"))
		lab.Must(t, a.ExpireAll(ctx)) // b as well
		synctest.Wait()
		o.Value.Store(2)
		wants := func(want map[string]int64, takes time.Duration, keys ...string) {
			t.Helper()
			begun := time.Now()
			got, err := b.GetMany(ctx, keys, func(ctx context.Context, keys []string) (map[string]int64, error) {
				v, err := o.Load(ctx, "")
				all := map[string]int64{}
				for _, k := range keys {
					all[k] = v
				}
				return all, err
			})
			if took := time.Since(begun); err != nil || !maps.Equal(got, want) || took != takes {
				t.Errorf("got %v, %v after %v; want %v after %v", got, err, took, want, takes)
			}
		}
		wants(map[string]int64{"a": 1, "b": 1, "c": 1}, 100*time.Millisecond, "a", "b", "c")
		wants(map[string]int64{"a": 2, "b": 2, "d": 2}, time.Second, "a", "b", "d")
		time.Sleep(time.Second)
		wants(map[string]int64{"a": 2, "b": 2, "c": 2, "d": 2}, 0, "a", "b", "c", "d")
	})
}

// TestOutageOfL2UndoesNoDropOfAnEncodedL1 has an instance without L2 drop a key, and hear of another drop. Batches and hits go on.
func TestOutageOfL2UndoesNoDropOfAnEncodedL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, ctx, keys := lab.NewShared(), &lab.Patient{}, t.Context(), lab.ManyKeys(20)
		a, c := lab.Instance(t, s, inBytes), lab.IllInstance(t, s, p, inBytes)
		old, anew := &lab.Origin{}, &lab.Origin{}
		anew.Value.Store(1)
		for _, k := range keys {
			lab.MustGet(t, c, k, old.Load)
		}
		wants := func(when string, c *strata.Cache[string, int64], loads int64) {
			t.Helper()
			before := anew.Loads.Load()
			got, err := c.GetMany(ctx, keys, lab.EachOf(anew.Load))
			if n := anew.Loads.Load() - before; err != nil || len(got) != len(keys) || n != loads {
				t.Errorf("%s: %d of %d values with %d loads, want %d; %v", when, len(got), len(keys), n, loads, err)
			}
			for i, k := range keys {
				if dropped := i < 2; got[k] == 1 != dropped {
					t.Errorf("%s: %s is %d", when, k, got[k])
				}
			}
		}
		p.Fails.Store(true)
		if err := c.Invalidate(ctx, keys[0]); err == nil {
			t.Fatal("confirmed by an L2 that is down")
		}
		lab.Must(t, a.Invalidate(ctx, keys[1]))
		synctest.Wait()
		wants("without L2", c, 2)
		wants("again", c, 0)
		p.Fails.Store(false)
		wants("L2 is back", c, 0)
		time.Sleep(20 * time.Second) // in the bubble: the drop is repeated, and the breaker closes
		if n := c.Stats().Pending; n != 0 {
			t.Errorf("%d drops are pending", n)
		}
		for _, k := range keys[:2] {
			if v, ok := a.Get(ctx, k); ok && v != 1 {
				t.Errorf("another instance has %d of %s", v, k)
			}
		}
		wants("later", c, 1) // of the key that was dropped once more
		wants("another instance", a, 1)
	})
}

// walks are the ways to see the entries of a cache, with their values as texts. It is read-only.
var walks = map[string]func(t *testing.T, c *strata.Cache[string, int64], seen func(key, value string)){
	"All": func(_ *testing.T, c *strata.Cache[string, int64], seen func(key, value string)) {
		for k, v := range c.All() {
			seen(k, strconv.FormatInt(v, 10))
		}
	},
	"Keys": func(_ *testing.T, c *strata.Cache[string, int64], seen func(key, value string)) {
		for k := range c.Keys() {
			seen(k, k)
		}
	},
	"snapshot": func(t *testing.T, c *strata.Cache[string, int64], seen func(key, value string)) {
		d, err := transfer.Parts(c.Inside()).Source().Dump(t.Context(), 0, 1)
		lab.Must(t, err)
		defer d.Close()
		for e, value := range d.Entries() {
			v, err := value(nil)
			lab.Must(t, err)
			seen(string(e.Key), string(v))
		}
	},
}

// TestWalkOfAnEncodedL1GoesOnOverTune makes L1 smaller and larger in the loop of a walk, and of a snapshot.
func TestWalkOfAnEncodedL1GoesOnOverTune(t *testing.T) {
	for name, walk := range walks {
		for _, first := range []int64{256 << 10, 512 << 10, 768 << 10, 1 << 20, 1280 << 10, 1536 << 10} {
			t.Run(fmt.Sprint(name, first>>10), func(t *testing.T) { walkTuned(t, walk, first) })
		}
	}
}

// walkTuned makes L1 as small as first, and half of that, in the loop of walk.
func walkTuned(t *testing.T, walk func(t *testing.T, c *strata.Cache[string, int64], seen func(key, value string)), first int64) {
	const keys = 20_000
	c := lab.NewCache(t, inBytes, func(o *strata.Options[string, int64]) { o.Memory.MaxWeight = 8 << 20 })
	for i := range keys {
		lab.Must(t, c.Set(t.Context(), strconv.Itoa(i), int64(i)))
	}
	times := map[string]int{}
	walk(t, c, func(key, value string) {
		if times[key]++; key != value || times[key] > 1 {
			t.Fatalf("%s is %s, and was seen %d times", key, value, times[key])
		}
		if n := len(times); n%500 == 100 {
			lab.Tune(t, c, strata.Tuning{MaxWeight: new([]int64{first, 8 << 20, first / 2, 4 << 20}[n/500%4])})
		}
	})
	left := 0
	for i := range keys {
		k := strconv.Itoa(i)
		v, ok := c.Get(t.Context(), k)
		if !ok {
			continue
		}
		if left++; times[k] != 1 || v != int64(i) {
			t.Errorf("%s is %d, and was seen %d times", k, v, times[k])
		}
	}
	if left == 0 || left == keys || len(times) <= 600 {
		t.Errorf("%d of %d entries are left, %d were seen", left, keys, len(times))
	}
}

// TestWalkOfAnEncodedL1GoesOnBesideWriters has goroutines store and drop other keys, of many lengths,
// during walks and snapshots. The keys that stay are seen once each, and no key with the value of another.
func TestWalkOfAnEncodedL1GoesOnBesideWriters(t *testing.T) {
	for name, walk := range walks {
		t.Run(name, func(t *testing.T) {
			const keys = 10_000
			c := lab.NewCache(t, inBytes, func(o *strata.Options[string, int64]) { o.Memory.MaxWeight = 128 << 20 })
			for i := range keys {
				lab.Must(t, c.Set(t.Context(), strconv.Itoa(i), int64(i)))
			}
			ctx, stop := context.WithCancel(t.Context())
			var writers sync.WaitGroup
			defer writers.Wait()
			defer stop()
			for w := range 3 {
				writers.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						// Leading zeros make keys of many lengths with one value.
						v := keys + (i*7+w)%5000
						key := strings.Repeat("0", i%300+1) + strconv.Itoa(v)
						lab.Must(t, c.Set(t.Context(), key, int64(v)))
						if i%3 > 0 {
							lab.Must(t, c.Invalidate(t.Context(), key))
						}
					}
				})
			}
			for range 5 {
				times := map[string]int{}
				walk(t, c, func(key, value string) {
					if times[key]++; strings.TrimLeft(key, "0") != strings.TrimLeft(value, "0") {
						t.Errorf("%s is %s", key, value)
					}
				})
				for i := range keys {
					if k := strconv.Itoa(i); times[k] != 1 {
						_, ok := c.Get(t.Context(), k)
						t.Fatalf("%s, which was there all the time (%t), was seen %d times", k, ok, times[k])
					}
				}
			}
		})
	}
}
