package loads_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// missing is an origin without keys. It counts its calls.
type missing struct{ asked atomic.Int64 }

func (m *missing) load(context.Context, string) (int64, error) {
	m.asked.Add(1)
	return 0, fmt.Errorf("no such row: %w", strata.ErrNotFound)
}

// findsNothing checks that c answers with ErrNotFound.
func findsNothing(t *testing.T, c *strata.Cache[string, int64], load strata.Loader[string, int64]) {
	t.Helper()
	if v, err := c.GetOrLoad(t.Context(), "k", load); !errors.Is(err, strata.ErrNotFound) {
		t.Errorf("got %d, %v; want ErrNotFound", v, err)
	}
}

func TestNotFoundIsRememberedForItsTTLInBothTiers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance(t, s, lab.Negatives), lab.Instance(t, s, lab.Negatives)
		m := &missing{}
		findsNothing(t, a, m.load)
		for _, c := range []*strata.Cache[string, int64]{a, b} {
			for range 3 {
				findsNothing(t, c, m.load)
				if v, ok := c.Get(t.Context(), "k"); ok {
					t.Errorf("Get found %d", v)
				}
			}
		}
		time.Sleep(20*time.Second - 1)
		findsNothing(t, a, m.load)
		findsNothing(t, b, m.load)
		if n := m.asked.Load(); n != 1 {
			t.Errorf("the origin was asked %d times in the TTL, want 1", n)
		}
		time.Sleep(1)
		findsNothing(t, a, m.load)
		if n := m.asked.Load(); n != 2 {
			t.Errorf("the origin was asked %d times after it, want 2", n)
		}
		if st := a.Stats(); st.L1.Hits != 0 || st.Loads.NotFound != 2 {
			t.Errorf("%d hits, %d not found; want 0, 2", st.L1.Hits, st.Loads.NotFound)
		}
	})
}

func TestNotFoundIsAFlagInL2AndNoPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance(t, s, lab.Negatives)
		findsNothing(t, c, (&missing{}).load)
		r := c.Explain(t.Context(), "k").L2
		if !r.NotFound || r.Present || r.Size != 0 || r.Fresh != 20*time.Second || r.Left != 20*time.Second {
			t.Errorf("%+v; want that not found is held for 20s", r)
		}
		schema := codec.Fingerprint(codec.JSON[int64]())
		held, err := s.Tier.Bind(remote.Space{Name: "test", Schema: schema}).Get(t.Context(), []string{"k"})
		if err != nil {
			t.Fatal(err)
		}
		if _, flags, err := envelope.Open(held[0].Data, "k", schema); err != nil || flags&envelope.NotFound == 0 {
			t.Errorf("flags %b, %v; want the flag for not found", flags, err)
		}
	})
}

func TestDefaultOfNotFoundTTLIsAQuarterOfTTLUpToThirtySeconds(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		8 * time.Second: 2 * time.Second, time.Hour: 30 * time.Second, strata.NoExpiry: 30 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.TTL, o.NotFoundTTL = ttl, 0 })
			m := &missing{}
			findsNothing(t, c, m.load)
			time.Sleep(want - 1)
			findsNothing(t, c, m.load)
			if n := m.asked.Load(); n != 1 {
				t.Errorf("TTL %v: asked %d times in %v", ttl, n, want)
			}
			time.Sleep(1)
			findsNothing(t, c, m.load)
			if n := m.asked.Load(); n != 2 {
				t.Errorf("TTL %v: not asked after %v", ttl, want)
			}
		})
	}
}

func TestLifeOfNegativeEntriesIsJittered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance(t, s, lab.Negatives, func(o *strata.Options[string, int64]) { o.Jitter = 0.5 })
		lives := map[time.Duration]bool{}
		for i := range 20 {
			key := fmt.Sprint(i)
			_, _ = c.GetOrLoad(t.Context(), key, (&missing{}).load)
			left := c.Explain(t.Context(), key).L2.Left
			if left > 20*time.Second || left < 10*time.Second {
				t.Errorf("%v, want 10s to 20s", left)
			}
			lives[left] = true
		}
		if len(lives) < 15 {
			t.Errorf("%d different lives of 20", len(lives))
		}
	})
}

func TestNotFoundIsNotRememberedIfItIsNotToBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		m := &missing{}
		for _, c := range []*strata.Cache[string, int64]{a, b, a} {
			findsNothing(t, c, m.load)
		}
		if n := m.asked.Load(); n != 3 {
			t.Errorf("asked %d times, want 3", n)
		}
	})
}

func TestKeysThatAreNotThereFlushNoRealData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 1000
		c := lab.NewCache(t, func(o *strata.Options[int, int]) { o.Memory.MaxEntries, o.NotFoundTTL = bound, time.Minute })
		nothing := func(context.Context, int) (int, error) { return 0, strata.ErrNotFound }
		values := map[int]int{}
		for k := range bound {
			values[k] = k
		}
		if err := c.SetMany(t.Context(), values); err != nil {
			t.Fatal(err)
		}
		// SetMany may have evicted a few entries already. The test is about the
		// ones that are left: they must all stay.
		before := c.Len()
		for i := range kit.Rounds(50 * bound) {
			if _, err := c.GetOrLoad(t.Context(), -1-i, nothing); !errors.Is(err, strata.ErrNotFound) {
				t.Fatal(err)
			}
		}
		if n := c.Len(); n != before || before < bound*9/10 {
			t.Errorf("%d entries of %d after many keys that are not there", n, before)
		}
		already := c.Stats().Remembered
		for i := range kit.Rounds(50 * bound) {
			c.Get(t.Context(), -1-i)
		}
		if n := c.Stats().Remembered - already; n == 0 || n > bound/10 {
			t.Errorf("%d keys that are not there are remembered, want %d at most", n, bound/10)
		}
	})
}

func TestWritesAndInvalidationsEndNotFoundEverywhere(t *testing.T) {
	for name, write := range map[string]func(*strata.Cache[string, int64], context.Context) error{
		"Set": func(c *strata.Cache[string, int64], ctx context.Context) error { return c.Set(ctx, "k", 5) },
		"SetMany": func(c *strata.Cache[string, int64], ctx context.Context) error {
			return c.SetMany(ctx, map[string]int64{"k": 5})
		},
		"Update": func(c *strata.Cache[string, int64], ctx context.Context) error {
			return c.Update(ctx, "k", func(context.Context) (int64, error) { return 5, nil })
		},
		"Invalidate": func(c *strata.Cache[string, int64], ctx context.Context) error { return c.Invalidate(ctx, "k") },
		"InvalidateHold": func(c *strata.Cache[string, int64], ctx context.Context) error {
			return c.InvalidateHold(ctx, time.Second, "k")
		},
		"Expire":        func(c *strata.Cache[string, int64], ctx context.Context) error { return c.Expire(ctx, "k") },
		"InvalidateAll": func(c *strata.Cache[string, int64], ctx context.Context) error { return c.InvalidateAll(ctx) },
		"ExpireAll":     func(c *strata.Cache[string, int64], ctx context.Context) error { return c.ExpireAll(ctx) },
		"SkipRead": func(c *strata.Cache[string, int64], ctx context.Context) error {
			five := func(context.Context, string) (int64, error) { return 5, nil }
			_, err := c.GetOrLoad(ctx, "k", five, strata.SkipRead())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				a, b := lab.Instance(t, s, lab.Negatives), lab.Instance(t, s, lab.Negatives)
				m := &missing{}
				findsNothing(t, a, m.load)
				findsNothing(t, b, m.load)
				if err := write(a, t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				five := func(context.Context, string) (int64, error) { return 5, nil }
				lab.GetTakes(t, b, five, 5)
				lab.GetTakes(t, a, five, 5)
			})
		})
	}
}

func TestNotFoundThatWasOvertakenIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		for name, pair := range map[string][2]*strata.Cache[string, int64]{
			"here":      {lab.Instance(t, s, lab.Negatives), nil},
			"elsewhere": {lab.Instance(t, s, lab.Negatives), lab.Instance(t, s, lab.Negatives)},
			"alone":     {lab.NewCache(t, lab.Negatives), nil},
		} {
			c, writer := pair[0], pair[1]
			if writer == nil {
				writer = c
			}
			slowly := func(context.Context, string) (int64, error) {
				time.Sleep(time.Second)
				return 0, strata.ErrNotFound
			}
			done := make(chan struct{})
			go func() { _, _ = c.GetOrLoad(t.Context(), "k", slowly); close(done) }()
			synctest.Wait()
			if err := writer.Invalidate(t.Context(), "k"); err != nil { // the row was inserted
				t.Fatal(err)
			}
			<-done
			synctest.Wait()
			if v, err := c.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { return 5, nil }); v != 5 {
				t.Errorf("%s: got %d, %v; want 5", name, v, err)
			}
			if err := writer.Invalidate(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
	})
}

func TestFailureIsNoNegativeEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		s := lab.NewShared()
		c := lab.Instance(t, s, lab.Negatives, lab.Remembering, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = stratatest.FaultyTier(s.Tier, func(string, string) (time.Duration, error) {
				if down.Load() {
					return 0, lab.ErrDown
				}
				return 0, nil
			})
		})
		o := &lab.Fallible{}
		o.Value.Store(3)
		lab.MustGet(t, c, "k", o.Load)
		if err := c.Expire(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		down.Store(true)
		o.Fail(lab.ErrDown)
		lab.GetTakes(t, c, o.Load, 3)
		if _, err := c.GetOrLoad(t.Context(), "other", o.Load); errors.Is(err, strata.ErrNotFound) || !errors.Is(err, lab.ErrDown) {
			t.Errorf("got %v", err)
		}
	})
}

func TestNotFoundEndsTheRowOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Negatives, lab.Remembering)
		s := &lab.Fallible{}
		for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			s.Fail(lab.ErrDown)
			_, _ = c.GetOrLoad(t.Context(), "k", s.Load)
			time.Sleep(pause)
		}
		s.Fail(strata.ErrNotFound)
		findsNothing(t, c, s.Load)
		time.Sleep(20 * time.Second)
		s.Fail(lab.ErrDown)
		_, _ = c.GetOrLoad(t.Context(), "k", s.Load)
		time.Sleep(time.Second)
		s.Fail(nil)
		lab.MustGet(t, c, "k", s.Load)
	})
}

func TestNotFoundOfALoadThatWasOvertakenReplacesNothing(t *testing.T) {
	for name, overtake := range map[string]func(c *strata.Cache[string, int64]) error{
		"set":        func(c *strata.Cache[string, int64]) error { return c.Set(context.Background(), "k", 2) },
		"invalidate": func(c *strata.Cache[string, int64]) error { return c.Invalidate(context.Background(), "k") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				a, b := lab.Instance(t, s, lab.Negatives), lab.Instance(t, s, lab.Negatives)
				if err := a.Set(t.Context(), "k", 1); err != nil {
					t.Fatal(err)
				}
				if err := a.Expire(t.Context(), "k"); err != nil { // held in L2, and to be loaded again
					t.Fatal(err)
				}
				synctest.Wait()
				go func() {
					_, _ = a.GetOrLoad(context.Background(), "k", func(context.Context, string) (int64, error) {
						time.Sleep(time.Second)
						return 0, fmt.Errorf("no such row: %w", strata.ErrNotFound)
					})
				}()
				time.Sleep(time.Second / 2)
				if err := overtake(b); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				for _, c := range []*strata.Cache[string, int64]{a, b} {
					v, err := c.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { return 2, nil })
					if v != 2 || err != nil {
						t.Errorf("got %d, %v; want 2: the load was overtaken", v, err)
					}
				}
			})
		})
	}
}

func TestNotFoundOfARefreshEndsTheValueElsewhere(t *testing.T) {
	for i, ttl := range []time.Duration{20 * time.Second, -1, 20 * time.Second, -1} {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			if i > 1 {
				s.Tier.Announce(nil) // the cache has to
			}
			early := func(o *strata.Options[string, int64]) { o.NotFoundTTL, o.RefreshAt = ttl, 0.5 }
			a, b := lab.Instance(t, s, early), lab.Instance[string, int64](t, s)
			one := func(context.Context, string) (int64, error) { return 1, nil }
			lab.GetTakes(t, a, one, 1)
			lab.GetTakes(t, b, one, 1)
			m := &missing{}
			time.Sleep(40 * time.Second)
			lab.GetTakes(t, a, m.load, 1) // and refreshes it
			synctest.Wait()
			if v, ok := b.Get(t.Context(), "k"); ok {
				t.Errorf("TTL %v, case %d: the other instance has %d, which the origin has no more", ttl, i, v)
			}
		})
	}
}

func TestNotFoundOfARefreshReachesInstancesThatMissedItsMessage(t *testing.T) {
	for name, fault := range map[string]func(a, b *stratatest.Bus){
		"it was lost":                   func(_, b *stratatest.Bus) { b.Lose(1) },
		"who found nothing was cut off": func(a, _ *stratatest.Bus) { a.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				connect := func(bus *stratatest.Bus) *strata.Cache[string, int64] {
					return lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.TTL, o.RefreshAt, o.Remote.Bus = time.Hour, 0.5, bus })
				}
				aBus, bBus := s.Bus.Connect(), s.Bus.Connect()
				a, b := connect(aBus), connect(bBus)
				one := func(context.Context, string) (int64, error) { return 1, nil }
				lab.GetTakes(t, a, one, 1)
				time.Sleep(40 * time.Minute)
				lab.GetTakes(t, b, one, 1)
				fault(aBus, bBus)
				a.Get(t.Context(), "k") // L2 confirms it
				m := &missing{}
				lab.GetTakes(t, a, m.load, 1) // and refreshes it
				synctest.Wait()
				if n := a.Stats().Pending; n != 0 {
					t.Errorf("%d drops are pending, want 0: L2 has told of it", n)
				}
				time.Sleep(10 * time.Second)
				if v, ok := b.Get(t.Context(), "k"); ok {
					t.Errorf("the other instance has %d, which the origin has no more", v)
				}
			})
		})
	}
}
