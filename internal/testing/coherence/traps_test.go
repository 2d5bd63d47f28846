package coherence_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// wire is an instance's way to a tier. An operation that is slow is carried out
// after a while, also if its caller has given up by then, and answered after
// another.
type wire struct {
	*stratatest.Tier
	slow *slowness
}

// slowness is the delay of the next operation of each name.
type slowness struct {
	mu   sync.Mutex // guards below
	next map[string][2]time.Duration
}

func newWire(s *shared) wire {
	return wire{s.tier, &slowness{next: map[string][2]time.Duration{}}}
}

// slows makes the next operation of that name arrive after sent and its answer
// take answered.
func (w wire) slows(op string, sent, answered time.Duration) {
	w.slow.mu.Lock()
	defer w.slow.mu.Unlock()
	w.slow.next[op] = [2]time.Duration{sent, answered}
}

// use is a change of options.
func (w wire) use(o *strata.Options[string, int64]) { o.Remote.Tier = w }

func (w wire) Bind(s remote.Space) remote.Tier {
	return wire{w.Tier.Bind(s).(*stratatest.Tier), w.slow}
}

// carry carries f out. In a bubble.
func (w wire) carry(ctx context.Context, op string, f func(context.Context) error) error {
	w.slow.mu.Lock()
	wait := w.slow.next[op]
	delete(w.slow.next, op)
	w.slow.mu.Unlock()
	if wait == [2]time.Duration{} {
		return f(ctx)
	}
	done := make(chan error, 1)
	go func() {
		time.Sleep(wait[0])
		err := f(context.WithoutCancel(ctx))
		time.Sleep(wait[1])
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w wire) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	var held []remote.Held
	err := w.carry(ctx, "Get", func(ctx context.Context) (err error) {
		held, err = w.Tier.Get(ctx, keys, known...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

func (w wire) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	var drops []remote.Tag
	err := w.carry(ctx, "Tags", func(ctx context.Context) (err error) {
		drops, err = w.Tier.Tags(ctx, tags)
		return err
	})
	if err != nil {
		return nil, err
	}
	return drops, nil
}

func (w wire) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	var acquired []remote.Acquired
	err := w.carry(ctx, "Acquire", func(ctx context.Context) (err error) {
		acquired, err = w.Tier.Acquire(ctx, r, d)
		return err
	})
	if err != nil {
		return nil, err
	}
	return acquired, nil
}

func (w wire) Put(ctx context.Context, p []remote.Put) ([]int, error) {
	var refused []int
	err := w.carry(ctx, "Put", func(ctx context.Context) (err error) {
		refused, err = w.Tier.Put(ctx, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return refused, nil
}

func (w wire) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	var leases []remote.Lease
	err := w.carry(ctx, "Drop", func(ctx context.Context) (err error) {
		leases, err = w.Tier.Drop(ctx, d)
		return err
	})
	if err != nil {
		return nil, err
	}
	return leases, nil
}

// wantHeld fails the test unless Get of k brings v.
func wantHeld(t *testing.T, who string, c *strata.Cache[string, int64], v int64) {
	t.Helper()
	if got, ok := c.Get(t.Context(), "k"); got != v || !ok {
		t.Errorf("%s has %d, %v; want %d", who, got, ok, v)
	}
}

// wantAbsent fails the test if Get of k brings anything.
func wantAbsent[V any](t *testing.T, who string, c *strata.Cache[string, V]) {
	t.Helper()
	if got, ok := c.Get(t.Context(), "k"); ok {
		t.Errorf("%s has %v; want nothing", who, got)
	}
}

// wantInL1 ends the test if k is not in L1: it would show nothing.
func wantInL1(t *testing.T, c *strata.Cache[string, int64]) {
	t.Helper()
	if r := c.Explain(t.Context(), "k"); !r.L1.Present {
		t.Fatal("the scenario shows nothing: L1 has no entry")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// same is a Loader that takes its time and then says that the held value holds.
// In a bubble.
func same(takes time.Duration) strata.Loader[string, int64] {
	return func(context.Context, string) (int64, error) {
		time.Sleep(takes)
		return 0, strata.ErrNotModified
	}
}

func unavailable(context.Context, string) (int64, error) { return 0, errors.New("down") }

// TestTrap1StateIsNotSharedBetweenTypes is about values of several types under
// one key. If they shared the marks of expiry and the lives, a refresh of one
// would make the old value of another fresh again, and a long life of one would
// be that of another.
func TestTrap1StateIsNotSharedBetweenTypes(t *testing.T) {
	type person struct{ Name string }
	ann := func(context.Context, string) (person, error) { return person{"Ann"}, nil }
	t.Run("refresh of another", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newShared()
			numbers, people := instance[string, int64](t, s), instance[string, person](t, s)
			o := &origin{}
			mustGet(t, numbers, "k", o.load)
			_, err := people.GetOrLoad(t.Context(), "k", ann)
			must(t, err)
			must(t, numbers.Expire(t.Context(), "k"))
			o.value.Store(2)
			mustGet(t, numbers, "k", o.load)
			wantHeld(t, "an instance with the type that was refreshed", instance[string, int64](t, s), 2)
			wantAbsent(t, "an instance with the type that was not", instance[string, person](t, s))
		})
	})
	t.Run("life of another", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newShared()
			numbers := instance[string, int64](t, s)
			people := instance(t, s, func(o *strata.Options[string, person]) { o.TTL = time.Hour })
			mustGet(t, numbers, "k", (&origin{}).load)
			time.Sleep(30 * time.Second)
			_, err := people.GetOrLoad(t.Context(), "k", ann)
			must(t, err)
			time.Sleep(31 * time.Second)
			wantAbsent(t, "an instance with the type of which the time is over", instance[string, int64](t, s))
			if _, ok := instance[string, person](t, s).Get(t.Context(), "k"); !ok {
				t.Error("the type that lives for an hour is gone after a minute")
			}
		})
	})
}

// TestTrap2SetThatTimedOutIsNotExecutedLater is about a Set whose caller has
// given up and which the tier carries out after a newer call: the old value
// would stay for a whole TTL. Each Set carries the token of its own drop, which
// any later drop voids.
func TestTrap2SetThatTimedOutIsNotExecutedLater(t *testing.T) {
	late := func(t *testing.T, newer func(t *testing.T, b *strata.Cache[string, int64])) (all []*strata.Cache[string, int64]) {
		s := newShared()
		w := newWire(s)
		a, b := instance(t, s, w.use), instance[string, int64](t, s)
		w.slows("Put", time.Second, 0)
		var gaveUp *strata.RemoteError
		if err := a.Set(t.Context(), "k", 1); !errors.As(err, &gaveUp) {
			t.Fatalf("a Set that takes a second: %v, want *RemoteError", err)
		}
		newer(t, b)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		return append(all, a, b, instance[string, int64](t, s))
	}
	t.Run("after a Set", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			for _, c := range late(t, func(t *testing.T, b *strata.Cache[string, int64]) { must(t, b.Set(t.Context(), "k", 2)) }) {
				wantHeld(t, "an instance", c, 2)
			}
		})
	})
	t.Run("after an Invalidate", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			for _, c := range late(t, func(t *testing.T, b *strata.Cache[string, int64]) { must(t, b.Invalidate(t.Context(), "k")) }) {
				wantAbsent(t, "an instance", c)
			}
		})
	})
}

// TestTrap3SetOvertakenByAForeignMessageKeepsNothing is about a Set whose answer
// comes after the message of a newer one: the older value must not enter L1
// behind it, on any instance.
func TestTrap3SetOvertakenByAForeignMessageKeepsNothing(t *testing.T) {
	for _, from := range []string{"another instance", "the same instance"} {
		t.Run(from, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newShared()
				w := newWire(s)
				a := instance(t, s, w.use)
				b := a
				if from == "another instance" {
					b = instance[string, int64](t, s)
				}
				w.slows("Put", 0, 50*time.Millisecond)
				older := make(chan error)
				go func() { older <- a.Set(t.Context(), "k", 1) }()
				time.Sleep(10 * time.Millisecond)
				must(t, b.Set(t.Context(), "k", 2))
				must(t, <-older)
				wantHeld(t, "the instance whose answer was late", a, 2)
				wantHeld(t, "an instance without L1", instance[string, int64](t, s), 2)
			})
		})
	}
	t.Run("begun in one order, carried out in the other", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newShared()
			w := newWire(s)
			a := instance(t, s, w.use)
			done := make(chan error, 2)
			w.slows("Drop", 20*time.Millisecond, 0)
			go func() { done <- a.Set(t.Context(), "k", 2) }()
			time.Sleep(10 * time.Millisecond)
			w.slows("Put", 0, 50*time.Millisecond)
			go func() { done <- a.Set(t.Context(), "k", 1) }()
			must(t, <-done)
			must(t, <-done)
			wantHeld(t, "an instance without L1", instance[string, int64](t, s), 2)
			wantHeld(t, "the instance whose answer was late", a, 2)
		})
	})
}

// TestTrap4UpdateCannotEndUpBehindTheOrigin is about two writers whose calls
// reach the cache in another order than their writes reached the origin. No
// cache can repair that for Set; Update has dropped the key before it writes,
// so that the one that is overtaken knows.
func TestTrap4UpdateCannotEndUpBehindTheOrigin(t *testing.T) {
	t.Run("Set can", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newShared()
			a, b := instance[string, int64](t, s), instance[string, int64](t, s)
			o := &origin{}
			o.value.Store(2) // by a
			o.value.Store(3) // by b
			must(t, b.Set(t.Context(), "k", 3))
			must(t, a.Set(t.Context(), "k", 2))
			wantHeld(t, "the scenario shows nothing: an instance", instance[string, int64](t, s), 2)
		})
	})
	t.Run("Update cannot", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newShared()
			a, b := instance[string, int64](t, s), instance[string, int64](t, s)
			o := &origin{}
			write := func(v int64, then time.Duration) func(context.Context) (int64, error) {
				return func(context.Context) (int64, error) {
					o.value.Store(v)
					time.Sleep(then)
					return v, nil
				}
			}
			slower := make(chan error)
			go func() { slower <- a.Update(t.Context(), "k", write(2, 50*time.Millisecond)) }()
			time.Sleep(10 * time.Millisecond)
			must(t, b.Update(t.Context(), "k", write(3, 0)))
			must(t, <-slower)
			synctest.Wait()
			for who, c := range map[string]*strata.Cache[string, int64]{"a": a, "b": b, "a third": instance[string, int64](t, s)} {
				if v := mustGet(t, c, "k", o.load); v != 3 {
					t.Errorf("%s got %d; the origin has 3", who, v)
				}
			}
		})
	})
}

// TestTrap5ExtendNeedsALeaseAndTheValueItIsAbout is about the answer "not
// modified". It must not freshen a value that was expired since the lease was
// given, nor another value than the one that the Loader was shown.
func TestTrap5ExtendNeedsALeaseAndTheValueItIsAbout(t *testing.T) {
	t.Run("expired meanwhile", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newShared()
			a, b := instance[string, int64](t, s), instance[string, int64](t, s)
			must(t, a.Set(t.Context(), "k", 1))
			must(t, a.Expire(t.Context(), "k"))
			synctest.Wait()
			done := make(chan int64)
			go func() { done <- mustGet(t, a, "k", same(time.Second)) }()
			synctest.Wait()
			must(t, b.Expire(t.Context(), "k"))
			if v := <-done; v != 1 {
				t.Errorf("who had called before got %d, want the held 1", v)
			}
			wantAbsent(t, "an instance without L1", instance[string, int64](t, s))
			wantAbsent(t, "the instance that loaded", a)
		})
	})
	t.Run("another value by now", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newShared()
			w := newWire(s)
			a, b := instance(t, s, w.use), instance[string, int64](t, s)
			must(t, a.Set(t.Context(), "k", 1))
			must(t, a.Expire(t.Context(), "k"))
			w.slows("Acquire", 50*time.Millisecond, 0)
			done := make(chan int64)
			go func() { done <- mustGet(t, a, "k", same(0)) }()
			synctest.Wait()
			must(t, b.Set(t.Context(), "k", 2))
			must(t, b.Expire(t.Context(), "k"))
			if v := <-done; v != 1 {
				t.Errorf("got %d, want the 1 of which the Loader said that it holds", v)
			}
			if v, ok := instance[string, int64](t, s).Get(t.Context(), "k"); ok && v != 1 {
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
	accidents := map[string]func(t *testing.T, s *shared, a *strata.Cache[string, int64]){
		"restarted empty, and dropped as often": func(t *testing.T, s *shared, a *strata.Cache[string, int64]) {
			s.tier.Restart()
			must(t, a.Invalidate(t.Context(), "k"))
		},
		"lane forgotten, and dropped as often": func(t *testing.T, s *shared, a *strata.Cache[string, int64]) {
			view(s).ForgetLane("k")
			must(t, a.Invalidate(t.Context(), "k"))
		},
		"set back to before the drop": func(t *testing.T, s *shared, a *strata.Cache[string, int64]) {
			old := s.tier.Snapshot()
			must(t, a.Invalidate(t.Context(), "k"))
			s.tier.Restore(old)
		},
	}
	for name, happens := range accidents {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newShared()
				ear := s.bus.Connect()
				a := instance[string, int64](t, s)
				b := instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Bus = ear })
				o := &origin{}
				must(t, a.Invalidate(t.Context(), "k")) // the lane's count is one
				synctest.Wait()
				mustGet(t, b, "k", o.load)
				wantInL1(t, b)
				ear.Cut()
				synctest.Wait()
				o.value.Store(2)
				happens(t, s, a)
				ear.Join()
				synctest.Wait()
				if v := mustGet(t, b, "k", o.load); v != 2 {
					t.Errorf("got %d after the rejoin, want 2", v)
				}
			})
		})
	}
	t.Run("message with a lower count", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newShared()
			a, b := instance[string, int64](t, s), instance[string, int64](t, s)
			for range 5 {
				must(t, a.Invalidate(t.Context(), "k"))
			}
			synctest.Wait()
			view(s).ForgetLane("k")
			for range 3 {
				mustGet(t, b, "k", (&origin{}).load)
				wantInL1(t, b)
				must(t, a.Invalidate(t.Context(), "k"))
				synctest.Wait()
				wantAbsent(t, "the other instance", b)
			}
		})
	})
}

// view is a view of the tier like those of the caches of newCache, which no cache
// uses.
func view(s *shared) *stratatest.Tier {
	return s.tier.Bind(remote.Space{Name: "test"}).(*stratatest.Tier)
}

// TestTrap7ServerThatWasSetBackResurrectsNothing is about a promoted replica or
// an old snapshot: it has a value that was dropped since, and leases that were
// void. Both belong to another authority and are not believed. Real servers are
// set back in the module test: TestPromotedReplicaIsNotBelieved.
func TestTrap7ServerThatWasSetBackResurrectsNothing(t *testing.T) {
	t.Run("value", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newShared()
			a := instance[string, int64](t, s)
			o := &origin{}
			mustGet(t, a, "k", o.load)
			old := s.tier.Snapshot()
			must(t, a.Invalidate(t.Context(), "k"))
			o.value.Store(2)
			s.tier.Restore(old)
			wantAbsent(t, "an instance without L1", instance[string, int64](t, s))
			if v := mustGet(t, a, "k", o.load); v != 2 {
				t.Errorf("the instance that invalidated got %d, want 2", v)
			}
		})
	})
	t.Run("lease", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newShared()
			a, b := instance[string, int64](t, s), instance[string, int64](t, s)
			o := &origin{takes: time.Second}
			loaded := make(chan int64)
			go func() { loaded <- mustGet(t, a, "k", o.load) }()
			synctest.Wait()
			old := s.tier.Snapshot()
			must(t, b.Invalidate(t.Context(), "k"))
			s.tier.Restore(old)
			<-loaded
			wantAbsent(t, "an instance without L1", instance[string, int64](t, s))
			wantAbsent(t, "the instance whose load was overtaken", a)
		})
	})
}

// TestTrap8EntryIsStampedWhenItsFlightBegins is about a watermark that is set while a
// flight runs: the flight's value is older than the watermark, whenever it is
// inserted.
func TestTrap8EntryIsStampedWhenItsFlightBegins(t *testing.T) {
	t.Run("gap during the flight", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newShared()
			w, ear := newWire(s), s.bus.Connect()
			a := instance[string, int64](t, s)
			b := instance(t, s, w.use, func(o *strata.Options[string, int64]) { o.Remote.Bus = ear })
			must(t, a.Set(t.Context(), "k", 1))
			synctest.Wait()
			w.slows("Get", 0, 50*time.Millisecond) // it has the old value with it
			done := make(chan int64)
			go func() { done <- mustGet(t, b, "k", unavailable) }()
			synctest.Wait()
			ear.Cut()
			must(t, a.Invalidate(t.Context(), "k"))
			ear.Join()
			synctest.Wait()
			if v := mustGet(t, b, "k", func(context.Context, string) (int64, error) { return 2, nil }); v != 2 {
				t.Errorf("who called after the gap got %d, want 2", v)
			}
			must(t, a.Invalidate(t.Context(), "k"))
			if v := <-done; v != 1 {
				t.Errorf("who had called before got %d, want 1", v)
			}
			wantAbsent(t, "the instance that had the gap", b)
		})
	})
	t.Run("flight that ends as its lane becomes suspect", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newShared()
			s.tier = stratatest.NewTierLanes(1)
			s.tier.Announce(s.bus)
			w, ear := newWire(s), s.bus.Connect()
			a := instance[string, int64](t, s)
			b := instance(t, s, w.use, func(o *strata.Options[string, int64]) { o.Remote.Bus = ear })
			must(t, a.Set(t.Context(), "k", 1))
			time.Sleep(time.Millisecond) // all that connecting takes is done
			w.slows("Get", 0, 50*time.Millisecond)
			done := make(chan int64)
			go func() { done <- mustGet(t, b, "k", unavailable) }()
			synctest.Wait()
			ear.Lose(1)
			must(t, a.Invalidate(t.Context(), "k"))
			time.Sleep(50*time.Millisecond - 500*time.Nanosecond)
			must(t, a.Invalidate(t.Context(), "other")) // tells of the loss
			<-done
			wantAbsent(t, "the instance that has missed a message", b)
		})
	})
}
