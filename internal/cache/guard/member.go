package guard

import (
	"math"
	"sync"
	"time"
)

const (
	// halfLife is the time in which the hits of a cache lose half of their weight.
	halfLife = time.Minute
	// steps is the least number of turns in which a look evicts, each from the cache that is the coldest by then.
	steps = 8
	// most is the part of all that may go which one look evicts at most: how many bytes a unit has is an
	// estimate.
	most = 0.5
	// moved is the part of its units by which a cache has changed if the change tells of their bytes.
	moved = 1.0 / 64
	// step bounds the factor by which a collection corrects the bytes of a unit, after the first one.
	step = 2
	// least is the least size of a unit, unknown the least part of the heap that caches of unknown sizes have.
	least, unknown = 1e-6, 1.0 / 16
)

// member is a cache of a guard, with all that the guard knows about it.
type member struct {
	cache func() Cache // nil once the cache is garbage
	floor int64

	ending sync.Mutex // guards ended, and calls of Guarded
	ended  bool       // the cache has left the guard, and may have another one

	units int64 // at the last look
	left  int64 // of these, when all that is owed is gone
	// owed are the units of the last debt, shed the units that debts have evicted until the last look, and
	// shedBefore until that debt.
	owed, shed, shedBefore int64
	// shedEntries and shedUnits are counted by the guard already. Its mutex guards them.
	shedEntries, shedUnits int64

	estimate
	use
}

// estimate is what a unit of a cache is.
type estimate struct {
	exact bool // a unit is a byte
	// size is the estimate of the bytes of a unit: one until something is known. It is written with the
	// mutex of the guard.
	size  float64
	known bool
	// middle is the mean of the units at this look and the last one: the collection ended in between. learned is
	// what it was when sizes were learned last.
	middle, learned int64
}

// use is how often a cache is read.
type use struct {
	born time.Time // when the guard got it
	seen bool
	hits uint64
	// recent and window are the hits and the time of the looks before, each with the weight that its age
	// leaves to it.
	recent, window float64
}

// add adds the hits until a look, which is so long after the last one.
func (u *use) add(hits uint64, now time.Time, since time.Duration) {
	if !u.seen {
		u.seen = true
		since = now.Sub(u.born)
	}
	old := math.Exp2(-since.Seconds() / halfLife.Seconds())
	u.recent = u.recent*old + float64(hits-min(hits, u.hits))
	u.window = u.window*old + since.Seconds()
	u.hits = hits
}

// newMember returns a member for a cache in use.
func newMember(floor int64, exact bool, cache func() Cache) *member {
	m := &member{cache: cache, floor: floor, estimate: estimate{exact: exact, size: 1}, use: use{born: time.Now()}}
	m.units, m.hits = cache().Usage()
	m.learned = m.units
	_, m.shed = cache().Shed()
	m.shedEntries, m.shedUnits = cache().Shed()
	return m
}

// begin lets stores of the cache poke the guard, unless the cache has left it.
func (m *member) begin(c Cache, poke func()) {
	m.ending.Lock()
	defer m.ending.Unlock()
	if !m.ended {
		c.Guarded(poke)
	}
}

// end takes the guard from the cache, and reports whether it had not left before: from then on the cache may belong to
// another guard.
func (m *member) end() (first bool) {
	m.ending.Lock()
	defer m.ending.Unlock()
	if c := m.cache(); c != nil && !m.ended {
		c.Guarded(nil)
		c.Owe(0)
	}
	first, m.ended = !m.ended, true
	return first
}

// ask updates what the guard knows about a cache, and returns by how many bytes it has grown since the last
// look, without what its debts have evicted.
func (m *member) ask(now time.Time, since time.Duration) (grown float64) {
	c := m.cache()
	if c == nil {
		m.left, m.owed = 0, 0
		return 0
	}
	units, hits := c.Usage()
	_, shed := c.Shed()
	m.add(hits, now, since)
	grown = float64(units+shed-m.units-m.shed) * m.size
	m.middle = m.units + (units-m.units)/2
	m.units, m.left, m.shed = units, units, shed
	return grown
}

// unpaid is the part of the last debt that the cache has not evicted.
func (m *member) unpaid() int64 { return max(0, m.owed-(m.shed-m.shedBefore)) }

// learn corrects the sizes of units after a collection, by what the live heap has grown since they were learned last.
// It does nothing, and returns false, unless a cache has changed by enough since then.
//
// The heap has grown by the sum of units × size over all caches, if nothing else has. So the difference
// between the two corrects the sizes, each by its part of the change: a step of the method of
// Kaczmarz (1937), for factors in place of sizes, since units may be anything.
func learn(all []*member, grown int64) (done bool) {
	if meet(all, grown) {
		return true
	}
	rest, squares := float64(grown), 0.0
	for _, m := range all {
		x := m.change()
		rest -= x
		if m.tells() {
			squares += x * x
		}
	}
	if squares == 0 {
		return false
	}
	for _, m := range all {
		if !m.tells() {
			continue
		}
		f := 1 + rest*m.change()/squares
		if m.known {
			f = max(1.0/step, min(m.mostStep(), f))
		}
		if m.known = m.known || f > 0; m.known {
			m.size = max(least, m.size*f)
		}
	}
	return true
}

// meet gives sizes to the units of caches that are not known yet, if others are: the growth that those do not explain. By their
// share of the change they would get nearly nothing, since nothing is known of them, and the others too much.
func meet(all []*member, grown int64) (met bool) {
	rest, units, known := float64(grown), 0.0, false
	for _, m := range all {
		switch {
		case m.known || m.exact:
			rest -= m.change()
			known = known || m.known
		case m.tells():
			units += float64(m.middle - m.learned)
		}
	}
	if !known || !(rest/units > 0) { // true for NaN
		return false
	}
	for _, m := range all {
		if !m.known && m.tells() {
			m.size, m.known, met = max(least, rest/units), true, true
		}
	}
	return met
}

// guess gives sizes to the units of caches that are not known yet: together they have what the others leave of the
// heap, or at least a part of it. No cache has more than the heap.
func guess(all []*member, live int64) {
	rest, units := float64(live), 0.0
	for _, m := range all {
		if !m.exact && m.units > 0 {
			m.size = min(m.size, max(least, float64(live)/float64(m.units)))
		}
		if m.known || m.exact {
			rest -= float64(m.units) * m.size
		} else {
			units += float64(m.units)
		}
	}
	for _, m := range all {
		if !m.known && !m.exact && units > 0 {
			m.size = max(least, rest/units, unknown*float64(live)/units)
		}
	}
}

// change is the change of the bytes of a cache since sizes were learned last, by their estimate.
func (m *member) change() float64 { return float64(m.middle-m.learned) * m.size }

// tells reports whether the change of the cache tells how many bytes its units have.
func (m *member) tells() bool {
	d := m.middle - m.learned
	return !m.exact && d != 0 && math.Abs(float64(d)) >= moved*float64(m.units)
}

// free is the number of units above the floor.
func (m *member) free() int64 { return max(0, m.left-m.floor) }

// bytes is the memory of the cache.
func (m *member) bytes() float64 { return float64(m.left) * m.size }

// heat is how often a byte of the cache was read in a second.
func (m *member) heat() float64 {
	return m.recent / max(m.window, 1e-9) / max(1, m.bytes())
}

// colder orders caches by heat, and large ones before small ones.
func colder(a, b *member) bool {
	if x, y := a.heat(), b.heat(); x != y {
		return x < y
	}
	return a.bytes() > b.bytes()
}

// owe lets the caches owe so many bytes, but no more than a part of all that may go, and returns how
// many. Each step takes from the cache whose bytes are read the least. The rest of that cache is read more
// by the byte than before, so the steps even the heat of the caches out.
func owe(all []*member, want float64) (bytes float64) {
	sum := 0.0
	for _, m := range all {
		sum += float64(m.free()) * m.size
	}
	want = min(want, most*sum)
	for bytes < want {
		var from *member
		for _, m := range all {
			if m.free() > 0 && (from == nil || colder(m, from)) {
				from = m
			}
		}
		if from == nil {
			break
		}
		bytes += from.give(max(want/steps, 1), want-bytes)
	}
	for _, m := range all {
		if c := m.cache(); c != nil {
			m.owed, m.shedBefore = m.units-m.left, m.shed
			c.Owe(m.owed)
		}
	}
	return bytes
}

// mostStep is the largest factor by which a collection corrects the size of a unit. A cache that has doubled since the last
// time tells as much about its units as all that was known before.
func (m *member) mostStep() float64 {
	if d := m.middle - m.learned; d > 0 && d >= m.units/2 {
		return math.Inf(1)
	}
	return step
}

// give takes so many bytes off what is left of a cache, at most, but at least a unit, and returns their number.
func (m *member) give(bytes, most float64) float64 {
	n := min(m.free(), int64(max(1, math.Ceil(min(bytes, most)/m.size))))
	m.left -= n
	return float64(n) * m.size
}
