package sim

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// Constants of W-TinyLFU, as in Caffeine and otter v2.
const (
	tinyMain      = 0.99   // of the capacity: main at the beginning
	tinyProtected = 0.80   // of main
	tinyRestart   = 0.05   // change of the hit ratio that restarts the climber
	tinyStep      = 0.0625 // of the capacity: first step of the climber
	tinyDecay     = 0.98   // of a step: the next one
	tinyWarm      = 6      // frequency of a candidate that may enter by chance
	tinyTransfer  = 1000   // entries that the climber moves at most at once
)

// TinyLFU is W-TinyLFU with a window that adapts by hill climbing (Einziger,
// Friedman, Manes: "TinyLFU: a highly efficient cache admission policy", ACM ToS,
// 2017; Einziger, Eytan, Friedman, Manes: "Adaptive software cache management",
// Middleware, 2018). It follows otter v2, with its maintenance after each Access.
type TinyLFU struct {
	slab
	window, probation, protected list
	at                           []uint8 // queue of an entry
	sketch                       sketch
	random                       *rand.Rand
	capacity                     int
	windowMax, protectedMax      int
	climber                      climber
}

// Queues of TinyLFU.
const (
	inWindow uint8 = iota
	inProbation
	inProtected
)

// climber searches the size of the window with the highest hit ratio.
type climber struct {
	step         float64 // entries, and the direction
	adjustment   int     // entries that the window has still to grow by
	hits, misses int     // of this sample
	previous     float64 // hit ratio of the last sample
}

// NewTinyLFU returns an empty TinyLFU.
func NewTinyLFU(capacity int) *TinyLFU {
	links := make([]link, capacity+1)
	window := capacity - int(tinyMain*float64(capacity))
	return &TinyLFU{
		slab:   newSlab(capacity + 1),
		window: newList(links), probation: newList(links), protected: newList(links),
		at: make([]uint8, capacity+1), random: rand.New(rand.NewPCG(1, 2)), capacity: capacity,
		windowMax: window, protectedMax: int(tinyProtected * float64(capacity-window)),
		climber: climber{step: -tinyStep * float64(capacity)},
	}
}

// Access asks for key and reports a hit.
func (p *TinyLFU) Access(key uint64) bool {
	i, hit := p.index[key]
	if hit {
		p.use(i)
	} else {
		p.insert(key)
	}
	p.evict()
	p.climb()
	return hit
}

// use counts a hit and moves the entry.
func (p *TinyLFU) use(i uint32) {
	p.sketch.increment(p.keys[i])
	p.climber.hits++
	switch p.at[i] {
	case inWindow:
		p.window.moveToBack(i)
	case inProbation:
		p.move(i, &p.probation, &p.protected, inProtected)
	default:
		p.protected.moveToBack(i)
	}
}

func (p *TinyLFU) insert(key uint64) {
	i := p.add(key)
	p.at[i] = inWindow
	if p.Len() >= p.capacity/2 {
		p.sketch.ensure(p.capacity)
	}
	p.sketch.increment(key)
	p.climber.misses++
	p.window.pushBack(i)
}

// move takes an entry from one queue to the back of another.
func (p *TinyLFU) move(i uint32, from, to *list, queue uint8) {
	from.remove(i)
	to.pushBack(i)
	p.at[i] = queue
}

// evict moves the overflow of the window to probation and, if the cache is over its
// capacity, evicts the less frequent of the last to leave the window and the victim.
func (p *TinyLFU) evict() {
	candidate := none
	for p.window.n > p.windowMax {
		i := p.window.front
		p.move(i, &p.window, &p.probation, inProbation)
		if candidate == none {
			candidate = i
		}
	}
	if p.Len() <= p.capacity {
		return
	}
	if candidate == none {
		candidate = p.window.front
	}
	p.remove(p.loser(candidate))
}

// loser returns the entry to evict: candidate, or the victim of main.
func (p *TinyLFU) loser(candidate uint32) uint32 {
	victim := p.probation.front
	switch {
	case candidate == none && victim == none:
		return p.protected.front
	case victim == none:
		return candidate
	case candidate == none || candidate == victim || p.admit(candidate, victim):
		return victim
	}
	return candidate
}

func (p *TinyLFU) admit(candidate, victim uint32) bool {
	theirs, ours := p.sketch.frequency(p.keys[victim]), p.sketch.frequency(p.keys[candidate])
	return ours > theirs || ours >= tinyWarm && p.random.Uint32()&127 == 0
}

func (p *TinyLFU) remove(i uint32) {
	switch p.at[i] {
	case inWindow:
		p.window.remove(i)
	case inProbation:
		p.probation.remove(i)
	default:
		p.protected.remove(i)
	}
	p.drop(i)
}

// climb moves the border between the window and main.
func (p *TinyLFU) climb() {
	p.climber.sample(p.sketch.sample, p.capacity)
	p.demote()
	switch {
	case p.climber.adjustment > 0:
		p.growWindow()
	case p.climber.adjustment < 0:
		p.shrinkWindow()
	}
}

// sample ends a sample of size requests and decides about the next step.
func (c *climber) sample(size, capacity int) {
	requests := c.hits + c.misses
	if size == 0 {
		c.previous, c.hits, c.misses = 0, 0, 0
		return
	}
	if requests < size {
		return
	}
	ratio := float64(c.hits) / float64(requests)
	change := ratio - c.previous
	amount := c.step
	if change < 0 {
		amount = -amount
	}
	c.step = tinyDecay * amount
	if math.Abs(change) >= tinyRestart {
		c.step = math.Copysign(tinyStep*float64(capacity), amount)
	}
	c.previous, c.adjustment, c.hits, c.misses = ratio, int(amount), 0, 0
}

// demote moves the overflow of protected to probation.
func (p *TinyLFU) demote() {
	for range tinyTransfer {
		if p.protected.n <= p.protectedMax {
			return
		}
		p.move(p.protected.front, &p.protected, &p.probation, inProbation)
	}
}

func (p *TinyLFU) growWindow() {
	if p.protectedMax == 0 {
		return
	}
	quota := min(p.climber.adjustment, p.protectedMax)
	p.protectedMax -= quota
	p.windowMax += quota
	p.demote()
	for range tinyTransfer {
		from := &p.probation
		if from.n == 0 || quota < 1 {
			from = &p.protected
		}
		if from.n == 0 || quota < 1 {
			break
		}
		quota--
		p.move(from.front, from, &p.window, inWindow)
	}
	p.protectedMax += quota
	p.windowMax -= quota
	p.climber.adjustment = quota
}

func (p *TinyLFU) shrinkWindow() {
	if p.windowMax <= 1 {
		return
	}
	quota := min(-p.climber.adjustment, p.windowMax-1)
	p.protectedMax += quota
	p.windowMax -= quota
	for range tinyTransfer {
		if p.window.n == 0 || quota < 1 {
			break
		}
		quota--
		p.move(p.window.front, &p.window, &p.probation, inProbation)
	}
	p.protectedMax -= quota
	p.windowMax += quota
	p.climber.adjustment = -quota
}

// sketch estimates how often keys were asked for: a count-min sketch of counters of
// 4 bits, in blocks of one cache line, which are halved after a sample of 10 requests
// per entry (Caffeine's FrequencySketch). The zero value counts nothing.
type sketch struct {
	table  []uint64
	blocks uint64 // mask of block numbers
	sample int    // requests between halvings; 0 before ensure
	size   int    // requests since
}

// ensure makes a sketch for a cache of capacity entries, once.
func (s *sketch) ensure(capacity int) {
	if s.table != nil {
		return
	}
	words := max(8, 1<<bits.Len(uint(capacity-1)))
	s.table = make([]uint64, words)
	s.blocks = uint64(words>>3) - 1
	s.sample = 10 * capacity
}

// counter returns the word of the key's counter in row (0 to 3), and its shift.
func (s *sketch) counter(hash uint64, row int) (word *uint64, shift uint64) {
	h := hash >> 32 >> (8 * row)
	at := (hash&s.blocks)<<3 + h&1 + uint64(row)<<1
	return &s.table[at], h >> 1 & 15 << 2
}

// frequency returns the estimate of a key, 0 to 15.
func (s *sketch) frequency(key uint64) uint64 {
	least := uint64(15)
	if s.table == nil {
		return 0
	}
	hash := mix(key)
	for row := range 4 {
		word, shift := s.counter(hash, row)
		least = min(least, *word>>shift&15)
	}
	return least
}

// increment counts a request.
func (s *sketch) increment(key uint64) {
	if s.table == nil {
		return
	}
	added := false
	hash := mix(key)
	for row := range 4 {
		if word, shift := s.counter(hash, row); *word>>shift&15 < 15 {
			*word += 1 << shift
			added = true
		}
	}
	if !added {
		return
	}
	if s.size++; s.size == s.sample {
		s.halve()
	}
}

// halve halves all counters, so that old requests lose weight.
func (s *sketch) halve() {
	odd := 0
	for i, word := range s.table {
		odd += bits.OnesCount64(word & 0x1111111111111111)
		s.table[i] = word >> 1 & 0x7777777777777777
	}
	s.size = (s.size - odd>>2) >> 1
}
