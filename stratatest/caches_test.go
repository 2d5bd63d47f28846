package stratatest_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/stratatest"
)

var errOrigin = errors.New("origin is down")

// numbers returns options with a Loader that returns 1, 2, 3 …, and an error beside
// the number while failing is set.
func numbers(failing *bool) strata.Options[string, int] {
	n := 0
	return strata.Options[string, int]{
		TTL: time.Minute,
		Loader: func(context.Context, string) (int, error) {
			if n++; failing != nil && *failing {
				return n, errOrigin
			}
			return n, nil
		},
	}
}

func TestPlainEntryIsServedToItsTTLAndNotLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := false
		c, err := strata.New(stratatest.Plain(numbers(&failing)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		for i := range 60 { // many keys: jitter would end one of them early
			key := string(rune('A' + i))
			first, err := c.GetOrLoad(t.Context(), key, nil)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute - time.Millisecond) // in the bubble's time
			for range 2 {
				last, err := c.GetOrLoad(t.Context(), key, nil)
				if err != nil || last != first {
					t.Errorf("at the end of the TTL: %d, %v; want %d", last, err, first)
				}
				synctest.Wait() // a refresh would have ended
			}
			time.Sleep(2 * time.Millisecond)
			if next, err := c.GetOrLoad(t.Context(), key, nil); err != nil || next != first+1 {
				t.Errorf("after the TTL: %d, %v; want %d, of one load", next, err, first+1)
			}
		}
		failing = true
		time.Sleep(time.Minute)
		if v, err := c.GetOrLoad(t.Context(), "A", nil); !errors.Is(err, errOrigin) {
			t.Errorf("with a failing origin: %d, %v", v, err)
		}
	})
}

func TestPlainCacheRemembersNoFailure(t *testing.T) {
	failing := true
	c, err := strata.New(stratatest.Plain(numbers(&failing)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	for range 3 {
		if _, err := c.GetOrLoad(t.Context(), "k", nil); !errors.Is(err, errOrigin) {
			t.Error(err)
		}
	}
	failing = false
	if v, err := c.GetOrLoad(t.Context(), "k", nil); v != 4 || err != nil {
		t.Errorf("%d, %v; want 4, of the fourth load", v, err)
	}
}

func TestPlainKeepsTheOtherOptions(t *testing.T) {
	o := numbers(nil)
	o.Name, o.NotFoundTTL, o.Memory.MaxEntries, o.Limits.MaxLoads = "n", time.Second, 5, 6
	p := stratatest.Plain(o)
	if p.Name != "n" || p.TTL != time.Minute || p.NotFoundTTL != time.Second || p.Memory.MaxEntries != 5 || p.Limits.MaxLoads != 6 || p.Loader == nil {
		t.Errorf("%+v", p)
	}
	if o.Jitter != 0 || o.ErrorTTL != 0 {
		t.Errorf("the options of the caller have changed: %+v", o)
	}
}

// TestPairSharesEntriesAndDrops runs in a bubble, where Wait shows that the drop arrives
// without any time passing, and with the clock of the system.
func TestPairSharesEntriesAndDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := stratatest.Pair(t, stratatest.Plain(numbers(nil)))
		shared(t, a, b)
		if err := a.Invalidate(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if v, ok := b.Get(t.Context(), "k"); ok {
			t.Errorf("b has %d, which a has dropped", v)
		}
	})
	a, b := stratatest.Pair(t, stratatest.Plain(numbers(nil)))
	shared(t, a, b)
}

// shared loads a key on one instance and reads it on both.
func shared(t *testing.T, a, b *strata.Cache[string, int]) {
	t.Helper()
	for _, c := range []*strata.Cache[string, int]{a, b, a, b} {
		var info strata.Info
		if v, err := c.GetOrLoad(t.Context(), "k", nil, strata.ReadInfo(&info)); v != 1 || err != nil || info.Degraded {
			t.Errorf("%d, %v, degraded %v; want 1, of one load", v, err, info.Degraded)
		}
		if !c.Stats().Connected {
			t.Error("an instance is not connected")
		}
	}
}

func TestPairUsesTheTierAndBusOfItsOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := stratatest.Plain(numbers(nil))
		o.Name = "named"
		tier, bus := stratatest.NewTier(), stratatest.NewBus()
		o.Remote.Tier, o.Remote.Bus = tier, bus
		a, b := stratatest.Pair(t, o)
		shared(t, a, b)
		if a.Name() != "named" {
			t.Errorf("name %q", a.Name())
		}
		tier.Restart() // the entry is in this tier, and in L1 until then
		bus.Cut()
		synctest.Wait()
		if a.Stats().Connected || !b.Stats().Connected {
			t.Errorf("connected %v and %v after the connection of a is cut", a.Stats().Connected, b.Stats().Connected)
		}
	})
}

func TestPairIsClosedWhenItsTestEnds(t *testing.T) {
	var a, b *strata.Cache[string, int]
	t.Run("test", func(t *testing.T) { a, b = stratatest.Pair(t, numbers(nil)) })
	for _, c := range []*strata.Cache[string, int]{a, b} {
		if _, err := c.GetOrLoad(context.Background(), "k", nil); !errors.Is(err, strata.ErrClosed) {
			t.Errorf("after the test: %v", err)
		}
	}
}

func TestPairFailsItsTestIfTheOptionsAreRefused(t *testing.T) {
	r := &refusal{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stratatest.Pair(r, strata.Options[string, int]{}) // no TTL
	}()
	<-ended
	if !r.failed {
		t.Error("the test goes on")
	}
}

// refusal is a test that notes that it was ended.
type refusal struct {
	testing.TB
	failed bool
}

func (r *refusal) Fatal(...any) {
	r.failed = true
	runtime.Goexit()
}
