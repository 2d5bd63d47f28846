package sized

import "github.com/strata-cache/strata/internal/cache/evict"

// Engine is a policy of the engine of L1: the code of one shard, which decides here for
// objects without values.
type Engine struct {
	order       evict.Order
	bound, held int64
	listens     bool // the policy must be told of each hit
	heads       map[uint64]*evict.Head
	keys        map[*evict.Head]uint64
}

// NewEngine returns an empty cache with a policy of the engine and a bound in bytes.
func NewEngine(p evict.Policy, bound int64) *Engine {
	e := &Engine{bound: bound, listens: p.Listens(), heads: map[uint64]*evict.Head{}, keys: map[*evict.Head]uint64{}}
	e.order.Fit(p, bound, true)
	return e
}

// Access asks for an object and reports a hit.
func (e *Engine) Access(r Request) bool {
	if h := e.heads[r.Key]; h != nil {
		if e.listens {
			e.order.Hit(h)
		} else {
			h.Touch()
		}
		return true
	}
	if r.Size > e.bound {
		return false
	}
	hash, full := uint32(mix(r.Key)), e.held+r.Size > e.bound
	if full && e.order.Refuses(hash, r.Size) {
		return false
	}
	at := e.order.Admit(hash, r.Size, full)
	for e.held+r.Size > e.bound {
		gone := e.order.Evict(at, nil, 0)
		e.held -= gone.Weight
		delete(e.heads, e.keys[gone.Head])
		delete(e.keys, gone.Head)
	}
	h := &evict.Head{Dead: evict.Forever}
	e.order.Add(h, hash, r.Size, at, full, 0)
	e.held += r.Size
	e.heads[r.Key], e.keys[h] = h, r.Key
	return false
}

// Held returns the sum of the sizes of the objects in the cache.
func (e *Engine) Held() int64 { return e.held }

// mix spreads the bits of a key over all bits of the result (SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
