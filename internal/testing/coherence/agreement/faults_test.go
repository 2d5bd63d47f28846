package agreement_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// narrow is a tier that holds no key over 100 bytes and no value over 100.
type narrow struct{ *stratatest.Tier }

func (n narrow) Bind(s remote.Space) remote.Tier { return narrow{n.Tier.Bind(s).(*stratatest.Tier)} }

func (n narrow) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	for i := range d {
		if len(d[i].Key) > 100 {
			return nil, remote.ErrKeyTooLong
		}
	}
	return n.Tier.Drop(ctx, d)
}

func (n narrow) Put(ctx context.Context, p []remote.Put) ([]int, error) {
	for i := range p {
		if len(p[i].Data) > 100 {
			return nil, remote.ErrValueTooLarge
		}
	}
	return n.Tier.Put(ctx, p)
}

func (n narrow) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	for _, k := range keys {
		if len(k) > 100 {
			return nil, remote.ErrKeyTooLong
		}
	}
	return n.Tier.Get(ctx, keys, known...)
}

func (n narrow) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	for i := range r {
		if len(r[i].Key) > 100 {
			return nil, remote.ErrKeyTooLong
		}
	}
	return n.Tier.Acquire(ctx, r, d)
}

func TestKeyThatL2CannotHoldIsDroppedOnOtherInstancesToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		bus := s.Bus.Connect()
		tier := func(o *strata.Options[string, int64]) { o.Remote.Tier, o.TTL = narrow{s.Tier}, time.Hour }
		a := lab.Instance(t, s, tier)
		b := lab.Instance(t, s, tier, func(o *strata.Options[string, int64]) { o.Remote.Bus = bus })
		key, o := strings.Repeat("x", 101), &lab.Origin{}
		synctest.Wait()
		for i := range int64(2) {
			lab.MustGet(t, b, key, o.Load)
			o.Value.Store(i + 1)
			if i == 1 {
				bus.Lose(1)
			}
			if err := a.Invalidate(t.Context(), key); !errors.Is(err, remote.ErrKeyTooLong) {
				t.Error(err)
			}
			if synctest.Wait(); i == 1 {
				time.Sleep(strata.UnconfirmedTTL) // in the bubble: no instance can tell that it was lost
			}
			if v := lab.MustGet(t, b, key, o.Load); v != i+1 {
				t.Errorf("%d, want %d; the message was lost: %v", v, i+1, i == 1)
			}
		}
	})
}

func TestKeyThatL2CannotHoldKeepsNoOtherOfItsBatchFromL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		tier := func(o *strata.Options[string, int64]) { o.Remote.Tier = narrow{s.Tier} }
		keys := []string{"a", "b", strings.Repeat("x", 101), "c"}
		var asked []string
		load := func(_ context.Context, keys []string) (map[string]int64, error) {
			asked = append(asked, keys...)
			all := map[string]int64{}
			for _, k := range keys {
				all[k] = 1
			}
			return all, nil
		}
		for range 2 {
			if all, err := lab.Instance(t, s, tier).GetMany(t.Context(), keys, load); err != nil || len(all) != len(keys) {
				t.Error(all, err)
			}
		}
		if len(asked) != len(keys)+1 || asked[len(keys)] != keys[2] {
			t.Errorf("loaded %d keys, want all four and then the one that L2 cannot hold", len(asked))
		}
	})
}

func TestKeyThatL2CannotHoldIsNotPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier, o.TTL = narrow{s.Tier}, time.Hour })
		b := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.TTL = time.Hour })
		o := &lab.Origin{}
		lab.MustGet(t, b, "k", o.Load)
		lab.MustGet(t, b, "dropped", o.Load)
		var remoteErr *strata.RemoteError
		err := a.Invalidate(t.Context(), strings.Repeat("x", 101), "dropped")
		if !errors.As(err, &remoteErr) || !errors.Is(err, remote.ErrKeyTooLong) || remoteErr.Pending != 0 {
			t.Errorf("got %v, want ErrKeyTooLong with 0 pending", err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if _, ok := b.Get(t.Context(), "k"); !ok {
			t.Error("another key went with it")
		}
		if _, ok := b.Get(t.Context(), "dropped"); ok {
			t.Error("the key beside it was not dropped")
		}
	})
}

func TestValueThatL2CannotHoldLetsTheNextInstanceLoadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		tier := func(o *strata.Options[string, string]) { o.Remote.Tier = narrow{s.Tier} }
		a, b := lab.Instance(t, s, tier), lab.Instance(t, s, tier)
		large := func(context.Context, string) (string, error) { return strings.Repeat("x", 200), nil }
		start := time.Now()
		for _, c := range []*strata.Cache[string, string]{a, b} {
			if _, err := c.GetOrLoad(t.Context(), "k", large); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the second waited %v for a lease", took)
		}
		if st := a.Stats(); st.EncodeErrors != 1 || st.L2.Errors != 0 {
			t.Errorf("%d refused values and %d errors counted, want 1, 0", st.EncodeErrors, st.L2.Errors)
		}
	})
}

func TestTagsOptionLooksForTagsThroughWrappers(t *testing.T) {
	none := func(string, string) (time.Duration, error) { return 0, nil }
	tags := func(string, int) []string { return nil }
	for name, tier := range map[string]remote.Tier{"tags": stratatest.NewTier(), "no tags": struct{ remote.Tier }{stratatest.NewTier()}} {
		c, err := strata.New(strata.Options[string, int]{
			Name: "n", TTL: time.Minute, Tags: tags, Remote: strata.Remote[string, int]{Tier: stratatest.FaultyTier(tier, none)},
		})
		if err == nil {
			c.Close(t.Context())
		}
		if refused := err != nil && strings.Contains(err.Error(), "remote.Tagger"); refused != (name == "no tags") {
			t.Errorf("%s: New: %v", name, err)
		}
	}
}

func TestUpdateThatStoresNothingDropsTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		o := &lab.Origin{}
		err := a.Update(t.Context(), "k", func(context.Context) (int64, error) {
			synctest.Wait()
			lab.MustGet(t, b, "k", o.Load)
			o.Value.Store(9)
			return 9, nil
		}, strata.WithTTL(-1))
		if err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if v := lab.MustGet(t, b, "k", o.Load); v != 9 {
			t.Errorf("got %d, want 9", v)
		}
	})
}

func TestWeigherThatExitsDoesNotHoldUpTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Memory.MaxWeight = 10
			o.Memory.Weigh = func(string, int64) int64 { lab.ExitGoroutine(); return 1 }
		})
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if v, err := c.GetOrLoad(ctx, "k", lab.PlainLoad); v != 1 || err != nil {
				t.Errorf("got %d, %v", v, err)
			}
			cancel()
		}
	})
}

func TestWeigherThatExitsHoldsUpNoKeyOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Memory.MaxWeight = 10
			o.Memory.Weigh = func(string, int64) int64 { lab.ExitGoroutine(); return 1 }
		})
		keys := []string{"a", "b", "c"}
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			got, err := c.GetMany(ctx, keys, func(_ context.Context, keys []string) (map[string]int64, error) {
				all := make(map[string]int64)
				for _, k := range keys {
					all[k] = 1
				}
				return all, nil
			})
			if len(got) != len(keys) || err != nil {
				t.Errorf("got %v, %v", got, err)
			}
			cancel()
		}
	})
}

// exiting is a codec whose Decode ends its goroutine.
type exiting struct{ codec.Codec[int64] }

func (exiting) Decode([]byte) (v int64, err error) { lab.ExitGoroutine(); return v, err }

func TestCodecThatExitsForAHookDoesNotHoldUpTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Memory = strata.Memory[string, int64]{Encoded: true}
			o.Remote.Codec = exiting{codec.JSON[int64]()}
			o.Hooks = &strata.Hooks{Store: func(strata.Event) {}}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if v, err := c.GetOrLoad(ctx, "k", lab.PlainLoad); v != 1 || err != nil {
			t.Errorf("got %d, %v", v, err)
		}
	})
}

func TestValueThatIsNotKeptRemovesTheOlderOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		if err := c.Set(t.Context(), "k", 1); err != nil {
			t.Fatal(err)
		}
		if err := c.Expire(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		two := func(context.Context, string) (int64, error) { return 2, nil }
		if v, err := c.GetOrLoad(t.Context(), "k", two, strata.WithTTL(-1)); v != 2 || err != nil {
			t.Fatalf("got %d, %v", v, err)
		}
		down := errors.New("down")
		if v, err := c.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { return 0, down }); !errors.Is(err, down) {
			t.Errorf("got %d, %v: the value from before is served", v, err)
		}
	})
}

func TestPanicThatWrapsAnAnswerIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, answer := range []error{strata.ErrNotFound, strata.ErrNotModified} {
			c := lab.NewCache[string, int64](t)
			if err := c.Set(t.Context(), "k", 1); err != nil {
				t.Fatal(err)
			}
			if err := c.Expire(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			_, _ = c.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { panic(answer) })
			if r := c.Explain(t.Context(), "k"); !r.L1.Present || r.L1.Fresh > 0 {
				t.Errorf("%v: present %v, fresh %v; want the stale value as it was", answer, r.L1.Present, r.L1.Fresh)
			}
		}
	})
}

func TestLifeCountsFromTheEndOfTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var slow atomic.Bool
		slow.Store(true)
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.TTL = time.Second
			o.Remote.Tier = lab.Stalling(s.Tier, "Put", 90*time.Millisecond, &slow)
		})
		lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
		if left := c.Explain(t.Context(), "k").L1.Fresh; left != 910*time.Millisecond {
			t.Errorf("%v left after a put of 90ms, want 910ms", left)
		}
	})
}

func TestSilentBusCapsL1WithoutATierToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.TTL, o.Remote.Bus = time.Hour, bus })
		synctest.Wait()
		bus.Cut()
		synctest.Wait()
		lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
		if left := c.Explain(t.Context(), "k").L1.Left; left > strata.UnconfirmedTTL {
			t.Errorf("%v left while nobody is heard", left)
		}
	})
}

func TestCallersDeadlineIsNoFailureOfL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var slow atomic.Bool
		slow.Store(true)
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = lab.Stalling(s.Tier, "Get", time.Hour, &slow)
		})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
				c.GetOrLoad(ctx, "k", (&lab.Origin{}).Load)
			})
		}
		wg.Wait()
		if st := c.Stats(); st.L2.Errors != 0 {
			t.Errorf("%d errors of L2 counted", st.L2.Errors)
		}
	})
}

func TestQuantileIsNeverTooLow(t *testing.T) {
	var h strata.Histogram
	h.Buckets[1]++  // about 1µs
	h.Buckets[20]++ // about 1s
	if q := h.Quantile(0.99); q < time.Second {
		t.Errorf("p99 of 1µs and 1s is %v", q)
	}
	if q := (strata.Histogram{}).Quantile(0.5); q != 0 {
		t.Errorf("of nothing: %v", q)
	}
}
