package policy

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
