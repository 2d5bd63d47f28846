package castier_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
)

// pair returns the Tiers of two instances. They began at any time, and so know the
// server's clock more or less well.
func pair(t *testing.T) (m *lab.Model, one, other *castier.Tier) {
	m = lab.NewModel(t, 1)
	tiers := make([]*castier.Tier, 2)
	for i := range tiers {
		time.Sleep(time.Duration(rand.Int64N(int64(time.Second)))) // in the bubble's time
		tiers[i] = castier.NewFleet(m).Bind(remote.Space{Name: "users", Instance: uint64(i)}).(*castier.Tier)
		for range rand.IntN(20) {
			get(t, tiers[i], "any")
			time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) // in the bubble's time
		}
	}
	return m, tiers[0], tiers[1]
}

const life = 5 * time.Second

// TestLivesEndEarlyRatherThanLate stores a value with one instance and reads it with
// another: it is there until two seconds before its end, and never at its end.
func TestLivesEndEarlyRatherThanLate(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			_, one, other := pair(t)
			l := acquire(t, one, "k").Lease
			if _, err := one.Put(t.Context(), []remote.Put{{Key: "k", Data: []byte("v"), Fresh: life, Left: life, Lease: l}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(life - 2010*time.Millisecond) // in the bubble's time
			if held := get(t, other, "k"); held.Fresh <= 0 || held.Fresh > 2010*time.Millisecond {
				t.Errorf("two seconds before its end: %+v", held)
			}
			time.Sleep(2010 * time.Millisecond) // in the bubble's time
			if held := get(t, other, "k"); !held.Absent() {
				t.Errorf("at its end: %+v", held)
			}
		})
	}
}

// TestItemsOutliveTheirValues: the server keeps an item until the value in it ends for
// every reader.
func TestItemsOutliveTheirValues(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			m, one, _ := pair(t)
			l := acquire(t, one, "k").Lease
			if _, err := one.Put(t.Context(), []remote.Put{{Key: "k", Data: []byte("v"), Fresh: life, Left: life, Lease: l}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(life) // in the bubble's time
			m.Each(0, func(key string, is *lab.ModelItem) {
				if !is.Until.IsZero() && !time.Now().Before(is.Until) {
					t.Errorf("the server has forgotten %q", key)
				}
				if !is.Until.IsZero() && time.Until(is.Until) > 5*time.Second {
					t.Errorf("the server keeps %q for another %v", key, time.Until(is.Until))
				}
			})
		})
	}
}

// TestHoldsEndLateRatherThanEarly puts a key on hold with one instance and asks with
// another.
func TestHoldsEndLateRatherThanEarly(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			_, one, other := pair(t)
			drop(t, one, remote.Drop{Key: "k", Hold: life})
			acquire(t, one, "k")                  // must not let the hold begin anew
			time.Sleep(life - 2*time.Millisecond) // in the bubble's time
			drop(t, other, remote.Drop{Key: "k"}) // must not end it
			time.Sleep(time.Millisecond)          // in the bubble's time
			if got := acquire(t, other, "k").Lease; got.Grant != remote.OnHold {
				t.Errorf("before its end: %+v", got)
			}
			time.Sleep(2100 * time.Millisecond) // in the bubble's time
			if got := acquire(t, other, "k").Lease; got.Grant != remote.Granted {
				t.Errorf("two seconds after its end: %+v", got)
			}
		})
	}
}

// TestRightsOfTheTimeBeforeAHoldDoNotEndIt renews and gives back the lease that the hold has voided.
func TestRightsOfTheTimeBeforeAHoldDoNotEndIt(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			_, one, other := pair(t)
			old := acquire(t, other, "k").Lease
			drop(t, one, remote.Drop{Key: "k", Hold: life})
			time.Sleep(life - 2*time.Millisecond) // in the bubble's time
			if renewed, err := other.Renew(t.Context(), "k", old, life); renewed || err != nil {
				t.Errorf("a lease from before the hold is renewed: %t, %v", renewed, err)
			}
			if err := other.Release(t.Context(), "k", old); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond) // in the bubble's time
			if got := acquire(t, other, "k").Lease; got.Grant != remote.OnHold {
				t.Errorf("before its end: %+v", got)
			}
		})
	}
}

// TestRenewedLeaseIsHeldForAll: also for an instance that knows the clock less well, or not at all.
func TestRenewedLeaseIsHeldForAll(t *testing.T) {
	renew := func(t *testing.T, one, other *castier.Tier, length time.Duration) {
		t.Helper()
		got, err := one.Acquire(t.Context(), []remote.Request{{Key: "k"}}, length)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(length / 3) // in the bubble's time
		if renewed, err := one.Renew(t.Context(), "k", got[0].Lease, length); !renewed || err != nil {
			t.Errorf("a lease of %v is lost after a third of it: %v", length, err)
		}
		if length > 2*time.Second {
			if a := acquire(t, other, "k").Lease; a.Grant != remote.Busy {
				t.Errorf("just renewed: %+v", a)
			}
		}
		if !put(t, one, "k", "v", got[0].Lease) {
			t.Errorf("a value under a lease of %v is refused", length)
		}
	}
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			_, one, other := pair(t)
			renew(t, one, other, life)
		})
	}
	for _, length := range []time.Duration{100 * time.Millisecond, time.Second, life} {
		synctest.Test(t, func(t *testing.T) {
			rows := clockless{&table{rows: map[string]row{}}}
			renew(t, castier.New(rows), castier.New(rows), length)
		})
	}
}

// TestSoftDropEndsEarlyRatherThanLate drops with one instance and reads with another.
func TestSoftDropEndsEarlyRatherThanLate(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			_, one, other := pair(t)
			put(t, one, "k", "v", acquire(t, one, "k").Lease)
			drop(t, one, remote.Drop{Key: "k", Soft: true, Left: life})
			time.Sleep(life - 2010*time.Millisecond) // in the bubble's time
			if held := get(t, other, "k"); held.Absent() || held.Fresh > 0 {
				t.Errorf("two seconds before its end: %+v", held)
			}
			time.Sleep(2010 * time.Millisecond) // in the bubble's time
			if held := get(t, other, "k"); !held.Absent() {
				t.Errorf("at its end: %+v", held)
			}
		})
	}
}

// TestHoldOfMicrosecondsHolds puts a key on hold for less than the unit of time.
func TestHoldOfMicrosecondsHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, one, other := pair(t)
		drop(t, one, remote.Drop{Key: "k", Hold: 900 * time.Microsecond})
		time.Sleep(899 * time.Microsecond) // in the bubble's time
		if got := acquire(t, other, "k").Lease; got.Grant != remote.OnHold {
			t.Errorf("%+v", got)
		}
	})
}

// TestAFreeValueIsFresh asks for leases about the end of a value's freshness.
func TestAFreeValueIsFresh(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			_, one, other := pair(t)
			l := acquire(t, one, "k").Lease
			if _, err := one.Put(t.Context(), []remote.Put{{Key: "k", Data: []byte("v"), Fresh: life, Left: time.Hour, Lease: l}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(life - 2010*time.Millisecond) // in the bubble's time
			for range 100 {
				a := acquire(t, other, "k")
				if a.Lease.Grant == remote.Free && a.Held.Fresh <= 0 {
					t.Fatalf("%+v", a)
				}
				if a.Lease.Grant == remote.Granted {
					return
				}
				time.Sleep(30 * time.Millisecond) // in the bubble's time
			}
			t.Error("the value is fresh for more than it was to be")
		})
	}
}

// TestAnAnswerFromBeforeRecheckIsForgotten has another instance drop everything while
// the counters are on their way to this one.
func TestAnAnswerFromBeforeRecheckIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, one, other := pair(t)
		if !put(t, one, "k", "old", acquire(t, one, "k").Lease) {
			t.Fatal("refused")
		}
		time.Sleep(2 * time.Second) // in the bubble's time: the counters are read again
		m.After = func(c *lab.ModelCall) {
			if strings.HasSuffix(c.First(), ":d") {
				m.After = nil
				if err := other.DropAll(t.Context(), false); err != nil {
					t.Error(err)
				}
				one.Recheck()
			}
		}
		get(t, one, "k")
		if m.After != nil {
			t.Fatal("the counters were not read")
		}
		if held := get(t, one, "k"); !held.Absent() {
			t.Errorf("after Recheck: %+v", held)
		}
	})
}

// TestClockThatWasAskedForBeforeRecheckIsKnown has a message arrive while the first lease of an
// instance is on its way: its value with tags must not count as dropped.
func TestClockThatWasAskedForBeforeRecheckIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, one, other := pair(t)
		m.After = func(c *lab.ModelCall) {
			if len(c.Adds) > 0 && strings.HasSuffix(c.First(), ":c") {
				one.Recheck()
			}
		}
		lease := acquire(t, one, "k").Lease
		m.After = nil
		if _, err := one.Put(t.Context(), []remote.Put{{Key: "k", Data: []byte("v"), Fresh: life, Left: life, Lease: lease, Tags: []string{"t"}}}); err != nil {
			t.Fatal(err)
		}
		if is := tagsOf(t, other, "t"); is.Dropped > lease.Clock {
			t.Errorf("the tag was dropped at %d, the lease has clock %d", is.Dropped, lease.Clock)
		}
	})
}

// TestCallerThatIsHeldUpIsGrantedNoSecondLease has a caller held up before its read, while another gets
// the lease. A value stored meanwhile is over for such a caller when its life has ended.
func TestCallerThatIsHeldUpIsGrantedNoSecondLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lab.NewModel(t, 1)
		var meanwhile func()
		slow := another(lab.Around(m, func(ctx context.Context, _ int, c *lab.ModelCall, run func(context.Context) error) error {
			if f := meanwhile; f != nil && len(c.Keys) > 0 {
				meanwhile = nil
				f()
			}
			return run(ctx)
		}))
		other := another(m)
		acquire(t, slow, "before") // the clock is known
		var first remote.Lease
		meanwhile = func() {
			time.Sleep(5 * time.Second) // in the bubble
			first = acquire(t, other, "k").Lease
		}
		if l := acquire(t, slow, "k").Lease; first.Grant != remote.Granted || l.Grant != remote.Busy || l.Wait > time.Minute+time.Second {
			t.Errorf("after %+v the caller that was held up got %+v; want Busy", first, l)
		}
		meanwhile = func() {
			if !put(t, other, "k", "v", first) {
				t.Error("refused")
			}
			time.Sleep(2 * time.Minute) // in the bubble: it is fresh for one
		}
		held, err := slow.Get(t.Context(), []string{"k"})
		if err != nil || string(held[0].Data) != "v" || held[0].Fresh > 0 {
			t.Errorf("%+v, %v; want a stale value", held, err)
		}
	})
}
