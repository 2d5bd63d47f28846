package sim

import (
	"math/rand/v2"

	"github.com/strata-cache/strata/internal/cache/evict"
)

// Engine is a policy of the engine of L1: the code of one shard, which decides here for
// keys without values.
type Engine struct {
	order    evict.Order
	capacity int
	listens  bool // the policy must be told of each hit
	heads    map[uint64]*evict.Head
	keys     map[*evict.Head]uint64
}

// NewEngine returns an empty cache with a policy of the engine.
func NewEngine(p evict.Policy, capacity int) *Engine {
	e := &Engine{
		capacity: capacity, listens: p.Listens(),
		heads: make(map[uint64]*evict.Head, capacity), keys: make(map[*evict.Head]uint64, capacity),
	}
	e.order.Fit(p, int64(capacity), false)
	return e
}

// Access asks for key and reports a hit.
func (e *Engine) Access(key uint64) bool {
	if h := e.heads[key]; h != nil {
		if e.listens {
			e.order.Hit(h)
		} else {
			h.Touch()
		}
		return true
	}
	hash, full := hash(key), len(e.heads) == e.capacity
	at := e.order.Admit(hash, 1, full)
	if full {
		gone := e.order.Evict(at, nil, 0).Head
		delete(e.heads, e.keys[gone])
		delete(e.keys, gone)
	}
	h := &evict.Head{Dead: evict.Forever}
	e.order.Add(h, hash, 1, at, full, 0)
	e.heads[key], e.keys[h] = h, key
	return false
}

// Has reports whether the cache holds key.
func (e *Engine) Has(key uint64) bool { return e.heads[key] != nil }

// Len returns the number of keys in the cache.
func (e *Engine) Len() int { return len(e.heads) }

// hash is the hash of a key in the engine.
func hash(key uint64) uint32 { return uint32(mix(key)) }

// Random evicts an entry at random, each with the same probability (Belady: "A study
// of replacement algorithms for a virtual-storage computer", IBM Systems Journal,
// 1966).
type Random struct {
	slab
	capacity int
	random   *rand.Rand
}

// NewRandom returns an empty Random. Its random numbers are the same in every run.
func NewRandom(capacity int) *Random {
	return &Random{slab: newSlab(capacity), capacity: capacity, random: rand.New(rand.NewPCG(3, 4))}
}

// Access asks for key and reports a hit.
func (p *Random) Access(key uint64) bool {
	if _, ok := p.index[key]; ok {
		return true
	}
	if p.Len() == p.capacity {
		p.drop(uint32(p.random.IntN(p.capacity)))
	}
	p.add(key)
	return false
}
