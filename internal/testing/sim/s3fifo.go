package sim

// Constants of S3-FIFO, as its paper has them.
const (
	s3MaxCount = 3  // of hits that an entry counts
	s3Proven   = 2  // hits in the small queue that earn a place in main
	s3Small    = 10 // percent of the capacity: the small queue
)

// S3FIFO is S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for
// cache eviction", SOSP, 2023). New keys enter a small queue. Its front moves to main
// if it had hits there, else it is evicted and remembered in a ghost queue of as many
// keys as main has room for. A key that the ghost queue remembers enters main at once.
// The front of main stays as often as it had hits.
type S3FIFO struct {
	slab
	small, main         list
	count               []uint8 // hits since the entry came, less the hits that main took
	ghosts              slab
	ghostOrder          list
	capacity, smallSize int
}

// NewS3FIFO returns an empty S3FIFO.
func NewS3FIFO(capacity int) *S3FIFO {
	links := make([]link, capacity)
	small := max(1, capacity*s3Small/100)
	ghosts := max(1, capacity-small)
	return &S3FIFO{
		slab: newSlab(capacity), small: newList(links), main: newList(links),
		count:  make([]uint8, capacity),
		ghosts: newSlab(ghosts), ghostOrder: newList(make([]link, ghosts)),
		capacity: capacity, smallSize: small,
	}
}

// Access asks for key and reports a hit.
func (p *S3FIFO) Access(key uint64) bool {
	if i, ok := p.index[key]; ok {
		p.count[i] = min(p.count[i]+1, s3MaxCount)
		return true
	}
	for p.Len() == p.capacity {
		p.evict()
	}
	ghost, known := p.ghosts.index[key]
	if known {
		p.ghostOrder.remove(ghost)
		p.ghosts.drop(ghost)
	}
	i := p.add(key)
	p.count[i] = 0
	if known {
		p.main.pushBack(i)
	} else {
		p.small.pushBack(i)
	}
	return false
}

// evict evicts one entry, or moves entries from the small queue to main.
func (p *S3FIFO) evict() {
	if p.small.n >= p.smallSize || p.main.n == 0 {
		p.evictSmall()
	} else {
		p.evictMain()
	}
}

// evictSmall evicts the first unproven entry of the small queue. It moves the entries
// before it to main.
func (p *S3FIFO) evictSmall() {
	for p.small.n > 0 {
		i := p.small.popFront()
		if p.count[i] < s3Proven {
			p.remember(p.keys[i])
			p.drop(i)
			return
		}
		p.count[i] = 0
		p.main.pushBack(i)
		if p.main.n > p.capacity-p.smallSize {
			p.evictMain()
			return
		}
	}
}

func (p *S3FIFO) evictMain() {
	for p.count[p.main.front] > 0 {
		p.count[p.main.front]--
		p.main.moveToBack(p.main.front)
	}
	p.drop(p.main.popFront())
}

func (p *S3FIFO) remember(key uint64) {
	if p.ghostOrder.n == len(p.ghosts.keys) {
		p.ghosts.drop(p.ghostOrder.popFront())
	}
	p.ghostOrder.pushBack(p.ghosts.add(key))
}
