package sim

// Constants of LIRS.
const (
	lirsCold   = 1 // percent of the capacity for cold entries: they have no low recency between two uses
	lirsGhosts = 2 // evicted keys in the stack at most, per entry of the cache
)

// LIRS is the low inter-reference recency set (Jiang, Zhang: "LIRS: an efficient low
// inter-reference recency set replacement policy to improve buffer cache performance",
// SIGMETRICS, 2002). Hot entries have a short distance between their last two uses. A
// cold entry, or an evicted key that the stack remembers, becomes hot if it is used
// again while it is younger in the stack than some hot entry. The stack remembers a
// bounded number of evicted keys, the youngest, as in Caffeine's simulator.
type LIRS struct {
	slab     // entries, and evicted keys
	state    []uint8
	inStack  []bool
	stack    list // of all states, by last use; its front is hot
	cold     list // the next entries to evict, in this order
	ghosts   list // evicted keys in the stack, by eviction
	hot      int
	capacity int
}

// States of keys in LIRS; LIR, resident HIR and non-resident HIR in the paper.
const (
	lirsHotEntry uint8 = iota
	lirsColdEntry
	lirsGhost
)

// NewLIRS returns an empty LIRS.
func NewLIRS(capacity int) *LIRS {
	n := capacity*(1+lirsGhosts) + 1
	links := make([]link, n)
	return &LIRS{
		slab: newSlab(n), state: make([]uint8, n), inStack: make([]bool, n), capacity: capacity,
		stack: newList(make([]link, n)), cold: newList(links), ghosts: newList(links),
	}
}

// Len returns the number of entries.
func (p *LIRS) Len() int { return p.hot + p.cold.n }

// hotSize returns how many entries are hot in a full cache.
func (p *LIRS) hotSize() int { return p.capacity - max(1, p.capacity*lirsCold/100) }

// Access asks for key and reports a hit.
func (p *LIRS) Access(key uint64) bool {
	i, known := p.index[key]
	switch {
	case known && p.state[i] == lirsHotEntry:
		p.toTop(i)
		p.prune()
		return true
	case known && p.state[i] == lirsColdEntry:
		p.useCold(i)
		return true
	}
	p.insert(key)
	return false
}

// useCold makes a cold entry hot if the stack has it.
func (p *LIRS) useCold(i uint32) {
	if p.inStack[i] {
		p.cold.remove(i)
		p.makeHot(i)
		return
	}
	p.toTop(i)
	p.cold.moveToBack(i)
}

// insert puts in an evicted or unknown key.
func (p *LIRS) insert(key uint64) {
	if p.Len() == p.capacity {
		p.evict()
	}
	i, known := p.index[key]
	if known {
		p.ghosts.remove(i)
	} else {
		i = p.add(key)
	}
	if known || p.hot < p.hotSize() {
		p.makeHot(i)
		return
	}
	p.toTop(i)
	p.state[i] = lirsColdEntry
	p.cold.pushBack(i)
}

// evict evicts the first cold entry. The stack remembers its key if it has it.
func (p *LIRS) evict() {
	i := p.cold.popFront()
	if !p.inStack[i] {
		p.drop(i)
		return
	}
	p.state[i] = lirsGhost
	p.ghosts.pushBack(i)
	if p.ghosts.n > lirsGhosts*p.capacity {
		p.forget(p.ghosts.front)
	}
}

// makeHot makes a key hot. The key must be in no other list than the stack. If there
// are too many hot entries, the one with the oldest last use becomes cold.
func (p *LIRS) makeHot(i uint32) {
	p.toTop(i)
	p.state[i] = lirsHotEntry
	p.hot++
	p.prune()
	if p.hot <= p.hotSize() {
		return
	}
	oldest := p.stack.front
	p.leaveStack(oldest)
	p.state[oldest] = lirsColdEntry
	p.hot--
	p.cold.pushBack(oldest)
	p.prune()
}

// prune removes keys from the bottom of the stack until a hot key is at the bottom.
func (p *LIRS) prune() {
	for p.stack.n > 0 {
		i := p.stack.front
		switch p.state[i] {
		case lirsHotEntry:
			return
		case lirsColdEntry:
			p.leaveStack(i)
		default:
			p.forget(i)
		}
	}
}

// forget drops an evicted key.
func (p *LIRS) forget(i uint32) {
	p.ghosts.remove(i)
	p.leaveStack(i)
	p.drop(i)
}

func (p *LIRS) toTop(i uint32) {
	if p.inStack[i] {
		p.stack.moveToBack(i)
		return
	}
	p.stack.pushBack(i)
	p.inStack[i] = true
}

func (p *LIRS) leaveStack(i uint32) {
	p.stack.remove(i)
	p.inStack[i] = false
}
