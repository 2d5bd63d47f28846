package sim_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/internal/testing/sim"
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
	agree(t, func(c int) cache { return sim.NewEngine(evict.LRU, c) }, func(c int) cache {
		return &naive{capacity: c, hit: (*naive).toBack, victim: first}
	})
}

func TestFIFOAgreesWithItsReference(t *testing.T) {
	agree(t, func(c int) cache { return sim.NewEngine(evict.FIFO, c) }, func(c int) cache {
		return &naive{capacity: c, hit: func(*naive, int) {}, victim: first}
	})
}

func TestLFUAgreesWithItsReference(t *testing.T) {
	agree(t, func(c int) cache { return sim.NewLFU(c) }, func(c int) cache { return naiveLFU(c, false) })
}

func TestCacheLFUAgreesWithItsReference(t *testing.T) {
	agree(t, func(c int) cache { return sim.NewEngine(evict.LFU, c) }, func(c int) cache { return naiveLFU(c, true) })
}

// naiveLFU is LFU, which may forget the counts of keys that it evicts.
func naiveLFU(capacity int, forgets bool) *naive {
	counts := map[uint64]int{}
	return &naive{
		capacity: capacity,
		hit: func(n *naive, at int) {
			counts[n.keys[at]]++
			n.toBack(at)
		},
		victim: func(n *naive) (at int) {
			for i, key := range n.keys {
				if counts[key] < counts[n.keys[at]] {
					at = i
				}
			}
			if forgets {
				delete(counts, n.keys[at])
			}
			return at
		},
		entered: func(_ *naive, key uint64) { counts[key]++ },
	}
}

// TestClockAgreesWithItsReference has a reference with a queue: each entry that the
// hand passes goes to the back.
func TestClockAgreesWithItsReference(t *testing.T) {
	agree(t, func(c int) cache { return sim.NewClock(c) }, func(c int) cache {
		counts := map[uint64]int{}
		return &naive{
			capacity: c,
			hit:      func(n *naive, at int) { counts[n.keys[at]] = min(3, counts[n.keys[at]]+1) },
			victim: func(n *naive) int {
				for counts[n.keys[0]] > 0 {
					counts[n.keys[0]]--
					n.toBack(0)
				}
				return 0
			},
		}
	})
}

func TestSieveAgreesWithItsReference(t *testing.T) {
	agree(t, func(c int) cache { return sim.NewSieve(c) }, func(c int) cache {
		visited := map[uint64]bool{}
		hand := 0
		return &naive{
			capacity: c,
			hit:      func(n *naive, at int) { visited[n.keys[at]] = true },
			victim: func(n *naive) int {
				for visited[n.keys[hand]] {
					visited[n.keys[hand]] = false
					hand = (hand + 1) % len(n.keys)
				}
				at := hand
				if hand == len(n.keys)-1 {
					hand = 0 // behind the youngest comes the oldest
				}
				return at
			},
		}
	})
}

func TestRandomEvictsEachEntryAsOftenAsAnother(t *testing.T) {
	const capacity, rounds = 4, 40_000
	p := sim.NewRandom(capacity)
	stayed := map[int]int{}
	for key := range uint64(rounds) {
		p.Access(key)
		for age := range min(key, capacity) {
			if p.Has(key - 1 - age) {
				stayed[int(age)]++
			}
		}
	}
	want := 1.0
	for age := range capacity {
		want *= 1 - 1.0/capacity
		if got := float64(stayed[age]) / rounds; got < want-0.02 || got > want+0.02 {
			t.Errorf("%.3f of the entries outlive %d evictions, want %.3f", got, age+1, want)
		}
	}
}
