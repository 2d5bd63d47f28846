package guard

import (
	"math"
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
	// step bounds the factor by which one look corrects the bytes of a unit.
	step = 2
)

// member is a cache of a guard, with all that the guard knows about it.
type member struct {
	cache func() Cache // nil once the cache is garbage
	floor int64
	exact bool // a unit is a byte
	born  time.Time

	seen  bool
	units int64 // at the last look
	left  int64 // of these, after the evictions
	delta int64 // of the units between the last two looks
	hits  uint64
	// size is the estimate of the bytes of a unit.
	size float64
	// recent and window are the hits and the time of the looks before, each with the weight that its age
	// leaves to it.
	recent, window float64
}

// measure asks all caches for their sizes and hits, and learns how many bytes a unit has.
//
// The live heap has grown by the sum of units × size over all caches, if nothing else has. So the
// difference between the two corrects the sizes, each by its part of the change: a step of the
// method of Kaczmarz (1937), for factors in place of sizes, since units may be anything.
func measure(all []*member, grown, live int64, now time.Time, since time.Duration) {
	for _, m := range all {
		m.ask(live, now, since)
	}
	rest, squares := float64(grown), 0.0
	for _, m := range all {
		x := m.change()
		rest -= x
		if m.tells() {
			squares += x * x
		}
	}
	for _, m := range all {
		if m.tells() && squares > 0 {
			f := 1 + rest*m.change()/squares
			m.size *= max(1.0/step, min(step, f))
		}
		m.size = min(m.size, float64(live)/float64(max(1, m.units)))
	}
}

// ask updates what the guard knows about a cache.
func (m *member) ask(live int64, now time.Time, since time.Duration) {
	c := m.cache()
	if c == nil {
		m.left, m.delta = 0, 0
		return
	}
	_, units, hits := c.Usage()
	m.delta, m.units, m.left = units-m.units, units, units
	if !m.seen {
		m.seen, m.delta, m.hits = true, 0, hits
		since = now.Sub(m.born)
	}
	if m.size == 0 && units > 0 {
		m.size = float64(live) / float64(units)
	}
	if m.exact {
		m.size = 1
	}
	old := math.Exp2(-since.Seconds() / halfLife.Seconds())
	m.recent = m.recent*old + float64(hits-min(hits, m.hits))
	m.window = m.window*old + since.Seconds()
	m.hits = hits
}

// change is the change of the bytes of a cache since the last look, by their estimate.
func (m *member) change() float64 { return float64(m.delta) * m.size }

// tells reports whether the change of the cache tells how many bytes its units have.
func (m *member) tells() bool {
	return !m.exact && m.delta != 0 && math.Abs(float64(m.delta)) >= moved*float64(m.units)
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

// shed evicts want bytes, or a part of all that may go, and returns what has gone. Each step evicts
// from the cache whose bytes are read the least. What stays there is read more by the byte than
// before, so the steps even the heat of the caches out.
func shed(all []*member, want float64) (entries int64, bytes float64) {
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
		n, b := from.shed(min(want/steps, want-bytes))
		entries += n
		bytes += b
	}
	return entries, bytes
}

// shed evicts so many bytes, a unit at least. Without success the cache has no more units that may go.
func (m *member) shed(bytes float64) (entries int64, shed float64) {
	c := m.cache()
	if c == nil {
		m.left = 0
		return 0, 0
	}
	n := min(m.free(), int64(max(1, math.Ceil(bytes/max(m.size, 1e-9)))))
	entries, gone := c.Shed(n)
	if m.left -= gone; gone < n {
		m.left = 0
	}
	return entries, float64(gone) * m.size
}
