package policy

// clockMaxCount is the number of hits that an entry of Clock counts: 2 bits.
const clockMaxCount = 3

// Clock is CLOCK with a counter of 2 bits in place of the bit (Corbató: "A paging
// experiment with the Multics system", 1969; the counter as in Smith: "Sequentiality
// and prefetching in database systems", ACM TODS, 1978). The hand passes the entries
// in the order of their arrival. It decrements counters, and evicts at 0.
type Clock struct {
	slab
	capacity int
	count    []uint8
	hand     uint32 // slot that the hand looks at next
}

// NewClock returns an empty Clock.
func NewClock(capacity int) *Clock {
	return &Clock{slab: newSlab(capacity), capacity: capacity, count: make([]uint8, capacity)}
}

// Access asks for key and reports a hit.
func (p *Clock) Access(key uint64) bool {
	if i, ok := p.index[key]; ok {
		p.count[i] = min(p.count[i]+1, clockMaxCount)
		return true
	}
	if p.Len() == p.capacity {
		p.evict()
	}
	p.count[p.add(key)] = 0
	return false
}

// evict frees the slot that the next key takes, and moves the hand behind it.
func (p *Clock) evict() {
	for p.count[p.hand] > 0 {
		p.count[p.hand]--
		p.step()
	}
	p.drop(p.hand)
	p.step()
}

func (p *Clock) step() {
	if p.hand++; p.hand == uint32(p.capacity) {
		p.hand = 0
	}
}
