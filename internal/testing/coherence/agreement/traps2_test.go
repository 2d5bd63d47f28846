package agreement_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

// TestTrap9InvalidIsNotSuspect is about a cache with one mark for entries that must
// be confirmed and for entries that must never be served: after InvalidateAll a
// Loader or an L2 that fails would bring the old value back. Expired entries are a
// third case: they may be served when a load fails, and only then.
func TestTrap9InvalidIsNotSuspect(t *testing.T) {
	// warm returns two instances with the key k. When down is set, only the second
	// loses L2.
	warm := func(t *testing.T) (a, b *strata.Cache[string, int64], down *atomic.Bool) {
		s := lab.NewShared()
		down = new(atomic.Bool)
		dead := stratatest.FaultyTier(s.Tier, func(string, string) (time.Duration, error) {
			if down.Load() {
				return 0, errors.New("down")
			}
			return 0, nil
		})
		a = lab.Instance[string, int64](t, s)
		b = lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = dead })
		lab.Must(t, a.Set(t.Context(), "k", 1))
		synctest.Wait()
		lab.WantHeld(t, "the other instance", b, 1)
		wantInL1(t, a)
		wantInL1(t, b)
		return a, b, down
	}
	t.Run("InvalidateAll", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b, down := warm(t)
			lab.Must(t, a.InvalidateAll(t.Context()))
			synctest.Wait()
			down.Store(true)
			for who, c := range map[string]*strata.Cache[string, int64]{"who called": a, "who heard": b} {
				if v, err := c.GetOrLoad(t.Context(), "k", lab.Unavailable); err == nil {
					t.Errorf("%s served %d", who, v)
				}
				_, err := c.GetOrLoad(t.Context(), "k", func(ctx context.Context, _ string) (int64, error) {
					if v, ok := c.Previous(ctx); ok {
						t.Errorf("%s has %d as the previous value", who, v)
					}
					return 0, strata.ErrNotModified
				})
				if !errors.Is(err, strata.ErrNotModified) {
					t.Errorf("%s: %v, want ErrNotModified as an error", who, err)
				}
			}
		})
	})
	t.Run("InvalidateAll without L2 and bus", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, b, down := warm(t)
			down.Store(true)
			if err := b.InvalidateAll(t.Context()); err == nil {
				t.Fatal("confirmed by an L2 that is down")
			}
			if v, err := b.GetOrLoad(t.Context(), "k", lab.Unavailable); err == nil {
				t.Errorf("served %d", v)
			}
		})
	})
	t.Run("gap", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			ear := s.Bus.Connect()
			a := lab.Instance[string, int64](t, s)
			b := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Bus = ear })
			lab.Must(t, a.Set(t.Context(), "k", 1))
			synctest.Wait()
			lab.WantHeld(t, "the other instance", b, 1)
			wantInL1(t, b)
			ear.Cut()
			lab.Must(t, a.Invalidate(t.Context(), "k"))
			ear.Join()
			synctest.Wait()
			if v, err := b.GetOrLoad(t.Context(), "k", lab.Unavailable); err == nil {
				t.Errorf("served %d as stale: it is suspect, and L2 did not confirm it", v)
			}
		})
	})
	t.Run("ExpireAll", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b, down := warm(t)
			lab.Must(t, a.ExpireAll(t.Context()))
			synctest.Wait()
			for who, c := range map[string]*strata.Cache[string, int64]{"who called": a, "who heard": b} {
				lab.WantAbsent(t, who, c)
				down.Store(who == "who heard")
				var info strata.Info
				v, err := c.GetOrLoad(t.Context(), "k", lab.Unavailable, strata.ReadInfo(&info))
				if v != 1 || err != nil || !info.Stale {
					t.Errorf("%s got %d, %v, stale %v; want the stale 1 for a load that fails", who, v, err, info.Stale)
				}
			}
		})
	})
}

// TestTrap10TagsLearnedAfterTheLoadAreJudgedFromBefore is about a tag dropped during a
// load, before the load names it for its value. The tag clock from before the Loader
// began counts. If L2 has lost the time of a tag's drop, the tag counts as just
// dropped.
func TestTrap10TagsLearnedAfterTheLoadAreJudgedFromBefore(t *testing.T) {
	for _, by := range []string{"the loader", "another instance"} {
		t.Run("dropped by "+by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
				lab.Must(t, b.InvalidateTags(t.Context(), "other")) // the clock is running
				drops := b
				if by == "the loader" {
					drops = a
				}
				loads := 0
				load := func(ctx context.Context, _ string) (int64, error) {
					loads++
					v := int64(loads)
					if loads == 1 {
						lab.Must(t, drops.InvalidateTags(ctx, "t"))
					}
					strata.Loading(ctx).SetTags("t")
					return v, nil
				}
				lab.MustGet(t, a, "k", load)
				lab.WantAbsent(t, "an instance without L1", lab.Instance[string, int64](t, s))
				if v := lab.MustGet(t, a, "k", load); v != 2 {
					t.Errorf("got %d, which was read before its tag was dropped; want 2", v)
				}
				if v := lab.MustGet(t, a, "k", load); v != 2 || loads != 2 {
					t.Errorf("got %d after %d loads; want a hit of 2", v, loads)
				}
			})
		})
	}
	t.Run("joined after the drop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
			o := &lab.Origin{Takes: time.Second}
			load := func(ctx context.Context, key string) (int64, error) {
				strata.Loading(ctx).SetTags("t")
				return o.Load(ctx, key)
			}
			done := make(chan int64)
			go func() { done <- lab.MustGet(t, a, "k", load) }()
			synctest.Wait()
			o.Value.Store(2)
			lab.Must(t, b.InvalidateTags(t.Context(), "t"))
			synctest.Wait()
			if v := lab.MustGet(t, a, "k", load); v != 2 {
				t.Errorf("who called after the drop got %d, want 2", v)
			}
			<-done
		})
	})
	t.Run("forgotten by L2", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			a := lab.Instance[string, int64](t, s)
			lab.Must(t, a.InvalidateTags(t.Context(), "other")) // the clock is running
			lab.Must(t, a.Set(t.Context(), "k", 1, strata.WithTags("t")))
			lab.WantHeld(t, "another instance", lab.Instance[string, int64](t, s), 1)
			lab.ViewOf(s).ForgetTags()
			lab.WantAbsent(t, "an instance without L1", lab.Instance[string, int64](t, s))
		})
	})
}

// TestTrap11StoresWithoutALeaseAreFencedAllTheSame is about the ways into a tier
// without a lease: a Get that brings a value from L2 to L1, a SetMany from an earlier
// read, and a load that could not get a lease.
func TestTrap11StoresWithoutALeaseAreFencedAllTheSame(t *testing.T) {
	t.Run("Get", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			w := lab.NewWire(s)
			a, b := lab.Instance[string, int64](t, s), lab.Instance(t, s, w.Use)
			lab.Must(t, a.Set(t.Context(), "k", 1))
			synctest.Wait()
			w.Slows("Get", 0, 50*time.Millisecond)
			done := make(chan bool)
			go func() { _, ok := b.Get(t.Context(), "k"); done <- ok }()
			synctest.Wait()
			lab.Must(t, a.Invalidate(t.Context(), "k"))
			if ok := <-done; !ok {
				t.Error("the scenario shows nothing: Get found nothing")
			}
			lab.WantAbsent(t, "the instance whose Get was overtaken", b)
		})
	})
	t.Run("SetMany", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			w := lab.NewWire(s)
			a, b := lab.Instance(t, s, w.Use), lab.Instance[string, int64](t, s)
			w.Slows("Put", 50*time.Millisecond, 0)
			done := make(chan error)
			go func() { done <- a.SetMany(t.Context(), map[string]int64{"k": 1, "other": 1}) }()
			synctest.Wait()
			lab.Must(t, b.Invalidate(t.Context(), "k"))
			lab.Must(t, <-done)
			lab.WantAbsent(t, "the instance whose SetMany was overtaken", a)
			lab.WantAbsent(t, "an instance without L1", lab.Instance[string, int64](t, s))
			if v, ok := b.Get(t.Context(), "other"); v != 1 || !ok {
				t.Errorf("the key beside it: %d, %v; want 1", v, ok)
			}
		})
	})
	t.Run("load without a lease", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			var down atomic.Bool
			a := lab.Instance[string, int64](t, s)
			b := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = lab.Failing(s.Tier, "Acquire", &down) })
			down.Store(true)
			o := &lab.Origin{Takes: time.Second}
			done := make(chan int64)
			go func() { done <- lab.MustGet(t, b, "k", o.Load) }()
			synctest.Wait()
			down.Store(false)
			lab.Must(t, a.Invalidate(t.Context(), "k"))
			<-done
			lab.WantAbsent(t, "an instance without L1", lab.Instance[string, int64](t, s))
			lab.WantAbsent(t, "the instance that loaded", b)
		})
	})
}

// TestTrap12MessageBetweenTheCheckAndTheInsertIsApplied is about a drop that
// comes when a flight has asked whether it may store and has not stored yet,
// and about a flight that ends after its key has got another.
func TestTrap12MessageBetweenTheCheckAndTheInsertIsApplied(t *testing.T) {
	t.Run("message as a load ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
			o := &lab.Origin{Takes: time.Second}
			done := make(chan int64)
			go func() { done <- lab.MustGet(t, b, "k", o.Load) }()
			time.Sleep(time.Second + 500*time.Nanosecond) // L2 has the value by now
			lab.Must(t, a.Invalidate(t.Context(), "k"))
			<-done
			time.Sleep(time.Millisecond)
			lab.WantAbsent(t, "the instance that loaded", b)
		})
	})
	t.Run("flight that ends after its key has got another", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := lab.NewCache[string, int64](t)
			first, second := &lab.Origin{Takes: 2 * time.Second}, &lab.Origin{Takes: 3 * time.Second}
			done := make(chan int64, 2)
			go func() { done <- lab.MustGet(t, c, "k", first.Load) }()
			synctest.Wait()
			lab.Must(t, c.Invalidate(t.Context(), "k"))
			go func() { done <- lab.MustGet(t, c, "k", second.Load) }()
			<-done
			lab.Must(t, c.Invalidate(t.Context(), "k")) // must reach the second
			<-done
			lab.WantAbsent(t, "the cache", c)
		})
	})
}

// TestTrap13LateStoresAreRefusedAndNotKept is about stores that reach L2 after
// something newer: with a queue of writes in the background they would be
// common, and slow connections make them without one. L2 refuses such a store of
// any kind, and L1 does not keep it, also on an instance that gets
// no messages.
func TestTrap13LateStoresAreRefusedAndNotKept(t *testing.T) {
	stores := map[string]func(t *testing.T, c *strata.Cache[string, int64]){
		"load": func(t *testing.T, c *strata.Cache[string, int64]) { lab.MustGet(t, c, "k", (&lab.Origin{}).Load) },
		"Set":  func(t *testing.T, c *strata.Cache[string, int64]) { lab.Must(t, c.Set(t.Context(), "k", 0)) },
		"SetMany": func(t *testing.T, c *strata.Cache[string, int64]) {
			lab.Must(t, c.SetMany(t.Context(), map[string]int64{"k": 0}))
		},
		"Update": func(t *testing.T, c *strata.Cache[string, int64]) {
			lab.Must(t, c.Update(t.Context(), "k", func(context.Context) (int64, error) { return 0, nil }))
		},
	}
	for name, store := range stores {
		for _, deaf := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, deaf=%v", name, deaf), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := lab.NewShared()
					w, ear := lab.NewWire(s), s.Bus.Connect()
					a := lab.Instance(t, s, w.Use, func(o *strata.Options[string, int64]) { o.Remote.Bus = ear })
					b := lab.Instance[string, int64](t, s)
					ear.Hush(deaf)
					w.Slows("Put", 50*time.Millisecond, 0)
					done := make(chan struct{})
					go func() { store(t, a); close(done) }()
					time.Sleep(10 * time.Millisecond)
					lab.Must(t, b.Set(t.Context(), "k", 2))
					<-done
					if v, ok := a.Get(t.Context(), "k"); ok && v != 2 {
						t.Errorf("the instance whose store was late keeps %d", v)
					}
					if v, ok := lab.Instance[string, int64](t, s).Get(t.Context(), "k"); ok && v != 2 {
						t.Errorf("L2 has %d", v)
					}
					if n := a.Stats().RemoteRefused; n != 1 {
						t.Errorf("%d refused by L2, want 1", n)
					}
				})
			})
		}
	}
}

// TestTrap14HoldOutlivesDropsAndStoresDuringIt is about the ways around a hold: a load
// with its begin or end during the hold, a drop or Set that would end it, and a retried
// drop that would begin it anew.
func TestTrap14HoldOutlivesDropsAndStoresDuringIt(t *testing.T) {
	const hold = 10 * time.Second
	// keeps reports whether loads on a and b, or on an instance without news of the
	// hold, are stored in any tier.
	keeps := func(t *testing.T, s *lab.Shared, a, b *strata.Cache[string, int64]) (kept bool) {
		t.Helper()
		for _, c := range []*strata.Cache[string, int64]{a, b, lab.Instance[string, int64](t, s)} {
			lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
			_, ok := c.Get(t.Context(), "k")
			_, inL2 := lab.Instance[string, int64](t, s).Get(t.Context(), "k")
			kept = kept || ok || inL2
		}
		return kept
	}
	during := map[string]func(t *testing.T, a, b *strata.Cache[string, int64]){
		"load begins": func(*testing.T, *strata.Cache[string, int64], *strata.Cache[string, int64]) {},
		"Invalidate":  func(t *testing.T, _, b *strata.Cache[string, int64]) { lab.Must(t, b.Invalidate(t.Context(), "k")) },
		"Expire":      func(t *testing.T, _, b *strata.Cache[string, int64]) { lab.Must(t, b.Expire(t.Context(), "k")) },
		"shorter hold": func(t *testing.T, _, b *strata.Cache[string, int64]) {
			lab.Must(t, b.InvalidateHold(t.Context(), time.Second, "k"))
		},
		"Set": func(t *testing.T, a, b *strata.Cache[string, int64]) {
			lab.Must(t, b.Set(t.Context(), "k", 2))
			synctest.Wait()
			lab.WantHeld(t, "what was set is kept: an instance", a, 2)
			lab.Must(t, b.Invalidate(t.Context(), "k"))
		},
	}
	for name, happens := range during {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
				lab.Must(t, a.InvalidateHold(t.Context(), hold, "k"))
				time.Sleep(2 * time.Second)
				happens(t, a, b)
				time.Sleep(2 * time.Second)
				if keeps(t, s, a, b) {
					t.Error("a load is kept during the hold")
				}
				time.Sleep(hold)
				if !keeps(t, s, a, b) {
					t.Error("no load is kept after the hold")
				}
			})
		})
	}
	t.Run("load ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
			o := &lab.Origin{Takes: time.Second}
			done := make(chan int64)
			go func() { done <- lab.MustGet(t, b, "k", o.Load) }()
			synctest.Wait()
			lab.Must(t, a.InvalidateHold(t.Context(), hold, "k"))
			<-done
			lab.WantAbsent(t, "the instance that loaded", b)
			lab.WantAbsent(t, "an instance without L1", lab.Instance[string, int64](t, s))
		})
	})
	t.Run("drop is tried again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			var down atomic.Bool
			a := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = lab.Failing(s.Tier, "Drop", &down) })
			b := lab.Instance[string, int64](t, s)
			down.Store(true)
			if err := a.InvalidateHold(t.Context(), hold, "k"); err == nil {
				t.Fatal("confirmed by an L2 that is down")
			}
			time.Sleep(5 * time.Second)
			down.Store(false)
			time.Sleep(3 * time.Second)
			if keeps(t, s, a, b) {
				t.Error("a load is kept during the hold")
			}
			time.Sleep(3 * time.Second)
			if !keeps(t, s, a, b) {
				t.Error("no load is kept after the hold: it began when the drop was tried again")
			}
		})
	})
}

// TestTrap15DroppedEntryIsNotReadByASilentInstance is about reads of L2 with an answer
// from a server behind the one that made the drop. Reads go to where drops go, so an
// instance with neither bus nor L1 sees a drop as soon as it has returned. The module
// test does it with servers that fail:
// TestNoReadOfL2IsOlderThanAnInvalidateThatReturned.
func TestTrap15DroppedEntryIsNotReadByASilentInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a := lab.Instance[string, int64](t, s)
		b := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = s.Tier
			o.Memory.MaxWeight, o.Memory.Weigh = 1, func(string, int64) int64 { return 2 } // keeps nothing
		})
		o := &lab.Origin{}
		for range 20 {
			lab.MustGet(t, b, "k", o.Load)
			v := o.Value.Add(1)
			lab.Must(t, a.Invalidate(t.Context(), "k"))
			if got := lab.MustGet(t, b, "k", o.Load); got != v {
				t.Fatalf("got %d after the drop of what was before %d", got, v)
			}
			lab.WantHeld(t, "an instance that hears nothing", b, v)
		}
	})
}

// TestTrap16PendingDropsBypassL2AndAreNeverForgotten is about drops that L2 has
// not confirmed. Until it has, its entry of the key is not used here, not even as a
// stale value, and too many pending drops become one drop of everything.
func TestTrap16PendingDropsBypassL2AndAreNeverForgotten(t *testing.T) {
	t.Run("stale value in L2", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			var down atomic.Bool
			a := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = lab.Failing(s.Tier, "Drop", &down) })
			lab.Must(t, a.Set(t.Context(), "k", 1))
			lab.Must(t, a.Expire(t.Context(), "k"))
			if v, err := a.GetOrLoad(t.Context(), "k", lab.Unavailable); v != 1 || err != nil {
				t.Fatalf("the scenario shows nothing: %d, %v; want the stale 1", v, err)
			}
			down.Store(true)
			if err := a.Invalidate(t.Context(), "k"); err == nil {
				t.Fatal("confirmed by an L2 that is down")
			}
			if v, err := a.GetOrLoad(t.Context(), "k", lab.Unavailable); err == nil {
				t.Errorf("served %d, whose drop is pending", v)
			}
			_, err := a.GetOrLoad(t.Context(), "k", lab.NotModified(0))
			if !errors.Is(err, strata.ErrNotModified) {
				t.Errorf("got %v, want ErrNotModified as an error: there is no previous value", err)
			}
		})
	})
	t.Run("weaker drop afterwards", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			var down atomic.Bool
			a := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = lab.Failing(s.Tier, "Drop", &down) })
			lab.Must(t, a.Set(t.Context(), "k", 1))
			down.Store(true)
			if a.Invalidate(t.Context(), "k") == nil || a.Expire(t.Context(), "k") == nil {
				t.Fatal("confirmed by an L2 that is down")
			}
			down.Store(false)
			time.Sleep(5 * time.Second)
			c := lab.Instance[string, int64](t, s)
			if v, err := c.GetOrLoad(t.Context(), "k", lab.Unavailable); err == nil {
				t.Errorf("another instance served %d: it was expired only", v)
			}
		})
	})
	for name, back := range map[string]bool{"drop of everything instead, pending": false, "drop of everything instead, carried out": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { checkTagDropReplacedByAll(t, back) }) })
	}
	t.Run("too many", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			var down atomic.Bool
			a := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
				o.TTL = time.Hour
				o.Remote.Tier = lab.Failing(s.Tier, "Drop", &down) // DropAll works
			})
			b := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.TTL = time.Hour })
			lab.Must(t, b.Set(t.Context(), "k", 1))
			down.Store(true)
			keys := []string{"k"}
			for i := range 10_000 {
				keys = append(keys, fmt.Sprint(i))
			}
			if err := a.Invalidate(t.Context(), keys...); err == nil {
				t.Fatal("confirmed by an L2 that is down")
			}
			time.Sleep(5 * time.Second)
			lab.WantAbsent(t, "the other instance", b)
			lab.WantAbsent(t, "an instance without L1", lab.Instance[string, int64](t, s))
			if n := a.Stats().Pending; n != 0 {
				t.Errorf("%d pending, want 0", n)
			}
		})
	})
}

// checkTagDropReplacedByAll asks L2 for a value while the drop of its tag is pending.
// Before the answer comes, a drop of everything replaces the pending one. It fails,
// too, but takes effect meanwhile if back is set.
func checkTagDropReplacedByAll(t *testing.T, back bool) {
	s := lab.NewTagged(t)
	var down atomic.Bool
	w := lab.NewWire(s)
	a := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
		o.Remote.Timeout = 10 * time.Second
		o.Remote.Tier = lab.Failing(lab.Failing(w, "DropTags", &down), "DropAll", &down)
	})
	b := lab.Instance[string, int64](t, s)
	lab.Must(t, b.Set(t.Context(), "k", 1, strata.WithTags("t")))
	synctest.Wait()
	down.Store(true)
	if a.ExpireTags(t.Context(), "t") == nil {
		t.Fatal("confirmed by an L2 that is down")
	}
	w.Slows("Get", 0, 5*time.Second)
	got, o := make(chan int64, 1), &lab.Origin{}
	o.Value.Store(2)
	go func() { got <- lab.MustGet(t, a, "k", o.Load) }()
	synctest.Wait() // L2 has been asked, and has not answered
	if a.InvalidateAll(t.Context()) == nil {
		t.Fatal("confirmed by an L2 that is down")
	}
	if back {
		down.Store(false)
		time.Sleep(4 * time.Second)
		if n := a.Stats().Pending; n != 0 {
			t.Fatalf("the scenario shows nothing: %d pending, want 0", n)
		}
	}
	if v := <-got; v != 2 {
		t.Errorf("a caller got %d, whose tag was expired before, want 2", v)
	}
}
