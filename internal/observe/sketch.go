// The sketch finds the keys that weigh most in a stream, in memory that does not grow
// with the number of keys: the space-saving sketch of Metwally, Agrawal and El Abbadi
// ("Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005).

package observe

import (
	"cmp"
	"slices"
)

// Sketch has the sums of the weights of the heaviest keys. Its sums are never too low, and
// too high by Over at most. Create it with [NewSketch]. It is not safe for concurrent use.
type Sketch[K comparable] struct {
	most int
	heap []*Counter[K] // the lightest first
	at   map[K]*Counter[K]
}

// Counter is the sum of one key.
type Counter[K comparable] struct {
	Key K
	// Sum is the sum of the weights, Times the number of them since the key entered the
	// sketch.
	Sum, Times uint64
	// Over is the most by which Sum can be too high.
	Over  uint64
	place int
}

// NewSketch returns an empty sketch of at most n keys, n being 1 at least. A key with more than an
// n-th of the sum of all weights is among them.
func NewSketch[K comparable](n int) *Sketch[K] {
	return &Sketch[K]{most: max(1, n), at: make(map[K]*Counter[K])}
}

// Add adds a weight to a key, in time that grows with the logarithm of the number of keys. A
// key unequal to itself, such as NaN, is left out: no map finds it again.
func (s *Sketch[K]) Add(key K, weight uint64) {
	if key != key {
		return
	}
	c := s.at[key]
	switch {
	case c != nil:
	case len(s.heap) < s.most:
		c = &Counter[K]{Key: key, place: len(s.heap)}
		s.heap = append(s.heap, c)
		s.at[key] = c
		s.up(c)
	default:
		c = s.heap[0]
		delete(s.at, c.Key)
		c.Key, c.Over, c.Times = key, c.Sum, 0
		s.at[key] = c
	}
	c.Sum += weight
	c.Times++
	s.down(c)
}

// Top returns copies of the n heaviest counters, the heaviest first.
func (s *Sketch[K]) Top(n int) []Counter[K] {
	all := make([]Counter[K], len(s.heap))
	for i, c := range s.heap {
		all[i] = *c
	}
	slices.SortFunc(all, heavier)
	return all[:min(max(n, 0), len(all))]
}

// MergedCounters returns counters of the keys of two sketches of different times, the heaviest first.
// A key that one of them may have lost is counted with as much as it can have had there.
func MergedCounters[K comparable](a, b *Sketch[K]) (all []Counter[K]) {
	for _, c := range a.heap {
		sum, other := *c, b.at[c.Key]
		if other == nil {
			other = &Counter[K]{Sum: b.least(), Over: b.least()}
		}
		sum.Sum, sum.Times, sum.Over = sum.Sum+other.Sum, sum.Times+other.Times, sum.Over+other.Over
		all = append(all, sum)
	}
	for _, c := range b.heap {
		if a.at[c.Key] == nil {
			sum := *c
			sum.Sum, sum.Over = sum.Sum+a.least(), sum.Over+a.least()
			all = append(all, sum)
		}
	}
	slices.SortFunc(all, heavier)
	return all
}

// heavier compares counters for an order that begins with the heaviest.
func heavier[K comparable](a, b Counter[K]) int {
	return cmp.Or(cmp.Compare(b.Sum, a.Sum), cmp.Compare(a.Over, b.Over))
}

// least is an upper bound for the sum of a key outside the sketch.
func (s *Sketch[K]) least() uint64 {
	if len(s.heap) < s.most {
		return 0
	}
	return s.heap[0].Sum
}

// Of returns a copy of the counter of a key; zero if it is not in the sketch.
func (s *Sketch[K]) Of(key K) (c Counter[K]) {
	if found := s.at[key]; found != nil {
		c = *found
	}
	return c
}

// up moves a counter towards the lightest.
func (s *Sketch[K]) up(c *Counter[K]) {
	for c.place > 0 {
		parent := s.heap[(c.place-1)/2]
		if parent.Sum <= c.Sum {
			return
		}
		s.swap(c, parent)
	}
}

// down moves a counter away from the lightest.
func (s *Sketch[K]) down(c *Counter[K]) {
	for {
		child := 2*c.place + 1
		if child >= len(s.heap) {
			return
		}
		if right := child + 1; right < len(s.heap) && s.heap[right].Sum < s.heap[child].Sum {
			child = right
		}
		if c.Sum <= s.heap[child].Sum {
			return
		}
		s.swap(c, s.heap[child])
	}
}

func (s *Sketch[K]) swap(a, b *Counter[K]) {
	s.heap[a.place], s.heap[b.place] = b, a
	a.place, b.place = b.place, a.place
}
