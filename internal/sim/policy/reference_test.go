package policy_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/strata-cache/strata/internal/sim/policy"
)

// cache is a policy under test.
type cache interface {
	Access(key uint64) bool
	Len() int
}

// agree runs a policy and its reference on small random traces.
func agree(t *testing.T, policy, reference func(capacity int) cache) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	for round := range 300 {
		capacity, keys := 1+random.IntN(12), 1+random.Uint64N(30)
		p, r := policy(capacity), reference(capacity)
		for i := range 400 {
			key := random.Uint64N(keys)
			if random.IntN(3) == 0 {
				key = random.Uint64N(1 + keys/4)
			}
			got, want := p.Access(key), r.Access(key)
			if got != want || p.Len() != r.Len() {
				t.Fatalf("round %d, capacity %d, request %d for %d: hit %t and %d keys, the reference says %t and %d",
					round, capacity, i, key, got, p.Len(), want, r.Len())
			}
		}
	}
}

// naive keeps its keys in a slice. Hit and victim are the policy.
type naive struct {
	keys     []uint64
	capacity int
	hit      func(n *naive, at int)
	victim   func(n *naive) int
	entered  func(n *naive, key uint64)
}

func (n *naive) Len() int { return len(n.keys) }

func (n *naive) Access(key uint64) bool {
	if at := slices.Index(n.keys, key); at >= 0 {
		n.hit(n, at)
		return true
	}
	if len(n.keys) == n.capacity {
		at := n.victim(n)
		n.keys = slices.Delete(n.keys, at, at+1)
	}
	n.keys = append(n.keys, key)
	if n.entered != nil {
		n.entered(n, key)
	}
	return false
}

// toBack moves a key behind all others.
func (n *naive) toBack(at int) {
	key := n.keys[at]
	n.keys = append(slices.Delete(n.keys, at, at+1), key)
}

func first(*naive) int { return 0 }

func TestLRUAgreesWithItsReference(t *testing.T) {
	agree(t, func(c int) cache { return policy.NewLRU(c) }, func(c int) cache {
		return &naive{capacity: c, hit: (*naive).toBack, victim: first}
	})
}

func TestFIFOAgreesWithItsReference(t *testing.T) {
	agree(t, func(c int) cache { return policy.NewFIFO(c) }, func(c int) cache {
		return &naive{capacity: c, hit: func(*naive, int) {}, victim: first}
	})
}
