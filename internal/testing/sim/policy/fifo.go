package policy

// FIFO evicts the entry that came first (Belady: "A study of replacement algorithms
// for a virtual-storage computer", IBM Systems Journal, 1966). Hits change nothing.
type FIFO struct {
	slab
	capacity int
	order    list // by arrival
}

// NewFIFO returns an empty FIFO.
func NewFIFO(capacity int) *FIFO {
	return &FIFO{slab: newSlab(capacity), capacity: capacity, order: newList(make([]link, capacity))}
}

// Access asks for key and reports a hit.
func (p *FIFO) Access(key uint64) bool {
	if _, ok := p.index[key]; ok {
		return true
	}
	if p.order.n == p.capacity {
		p.drop(p.order.popFront())
	}
	p.order.pushBack(p.add(key))
	return false
}
