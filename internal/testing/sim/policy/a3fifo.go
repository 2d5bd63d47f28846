package policy

import "math/bits"

// Constants of A3-FIFO.
const (
	a3MaxCount = 3  // of hits that an entry counts
	a3Proven   = 2  // hits in the small queue that earn a place in main
	a3Hand     = 32 // entries that the hand of main passes at most
	a3MinSmall = 1  // percent of the capacity: least target of the small queue
	a3MaxSmall = 90 // percent of the capacity: greatest target of the small queue
	a3Marginal = 8  // percent of the capacity: by how much a queue was too small
)

// A3FIFO is S3-FIFO (see S3FIFO) with four changes. While main is below its target,
// the overflow of the small queue fills it. A key that returns from the history
// enters main only if its reuse distance is shorter than the time for which the
// victim of main has been idle, as in LIRS (see LIRS). And the small queue grows by
// one for each returned key that a somewhat longer small queue would have kept, and
// shrinks by one for each that a somewhat longer main would have kept, as in ARC
// (see ARC). A brake holds back promotions that do not pay. A hit increments a
// saturating counter and does nothing else.
type A3FIFO struct {
	slab
	small, main list
	count       []uint8  // hits since the last move, at most a3MaxCount
	stamp       []uint32 // insert clock at the last move
	trial       []bool   // promoted from the history, and not hit in main since
	history     history
	brake       a3Brake
	sizes       a3Sizes
	clock       uint32 // counts inserts
	evictions   uint32 // counts evictions from main
}

// a3Sizes are the sizes that the queues aim at, in entries.
type a3Sizes struct {
	capacity   int
	small      int // target of the small queue; main has the rest
	least      int // bounds of small
	most       int
	marginally int // by how much a queue was too small
}

func newA3Sizes(capacity int) a3Sizes {
	least := max(1, capacity*a3MinSmall/100)
	return a3Sizes{
		capacity: capacity, small: least, least: least,
		most: max(least, capacity*a3MaxSmall/100), marginally: max(1, capacity*a3Marginal/100),
	}
}

// NewA3FIFO returns an empty A3FIFO.
func NewA3FIFO(capacity int) *A3FIFO {
	links := make([]link, capacity)
	return &A3FIFO{
		slab: newSlab(capacity), small: newList(links), main: newList(links),
		count: make([]uint8, capacity), stamp: make([]uint32, capacity),
		trial: make([]bool, capacity), history: newHistory(capacity), brake: newA3Brake(capacity),
		sizes: newA3Sizes(capacity),
	}
}

// Access asks for key and reports a hit.
func (p *A3FIFO) Access(key uint64) bool {
	if i, ok := p.index[key]; ok {
		p.count[i] = min(p.count[i]+1, a3MaxCount)
		return true
	}
	p.insert(key)
	return false
}

func (p *A3FIFO) insert(key uint64) {
	p.clock++
	promote, trial := p.recall(key)
	switch full := p.small.n+p.main.n >= p.sizes.capacity; {
	case full && promote && p.mainFull():
		p.evictMain()
	case full:
		p.freeOne()
	case !promote && p.small.n >= p.sizes.small:
		p.enterMain(p.small.popFront())
	}
	i := p.add(key)
	if promote {
		p.enterMain(i)
		p.trial[i] = trial
		return
	}
	p.count[i], p.stamp[i] = 0, p.clock
	p.small.pushBack(i)
}

// mainFull reports whether main has reached its target.
func (p *A3FIFO) mainFull() bool { return p.main.n >= p.sizes.capacity-p.sizes.small }

// enterMain appends an entry that is in no queue to main.
func (p *A3FIFO) enterMain(i uint32) {
	p.count[i], p.stamp[i], p.trial[i] = 0, p.clock, false
	p.main.pushBack(i)
}

// recall takes key out of the history, adapts the sizes of the queues, and reports
// whether key enters main, and whether it does so in the place of another.
func (p *A3FIFO) recall(key uint64) (promote, trial bool) {
	from, stamp, ok := p.history.take(key)
	if !ok {
		return false, false
	}
	if from == fromMain {
		p.returned(p.history.since(p.evictions, stamp))
		return false, false
	}
	distance := p.history.since(p.clock, stamp)
	if distance <= uint32(p.small.n+p.sizes.marginally) {
		p.sizes.small = min(p.sizes.most, p.sizes.small+1)
	}
	if !p.mainFull() {
		return true, false
	}
	victim := p.hand()
	promote = victim != none && distance < p.clock-p.stamp[victim] && !p.brake.holds(p.clock)
	return promote, promote
}

// returned learns from the return of a key that main evicted age evictions ago.
func (p *A3FIFO) returned(age uint32) {
	if age < uint32(p.sizes.marginally) {
		p.sizes.small = max(p.sizes.least, p.sizes.small-1)
	}
	if age < uint32(p.main.n) {
		p.brake.returns += p.brake.weight
	}
}

// hand moves entries with hits from the front of main to its back until the front
// has none, and returns the front. It returns none after a3Hand entries.
func (p *A3FIFO) hand() uint32 {
	for range a3Hand {
		i := p.main.front
		if i == none || p.count[i] == 0 {
			return i
		}
		p.count[i]--
		p.stamp[i] = p.clock
		if p.trial[i] {
			p.brake.judge(1)
			p.trial[i] = false
		}
		p.main.moveToBack(i)
	}
	return none
}

// evictMain evicts one entry of main, which must have one.
func (p *A3FIFO) evictMain() {
	i := p.hand()
	if i == none {
		i = p.main.front
	}
	p.main.remove(i)
	p.evictions++
	p.brake.returns -= p.brake.returns * p.brake.weight
	if p.trial[i] {
		p.brake.judge(0)
	}
	p.history.put(p.keys[i], fromMain, p.evictions)
	p.drop(i)
}

// freeOne evicts one entry. Entries with hits that it meets at the front of the
// small queue move to main.
func (p *A3FIFO) freeOne() {
	for p.small.n+p.main.n >= p.sizes.capacity {
		if p.small.n < p.sizes.small {
			p.evictMain()
			continue
		}
		i := p.small.popFront()
		if c := p.count[i]; c < a3Proven && (c == 0 || p.mainFull()) {
			p.history.put(p.keys[i], fromSmall, p.stamp[i])
			p.drop(i)
			continue
		}
		p.enterMain(i)
		if p.main.n > p.sizes.capacity-p.sizes.small {
			p.evictMain()
		}
	}
}

// Constants of the brake of A3-FIFO.
const (
	a3Losing  = 0.2 // share of trials with a hit below which promotions do not pay
	a3Missed  = 0.1 // share of main's victims that return soon from which they harm
	a3Passing = 64  // one promotion in so many passes the brake
)

// a3Brake holds promotions back while both their entries leave main without a hit and
// the victims of main return. Sweeps back and forth over more keys than fit do that.
type a3Brake struct {
	weight  float64 // of one event in the moving means below
	wins    float64 // share of promoted entries that had a hit in main
	returns float64 // share of main's victims that came back within one length of main
}

func newA3Brake(capacity int) a3Brake {
	return a3Brake{weight: 1 / max(32, float64(capacity)/32), wins: 1}
}

// judge ends the trial of a promoted entry: 1 is a hit in main, 0 is none.
func (b *a3Brake) judge(hit float64) { b.wins += (hit - b.wins) * b.weight }

// holds reports whether the promotion at an insert is held back.
func (b *a3Brake) holds(clock uint32) bool {
	return b.wins < a3Losing && b.returns >= a3Missed && mix(uint64(clock))%a3Passing != 0
}

// Forms of a history: buckets of one cache line, three slots per entry of the cache.
const (
	historySlots = 16
	stampBits    = 15
	stampMask    = 1<<stampBits - 1
)

// Queues from which a key was evicted, as a history's slot holds them.
const (
	fromSmall uint32 = 0
	fromMain  uint32 = 1 << stampBits
)

// history remembers evicted keys: 16 bits of the key's hash, the queue, and a
// coarse stamp. A bucket is a FIFO of 16 slots. A slot of 0 is empty.
type history struct {
	buckets [][historySlots]uint32
	coarse  int // bits that stamps leave out, so that they wrap late
}

func newHistory(capacity int) history {
	n := (3*capacity + historySlots - 1) / historySlots
	return history{buckets: make([][historySlots]uint32, n), coarse: max(0, bits.Len(uint(capacity))-10)}
}

// place returns the bucket of key, and the fingerprint in the upper half of a slot.
func (h *history) place(key uint64) (bucket *[historySlots]uint32, print uint32) {
	x := mix(key)
	at := (x >> 32) * uint64(len(h.buckets)) >> 32
	return &h.buckets[at], max(1, uint32(x&0xffff)) << 16
}

// put remembers an evicted key. It replaces an older record of the same fingerprint,
// else an empty slot, else the oldest record of the bucket.
func (h *history) put(key uint64, from, stamp uint32) {
	bucket, print := h.place(key)
	at := 0
	for at < historySlots-1 && bucket[at] != 0 && bucket[at]&^0xffff != print {
		at++
	}
	copy(bucket[1:at+1], bucket[:at])
	bucket[0] = print | from | stamp>>h.coarse&stampMask
}

// take removes the record of key and returns it.
func (h *history) take(key uint64) (from, stamp uint32, ok bool) {
	bucket, print := h.place(key)
	for at, slot := range bucket {
		if slot&^0xffff == print {
			copy(bucket[at:], bucket[at+1:])
			bucket[historySlots-1] = 0
			return slot & fromMain, slot & stampMask, true
		}
	}
	return 0, 0, false
}

// since returns how far a clock has gone since a stamp of take, to within the steps
// of stamps.
func (h *history) since(now, stamp uint32) uint32 {
	return (now>>h.coarse - stamp) & stampMask << h.coarse
}
