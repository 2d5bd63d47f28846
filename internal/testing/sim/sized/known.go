package sized

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// ranked is an object with the rank by which a policy chooses its victims: the lowest goes.
type ranked struct {
	key  uint64
	size int64
	rank float64
	at   int // in the heap
	uses float64
}

// ranks is a heap of objects, the lowest rank first.
type ranks []*ranked

func (h ranks) Len() int           { return len(h) }
func (h ranks) Less(i, j int) bool { return h[i].rank < h[j].rank }
func (h ranks) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }
func (h *ranks) Push(x any)        { r := x.(*ranked); r.at = len(*h); *h = append(*h, r) }
func (h *ranks) Pop() any          { old := *h; x := old[len(old)-1]; *h = old[:len(old)-1]; return x }

// GDSF evicts the object with the lowest clock + uses * worth / size, and sets the clock to its
// rank (Cherkasova: "Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching
// policy", HP, 1998). If all objects are worth the same it finds many objects, and few bytes.
type GDSF struct {
	bound, held int64
	worth       func(Request) float64
	clock       float64
	objects     map[uint64]*ranked
	ranks       ranks
}

// NewGDSF returns an empty GDSF. worth says what an object is worth, the same for each of its
// requests.
func NewGDSF(bound int64, worth func(Request) float64) *GDSF {
	return &GDSF{bound: bound, worth: worth, objects: map[uint64]*ranked{}}
}

// same is the worth of an object if each hit counts the same, and cost if the time of its load counts.
func same(Request) float64   { return 1 }
func cost(r Request) float64 { return float64(r.Load) / float64(time.Millisecond) }

// Access asks for an object and reports a hit.
func (p *GDSF) Access(r Request) bool {
	x, hit := p.objects[r.Key]
	if !hit {
		if r.Size > p.bound {
			return false
		}
		for p.held+r.Size > p.bound {
			gone := heap.Pop(&p.ranks).(*ranked)
			p.clock = gone.rank
			p.held -= gone.size
			delete(p.objects, gone.key)
		}
		x = &ranked{key: r.Key, size: r.Size}
		p.objects[r.Key] = x
		p.held += r.Size
		heap.Push(&p.ranks, x)
	}
	x.uses++
	x.rank = p.clock + x.uses*p.worth(r)/float64(x.size)
	heap.Fix(&p.ranks, x.at)
	return hit
}

// Held returns the sum of the sizes of the objects in the cache.
func (p *GDSF) Held() int64 { return p.held }

// Belady knows the trace, and gives up what costs the most room until it is asked for again: of a
// sample of its objects, the one with the largest product of size and distance to its next
// request, or the new object. The optimum for sizes cannot be computed in reasonable time.
// With equal sizes, and no more objects than a sample has, this is the optimum.
type Belady struct {
	bound, held int64
	next        []int // for each request the next one for its key; 0 for none
	at          int   // the request that comes next
	objects     []foreseen
	places      map[uint64]int // in objects
	random      *rand.Rand
}

// foreseen is an object with its next request.
type foreseen struct {
	key  uint64
	size int64
	next int
}

// sample is the number of objects that Belady looks at for each victim.
const sample = 64

// NewBelady returns an empty Belady for the requests of a trace, in order.
func NewBelady(bound int64, t *Trace) *Belady {
	p := &Belady{bound: bound, next: make([]int, len(t.Requests)), places: map[uint64]int{}, random: rand.New(rand.NewPCG(3, 4))}
	seen := map[uint64]int{}
	for i := len(t.Requests) - 1; i >= 0; i-- {
		key := t.Requests[i].Key
		p.next[i] = seen[key]
		seen[key] = i
	}
	return p
}

// Access answers the next request of the trace and reports a hit.
func (p *Belady) Access(r Request) bool {
	at, hit := p.places[r.Key]
	if hit {
		p.drop(at)
	}
	next := p.next[p.at]
	p.at++
	if next == 0 || r.Size > p.bound {
		return hit
	}
	p.places[r.Key] = len(p.objects)
	p.objects = append(p.objects, foreseen{r.Key, r.Size, next})
	p.held += r.Size
	for p.held > p.bound {
		p.drop(p.victim())
	}
	return hit
}

// victim returns the place of the object to give up: one of a sample with the youngest in it.
func (p *Belady) victim() (place int) {
	n, most := len(p.objects), -1.0
	look := func(i int) {
		x := p.objects[i]
		if cost := float64(x.next-p.at+1) * float64(x.size); cost > most {
			place, most = i, cost
		}
	}
	look(n - 1)
	for i := range min(n, sample) {
		if n > sample {
			i = p.random.IntN(n)
		}
		look(i)
	}
	return place
}

// drop removes the object in a place.
func (p *Belady) drop(at int) {
	last := len(p.objects) - 1
	p.held -= p.objects[at].size
	delete(p.places, p.objects[at].key)
	if at != last {
		p.objects[at] = p.objects[last]
		p.places[p.objects[at].key] = at
	}
	p.objects = p.objects[:last]
}

// Held returns the sum of the sizes of the objects in the cache.
func (p *Belady) Held() int64 { return p.held }
