package policy

import "math/rand/v2"

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
