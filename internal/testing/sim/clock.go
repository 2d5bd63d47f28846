package sim

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

// Sieve is SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi: "SIEVE is simpler than LRU",
// NSDI, 2024). A hand passes the entries from the oldest to the youngest. It clears
// the marks that hits set, and evicts the first entry without one. Entries stay where
// they are.
type Sieve struct {
	slab
	capacity int
	order    list // by arrival
	visited  []bool
	hand     uint32 // entry that the hand looks at next; none is the oldest
}

// NewSieve returns an empty Sieve.
func NewSieve(capacity int) *Sieve {
	return &Sieve{
		slab: newSlab(capacity), capacity: capacity, order: newList(make([]link, capacity)),
		visited: make([]bool, capacity), hand: none,
	}
}

// Access asks for key and reports a hit.
func (p *Sieve) Access(key uint64) bool {
	if i, ok := p.index[key]; ok {
		p.visited[i] = true
		return true
	}
	if p.order.n == p.capacity {
		p.evict()
	}
	i := p.add(key)
	p.visited[i] = false
	p.order.pushBack(i)
	return false
}

func (p *Sieve) evict() {
	i := p.at(p.hand)
	for p.visited[i] {
		p.visited[i] = false
		i = p.at(p.order.links[i].next)
	}
	p.hand = p.order.links[i].next
	p.order.remove(i)
	p.drop(i)
}

// at returns i, and the oldest entry for none.
func (p *Sieve) at(i uint32) uint32 {
	if i == none {
		return p.order.front
	}
	return i
}
