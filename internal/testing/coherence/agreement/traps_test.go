package agreement_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

// wantInL1 ends the test if k is not in L1: it would show nothing.
func wantInL1(t *testing.T, c *strata.Cache[string, int64]) {
	t.Helper()
	if r := c.Explain(t.Context(), "k"); !r.L1.Present {
		t.Fatal("the scenario shows nothing: L1 has no entry")
	}
}

// TestTrap1StateIsNotSharedBetweenTypes is about values of several types under
// one key. If they shared the marks of expiry and the lives, a refresh of one would
// make the old value of another fresh again, and a long life of one would lengthen the
// life of another.
func TestTrap1StateIsNotSharedBetweenTypes(t *testing.T) {
	type person struct{ Name string }
	ann := func(context.Context, string) (person, error) { return person{"Ann"}, nil }
	t.Run("refresh of another", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			numbers, people := lab.Instance[string, int64](t, s), lab.Instance[string, person](t, s)
			o := &lab.Origin{}
			lab.MustGet(t, numbers, "k", o.Load)
			_, err := people.GetOrLoad(t.Context(), "k", ann)
			lab.Must(t, err)
			lab.Must(t, numbers.Expire(t.Context(), "k"))
			o.Value.Store(2)
			lab.MustGet(t, numbers, "k", o.Load)
			lab.WantHeld(t, "an instance with the type that was refreshed", lab.Instance[string, int64](t, s), 2)
			lab.WantAbsent(t, "an instance with the type that was not", lab.Instance[string, person](t, s))
		})
	})
	t.Run("life of another", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			numbers := lab.Instance[string, int64](t, s)
			people := lab.Instance(t, s, func(o *strata.Options[string, person]) { o.TTL = time.Hour })
			lab.MustGet(t, numbers, "k", (&lab.Origin{}).Load)
			time.Sleep(30 * time.Second)
			_, err := people.GetOrLoad(t.Context(), "k", ann)
			lab.Must(t, err)
			time.Sleep(31 * time.Second)
			lab.WantAbsent(t, "an instance with the type of which the time is over", lab.Instance[string, int64](t, s))
			if _, ok := lab.Instance[string, person](t, s).Get(t.Context(), "k"); !ok {
				t.Error("the type that lives for an hour is gone after a minute")
			}
		})
	})
}

// TestTrap2SetThatTimedOutIsNotExecutedLater is about a Set after its caller has given
// up. If the tier carried it out after a newer call, the old value would stay for a
// whole TTL. Each Set carries the token of its own drop, which any later drop voids.
func TestTrap2SetThatTimedOutIsNotExecutedLater(t *testing.T) {
	late := func(t *testing.T, newer func(t *testing.T, b *strata.Cache[string, int64])) (all []*strata.Cache[string, int64]) {
		s := lab.NewShared()
		w := lab.NewWire(s)
		a, b := lab.Instance(t, s, w.Use), lab.Instance[string, int64](t, s)
		w.Slows("Put", time.Second, 0)
		var gaveUp *strata.RemoteError
		if err := a.Set(t.Context(), "k", 1); !errors.As(err, &gaveUp) {
			t.Fatalf("a Set that takes a second: %v, want *RemoteError", err)
		}
		newer(t, b)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		return append(all, a, b, lab.Instance[string, int64](t, s))
	}
	t.Run("after a Set", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, c := range late(t, func(t *testing.T, b *strata.Cache[string, int64]) { lab.Must(t, b.Set(t.Context(), "k", 2)) }) {
				lab.WantHeld(t, "an instance", c, 2)
			}
		})
	})
	t.Run("after an Invalidate", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, c := range late(t, func(t *testing.T, b *strata.Cache[string, int64]) { lab.Must(t, b.Invalidate(t.Context(), "k")) }) {
				lab.WantAbsent(t, "an instance", c)
			}
		})
	})
}

// TestTrap3SetOvertakenByAForeignMessageKeepsNothing is about a Set that gets its
// answer after the message of a newer Set. The older value must not enter L1 behind the
// newer one, on any instance.
func TestTrap3SetOvertakenByAForeignMessageKeepsNothing(t *testing.T) {
	for _, from := range []string{"another instance", "the same instance"} {
		t.Run(from, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				w := lab.NewWire(s)
				a := lab.Instance(t, s, w.Use)
				b := a
				if from == "another instance" {
					b = lab.Instance[string, int64](t, s)
				}
				w.Slows("Put", 0, 50*time.Millisecond)
				older := make(chan error)
				go func() { older <- a.Set(t.Context(), "k", 1) }()
				time.Sleep(10 * time.Millisecond)
				lab.Must(t, b.Set(t.Context(), "k", 2))
				lab.Must(t, <-older)
				lab.WantHeld(t, "the instance whose answer was late", a, 2)
				lab.WantHeld(t, "an instance without L1", lab.Instance[string, int64](t, s), 2)
			})
		})
	}
	t.Run("begun in one order, carried out in the other", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			w := lab.NewWire(s)
			a := lab.Instance(t, s, w.Use)
			done := make(chan error, 2)
			w.Slows("Drop", 20*time.Millisecond, 0)
			go func() { done <- a.Set(t.Context(), "k", 2) }()
			time.Sleep(10 * time.Millisecond)
			w.Slows("Put", 0, 50*time.Millisecond)
			go func() { done <- a.Set(t.Context(), "k", 1) }()
			lab.Must(t, <-done)
			lab.Must(t, <-done)
			lab.WantHeld(t, "an instance without L1", lab.Instance[string, int64](t, s), 2)
			lab.WantHeld(t, "the instance whose answer was late", a, 2)
		})
	})
}

// TestTrap4UpdateCannotEndUpBehindTheOrigin is about two writers whose calls
// reach the cache in another order than their writes reached the origin. No
// cache can repair that for Set; Update drops the key before it writes, so that an
// overtaken Update knows it.
func TestTrap4UpdateCannotEndUpBehindTheOrigin(t *testing.T) {
	t.Run("Set can", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
			o := &lab.Origin{}
			o.Value.Store(2) // by a
			o.Value.Store(3) // by b
			lab.Must(t, b.Set(t.Context(), "k", 3))
			lab.Must(t, a.Set(t.Context(), "k", 2))
			lab.WantHeld(t, "the scenario shows nothing: an instance", lab.Instance[string, int64](t, s), 2)
		})
	})
	t.Run("Update cannot", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
			o := &lab.Origin{}
			write := func(v int64, then time.Duration) func(context.Context) (int64, error) {
				return func(context.Context) (int64, error) {
					o.Value.Store(v)
					time.Sleep(then)
					return v, nil
				}
			}
			slower := make(chan error)
			go func() { slower <- a.Update(t.Context(), "k", write(2, 50*time.Millisecond)) }()
			time.Sleep(10 * time.Millisecond)
			lab.Must(t, b.Update(t.Context(), "k", write(3, 0)))
			lab.Must(t, <-slower)
			synctest.Wait()
			for who, c := range map[string]*strata.Cache[string, int64]{"a": a, "b": b, "a third": lab.Instance[string, int64](t, s)} {
				if v := lab.MustGet(t, c, "k", o.Load); v != 3 {
					t.Errorf("%s got %d; the origin has 3", who, v)
				}
			}
		})
	})
}

// TestTrap5ExtendNeedsALeaseAndTheValueItIsAbout is about the answer "not
// modified". It must not freshen a value expired since the lease was granted, nor
// another value than the one shown to the Loader.
func TestTrap5ExtendNeedsALeaseAndTheValueItIsAbout(t *testing.T) {
	t.Run("expired meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
			lab.Must(t, a.Set(t.Context(), "k", 1))
			lab.Must(t, a.Expire(t.Context(), "k"))
			synctest.Wait()
			done := make(chan int64)
			go func() { done <- lab.MustGet(t, a, "k", lab.NotModified(time.Second)) }()
			synctest.Wait()
			lab.Must(t, b.Expire(t.Context(), "k"))
			if v := <-done; v != 1 {
				t.Errorf("who had called before got %d, want the held 1", v)
			}
			lab.WantAbsent(t, "an instance without L1", lab.Instance[string, int64](t, s))
			lab.WantAbsent(t, "the instance that loaded", a)
		})
	})
	t.Run("another value by now", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			w := lab.NewWire(s)
			a, b := lab.Instance(t, s, w.Use), lab.Instance[string, int64](t, s)
			lab.Must(t, a.Set(t.Context(), "k", 1))
			lab.Must(t, a.Expire(t.Context(), "k"))
			w.Slows("Acquire", 50*time.Millisecond, 0)
			done := make(chan int64)
			go func() { done <- lab.MustGet(t, a, "k", lab.NotModified(0)) }()
			synctest.Wait()
			lab.Must(t, b.Set(t.Context(), "k", 2))
			lab.Must(t, b.Expire(t.Context(), "k"))
			if v := <-done; v != 1 {
				t.Errorf("got %d, want the 1 of which the Loader said that it holds", v)
			}
			if v, ok := lab.Instance[string, int64](t, s).Get(t.Context(), "k"); ok && v != 1 {
				t.Errorf("an instance without L1 got %d, which was expired and nobody has confirmed", v)
			}
		})
	})
}

// TestTrap6LanesThatRepeatTheirCountsAreNotTheSame is about a server that lost
// its counts: as many drops later it has the same counts, and the loss is only seen
// because lane versions have a nonce and are compared by equality. A message with a
// lower count is applied, too.
func TestTrap6LanesThatRepeatTheirCountsAreNotTheSame(t *testing.T) {
	accidents := map[string]func(t *testing.T, s *lab.Shared, a *strata.Cache[string, int64]){
		"restarted empty, and dropped as often": func(t *testing.T, s *lab.Shared, a *strata.Cache[string, int64]) {
			s.Tier.Restart()
			lab.Must(t, a.Invalidate(t.Context(), "k"))
		},
		"lane forgotten, and dropped as often": func(t *testing.T, s *lab.Shared, a *strata.Cache[string, int64]) {
			lab.ViewOf(s).ForgetLane("k")
			lab.Must(t, a.Invalidate(t.Context(), "k"))
		},
		"set back to before the drop": func(t *testing.T, s *lab.Shared, a *strata.Cache[string, int64]) {
			old := s.Tier.Snapshot()
			lab.Must(t, a.Invalidate(t.Context(), "k"))
			s.Tier.Restore(old)
		},
	}
	for name, happens := range accidents {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				ear := s.Bus.Connect()
				a := lab.Instance[string, int64](t, s)
				b := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Bus = ear })
				o := &lab.Origin{}
				lab.Must(t, a.Invalidate(t.Context(), "k")) // the lane's count is one
				synctest.Wait()
				lab.MustGet(t, b, "k", o.Load)
				wantInL1(t, b)
				ear.Cut()
				synctest.Wait()
				o.Value.Store(2)
				happens(t, s, a)
				ear.Join()
				synctest.Wait()
				if v := lab.MustGet(t, b, "k", o.Load); v != 2 {
					t.Errorf("got %d after the rejoin, want 2", v)
				}
			})
		})
	}
	t.Run("message with a lower count", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
			for range 5 {
				lab.Must(t, a.Invalidate(t.Context(), "k"))
			}
			synctest.Wait()
			lab.ViewOf(s).ForgetLane("k")
			for range 3 {
				lab.MustGet(t, b, "k", (&lab.Origin{}).Load)
				wantInL1(t, b)
				lab.Must(t, a.Invalidate(t.Context(), "k"))
				synctest.Wait()
				lab.WantAbsent(t, "the other instance", b)
			}
		})
	})
}

// TestTrap7ServerThatWasSetBackResurrectsNothing is about a promoted replica or
// an old snapshot: it has a value dropped since, and leases voided since. Both belong
// to an older epoch and are not believed. Real servers are set back in the module test:
// TestPromotedReplicaIsNotBelieved.
func TestTrap7ServerThatWasSetBackResurrectsNothing(t *testing.T) {
	t.Run("value", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			a := lab.Instance[string, int64](t, s)
			o := &lab.Origin{}
			lab.MustGet(t, a, "k", o.Load)
			old := s.Tier.Snapshot()
			lab.Must(t, a.Invalidate(t.Context(), "k"))
			o.Value.Store(2)
			s.Tier.Restore(old)
			lab.WantAbsent(t, "an instance without L1", lab.Instance[string, int64](t, s))
			if v := lab.MustGet(t, a, "k", o.Load); v != 2 {
				t.Errorf("the instance that invalidated got %d, want 2", v)
			}
		})
	})
	t.Run("lease", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
			o := &lab.Origin{Takes: time.Second}
			loaded := make(chan int64)
			go func() { loaded <- lab.MustGet(t, a, "k", o.Load) }()
			synctest.Wait()
			old := s.Tier.Snapshot()
			lab.Must(t, b.Invalidate(t.Context(), "k"))
			s.Tier.Restore(old)
			<-loaded
			lab.WantAbsent(t, "an instance without L1", lab.Instance[string, int64](t, s))
			lab.WantAbsent(t, "the instance whose load was overtaken", a)
		})
	})
}

// TestTrap8EntryIsStampedWhenItsFlightBegins is about a watermark set while a flight
// runs: the value of the flight is older than the watermark, at whatever time it is
// inserted.
func TestTrap8EntryIsStampedWhenItsFlightBegins(t *testing.T) {
	t.Run("gap during the flight", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			w, ear := lab.NewWire(s), s.Bus.Connect()
			a := lab.Instance[string, int64](t, s)
			b := lab.Instance(t, s, w.Use, func(o *strata.Options[string, int64]) { o.Remote.Bus = ear })
			lab.Must(t, a.Set(t.Context(), "k", 1))
			synctest.Wait()
			w.Slows("Get", 0, 50*time.Millisecond) // it has the old value with it
			done := make(chan int64)
			go func() { done <- lab.MustGet(t, b, "k", lab.Unavailable) }()
			synctest.Wait()
			ear.Cut()
			lab.Must(t, a.Invalidate(t.Context(), "k"))
			ear.Join()
			synctest.Wait()
			if v := lab.MustGet(t, b, "k", func(context.Context, string) (int64, error) { return 2, nil }); v != 2 {
				t.Errorf("who called after the gap got %d, want 2", v)
			}
			lab.Must(t, a.Invalidate(t.Context(), "k"))
			if v := <-done; v != 1 {
				t.Errorf("who had called before got %d, want 1", v)
			}
			lab.WantAbsent(t, "the instance that had the gap", b)
		})
	})
	t.Run("flight that ends as its lane becomes suspect", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			s.Tier = stratatest.NewTierLanes(1)
			s.Tier.Announce(s.Bus)
			w, ear := lab.NewWire(s), s.Bus.Connect()
			a := lab.Instance[string, int64](t, s)
			b := lab.Instance(t, s, w.Use, func(o *strata.Options[string, int64]) { o.Remote.Bus = ear })
			lab.Must(t, a.Set(t.Context(), "k", 1))
			time.Sleep(time.Millisecond) // all that connecting takes is done
			w.Slows("Get", 0, 50*time.Millisecond)
			done := make(chan int64)
			go func() { done <- lab.MustGet(t, b, "k", lab.Unavailable) }()
			synctest.Wait()
			ear.Lose(1)
			lab.Must(t, a.Invalidate(t.Context(), "k"))
			time.Sleep(50*time.Millisecond - 500*time.Nanosecond)
			lab.Must(t, a.Invalidate(t.Context(), "other")) // tells of the loss
			<-done
			lab.WantAbsent(t, "the instance that has missed a message", b)
		})
	})
}
