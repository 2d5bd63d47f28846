package sim

// LFU is perfect LFU without ageing: it counts all requests for each key, also while
// the key is not in the cache, forgets none, and evicts the entry with the lowest
// count, of several the least recently used (Breslau, Cao, Fan, Phillips, Shenker:
// "Web caching and Zipf-like distributions", INFOCOM, 1999). A key that comes is always
// put in. The counts need memory for every key of the trace.
type LFU struct {
	slab
	capacity int
	counts   map[uint64]uint32 // requests for every key so far
	uses     []use             // of an entry
	heap     []uint32          // entries, the victim first
	place    []uint32          // of an entry in heap
	clock    uint32            // counts requests
}

// use says how often and when an entry was asked for.
type use struct{ count, last uint32 }

func (u use) before(v use) bool { return u.count < v.count || u.count == v.count && u.last < v.last }

// NewLFU returns an empty LFU.
func NewLFU(capacity int) *LFU {
	return &LFU{
		slab: newSlab(capacity), capacity: capacity, counts: make(map[uint64]uint32),
		uses: make([]use, capacity), place: make([]uint32, capacity),
	}
}

// Access asks for key and reports a hit.
func (p *LFU) Access(key uint64) bool {
	p.clock++
	count := p.counts[key] + 1
	p.counts[key] = count
	if i, ok := p.index[key]; ok {
		p.uses[i] = use{count, p.clock}
		p.sink(int(p.place[i]))
		return true
	}
	if p.Len() == p.capacity {
		p.evict()
	}
	i := p.add(key)
	p.uses[i] = use{count, p.clock}
	p.heap = append(p.heap, i)
	p.rise(len(p.heap) - 1)
	return false
}

func (p *LFU) evict() {
	p.drop(p.heap[0])
	last := len(p.heap) - 1
	p.heap[0] = p.heap[last]
	p.heap = p.heap[:last]
	if last > 0 {
		p.sink(0)
	}
}

// sink moves the entry at a place of the heap below the entries to evict earlier.
func (p *LFU) sink(at int) {
	i := p.heap[at]
	for {
		child := 2*at + 1
		if child >= len(p.heap) {
			break
		}
		if right := child + 1; right < len(p.heap) && p.uses[p.heap[right]].before(p.uses[p.heap[child]]) {
			child = right
		}
		if p.uses[i].before(p.uses[p.heap[child]]) {
			break
		}
		p.put(at, p.heap[child])
		at = child
	}
	p.put(at, i)
}

// rise moves the entry at a place of the heap above the entries to evict later.
func (p *LFU) rise(at int) {
	i := p.heap[at]
	for at > 0 && p.uses[i].before(p.uses[p.heap[(at-1)/2]]) {
		p.put(at, p.heap[(at-1)/2])
		at = (at - 1) / 2
	}
	p.put(at, i)
}

func (p *LFU) put(at int, i uint32) {
	p.heap[at] = i
	p.place[i] = uint32(at)
}
