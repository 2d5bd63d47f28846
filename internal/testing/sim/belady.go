package sim

import "math/bits"

// never is the next use of a key that the trace does not ask for again.
const never = ^uint32(0)

// future says for each request of a trace at which request its key comes next.
type future struct{ next []uint32 }

// foresee reads a whole trace.
func foresee(keys []uint64) future {
	f := future{next: make([]uint32, len(keys))}
	seen := make(map[uint64]uint32)
	for i := len(keys) - 1; i >= 0; i-- {
		next, ok := seen[keys[i]]
		if !ok {
			next = never
		}
		f.next[i] = next
		seen[keys[i]] = uint32(i)
	}
	return f
}

// Belady is the optimum: it evicts the key that the trace asks for latest (Belady:
// "A study of replacement algorithms for a virtual-storage computer", IBM Systems
// Journal, 1966). A key that comes later than all others in the cache is itself not
// kept, so no policy has more hits. Belady knows a trace in advance, and Access must
// get exactly the keys of that trace, in order, and each once.
type Belady struct {
	future   future
	at       int // request that comes next
	kept     positions
	capacity int
	n        int
}

// Access answers the next request of the trace and reports a hit.
func (p *Belady) Access(uint64) bool {
	hit := p.kept.remove(uint32(p.at))
	if hit {
		p.n--
	}
	if next := p.future.next[p.at]; next != never {
		p.kept.add(next)
		p.n++
	}
	if p.n > p.capacity {
		p.kept.remove(p.kept.last())
		p.n--
	}
	p.at++
	return hit
}

// Len returns the number of keys in the cache.
func (p *Belady) Len() int { return p.n }

// positions is a set of requests of a trace. A key in the cache is represented by
// its next request, of which there is one. Level 0 has one bit per request; each
// other level has one bit per word of the level below, set if that word is not 0.
type positions [][]uint64

func newPositions(n int) positions {
	var p positions
	for {
		n = (n + 63) / 64
		p = append(p, make([]uint64, max(1, n)))
		if n <= 1 {
			return p
		}
	}
}

func (p positions) add(i uint32) {
	for _, level := range p {
		level[i/64] |= 1 << (i % 64)
		i /= 64
	}
}

// remove takes i out of the set and reports whether it was there.
func (p positions) remove(i uint32) bool {
	if p[0][i/64]&(1<<(i%64)) == 0 {
		return false
	}
	for _, level := range p {
		level[i/64] &^= 1 << (i % 64)
		if level[i/64] != 0 {
			break
		}
		i /= 64
	}
	return true
}

// last returns the greatest request in the set, which must not be empty.
func (p positions) last() (i uint32) {
	for level := len(p) - 1; level >= 0; level-- {
		i = i*64 + uint32(bits.Len64(p[level][i])) - 1
	}
	return i
}
