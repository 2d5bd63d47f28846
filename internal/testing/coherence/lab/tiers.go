package lab

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// Patient is an L2 that can hang or fail, and counts its operations.
type Patient struct {
	Hangs, Fails atomic.Bool
	Asked        atomic.Int64
}

// On returns t with the illness of p. Questions that a cache asks in the background do
// not count.
func (p *Patient) On(t remote.Tier) remote.Tier {
	return stratatest.FaultyTier(t, func(op, _ string) (time.Duration, error) {
		if op != "Position" && op != "Changes" && op != "Probe" {
			p.Asked.Add(1)
		}
		switch {
		case p.Hangs.Load():
			return time.Hour, nil
		case p.Fails.Load():
			return 0, errors.New("connection refused")
		}
		return 0, nil
	})
}

// IllInstance returns an instance with an ill L2.
func IllInstance(t *testing.T, s *Shared, p *Patient, change ...func(*strata.Options[string, int64])) *strata.Cache[string, int64] {
	t.Helper()
	ill := func(o *strata.Options[string, int64]) { o.Remote.Tier = p.On(s.Tier) }
	return Instance(t, s, append([]func(*strata.Options[string, int64]){ill}, change...)...)
}

// CountCalls returns a tier that counts the operations of t.
func CountCalls(t remote.Tier) (remote.Tier, func(op string) int64) {
	var mu sync.Mutex
	asked := map[string]int64{}
	tier := stratatest.FaultyTier(t, func(op, _ string) (time.Duration, error) {
		mu.Lock()
		defer mu.Unlock()
		asked[op]++
		return 0, nil
	})
	return tier, func(op string) int64 {
		mu.Lock()
		defer mu.Unlock()
		return asked[op]
	}
}

// NewTagged returns a new Shared with a running clock of tags: one tag was dropped.
func NewTagged(t *testing.T) *Shared {
	s := NewShared()
	Must(t, ViewOf(s).DropTags(t.Context(), []string{"first"}, false))
	return s
}

// unrefreshing is a tier that grants no leases for fresh values.
type unrefreshing struct{ remote.Tier }

// WithoutRefresh returns t without leases for fresh values.
func WithoutRefresh(t remote.Tier) remote.Tier { return unrefreshing{t} }

// Unwrap returns the tier below.
func (u unrefreshing) Unwrap() remote.Tier { return u.Tier }

// Wrap returns the same around another tier.
func (u unrefreshing) Wrap(inner remote.Tier) remote.Tier { return WithoutRefresh(inner) }

// Acquire asks for leases that replace no value.
func (u unrefreshing) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	r = slices.Clone(r)
	for i := range r {
		r[i].Replace = 0
	}
	return u.Tier.Acquire(ctx, r, d)
}

// Shared is an L2 and a bus for several instances in one bubble.
type Shared struct {
	Tier *stratatest.Tier
	Bus  *stratatest.Bus
}

// NewShared returns an L2 that announces its drops on a bus.
func NewShared() *Shared {
	s := &Shared{Tier: stratatest.NewTier(), Bus: stratatest.NewBus()}
	s.Tier.Announce(s.Bus)
	return s
}

// Instance returns a cache on s with a connection of its own to the bus.
func Instance[K comparable, V any](t *testing.T, s *Shared, change ...func(*strata.Options[K, V])) *strata.Cache[K, V] {
	t.Helper()
	c := NewCache(t, append([]func(*strata.Options[K, V]){func(o *strata.Options[K, V]) {
		o.Remote.Tier, o.Remote.Bus = s.Tier, s.Bus.Connect()
	}}, change...)...)
	synctest.Wait() // the bus is connected
	return c
}

// Failing returns t with an operation that fails while down is set.
func Failing(t remote.Tier, operation string, down *atomic.Bool) remote.Tier {
	return stratatest.FaultyTier(t, func(op, _ string) (time.Duration, error) {
		if op == operation && down.Load() {
			return 0, errors.New("down")
		}
		return 0, nil
	})
}

// Stalling returns t with an operation that takes d while slow is set.
func Stalling(t remote.Tier, operation string, d time.Duration, slow *atomic.Bool) remote.Tier {
	return stratatest.FaultyTier(t, func(op, _ string) (time.Duration, error) {
		if op == operation && slow.Load() {
			return d, nil
		}
		return 0, nil
	})
}

// ViewOf is a view of the tier for the test itself. It has the same namespace as the
// caches of NewCache.
func ViewOf(s *Shared) *stratatest.Tier {
	return s.Tier.Bind(remote.Space{Name: "test"}).(*stratatest.Tier)
}
