package policy

// LRU evicts the least recently used entry (Mattson, Gecsei, Slutz, Traiger:
// "Evaluation techniques for storage hierarchies", IBM Systems Journal, 1970).
type LRU struct {
	slab
	capacity int
	order    list // by last use
}

// NewLRU returns an empty LRU.
func NewLRU(capacity int) *LRU {
	return &LRU{slab: newSlab(capacity), capacity: capacity, order: newList(make([]link, capacity))}
}

// Access asks for key and reports a hit.
func (p *LRU) Access(key uint64) bool {
	if i, ok := p.index[key]; ok {
		p.order.moveToBack(i)
		return true
	}
	if p.order.n == p.capacity {
		p.drop(p.order.popFront())
	}
	p.order.pushBack(p.add(key))
	return false
}
