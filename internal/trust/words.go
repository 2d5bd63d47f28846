package trust

import (
	"slices"

	"github.com/strata-cache/strata/remote"
)

// tagLane stands for the clock of tags among lanes.
const tagLane = -1

// position is a remote.Position with its digest.
type position struct {
	remote.Position
	taken  bool
	digest uint64
}

// Known reports whether a position was taken, so that messages have something
// to go on from.
func (l *Ledger) Known() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known.taken
}

// Rejoin takes the position of the tier, which was asked for after messages had
// begun to arrive again, and makes suspect what has moved since the words that
// were known before. It returns the number of lanes that are suspect, or -1 if
// everything is.
func (l *Ledger) Rejoin(p remote.Position, now int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.known
	l.adopt(p)
	switch {
	case !old.taken || old.Epoch != p.Epoch || len(old.Lanes) != len(p.Lanes):
		l.doubt(now)
		l.tags.suspect(now)
		return -1
	case old.Drops != p.Drops:
		l.disown()
		return -1
	case old.Expiries != p.Expiries:
		l.expire()
	}
	moved := differing(&old.Position, &p)
	l.suspect(now, moved...)
	return len(moved)
}

// adopt makes p what is known.
func (l *Ledger) adopt(p remote.Position) {
	p.Lanes = slices.Clone(p.Lanes)
	l.known = position{Position: p, taken: true, digest: Digest(p)}
	l.past.reset(l.known.digest)
	l.pending = nil
	if ls := l.lanes.Load(); ls == nil || len(ls.of) != len(p.Lanes) {
		l.lanes.Store(&lanes{of: make([]lane, len(p.Lanes))})
	}
}

// differing returns the lanes in which a and b, of one epoch, differ.
func differing(a, b *remote.Position) (moved []int) {
	for i := range a.Lanes {
		if a.Lanes[i] != b.Lanes[i] {
			moved = append(moved, i)
		}
	}
	if a.Clock != b.Clock {
		moved = append(moved, tagLane)
	}
	return moved
}

// Hear notes that a message has arrived, and makes its lane suspect if one was
// missed before it. It reports whether that is so. What the message itself
// drops is for the caller to drop.
func (l *Ledger) Hear(m *remote.Message, now int64) (missed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known.taken {
		return false // everything from before is suspect once words are known
	}
	switch m.Kind {
	case remote.Dropped, remote.Expired:
		return l.hearLane(m, now)
	case remote.TagDropped, remote.TagExpired:
		return l.hearTag(m, now)
	case remote.AllDropped:
		if m.Is.Count == 0 {
			return false // from who does not count
		}
		l.note(l.known.digest ^ mixCount(countDrops, l.known.Drops) ^ mixCount(countDrops, m.Is.Count))
		l.known.Drops = m.Is.Count
	case remote.AllExpired:
		if m.Is.Count == 0 {
			return false
		}
		l.note(l.known.digest ^ mixCount(countExpiries, l.known.Expiries) ^ mixCount(countExpiries, m.Is.Count))
		l.known.Expiries = m.Is.Count
	}
	return false
}

func (l *Ledger) hearLane(m *remote.Message, now int64) (missed bool) {
	n := int(m.Lane)
	if m.Is == (remote.Word{}) || n >= len(l.known.Lanes) {
		return false // from who knows no lanes
	}
	if p, ok := l.pending[n]; ok && (p == m.Was || p == m.Is) {
		delete(l.pending, n)
	}
	w := &l.known.Lanes[n]
	if *w == m.Is {
		return false
	}
	missed = *w != m.Was
	l.note(l.known.digest ^ mixWord(n, *w) ^ mixWord(n, m.Is))
	*w = m.Is
	if missed {
		l.suspect(now, n)
	}
	return missed
}

func (l *Ledger) hearTag(m *remote.Message, now int64) (missed bool) {
	if m.Is.Count == 0 {
		return false
	}
	if p, ok := l.pending[tagLane]; ok && (p.Count == m.Was.Count || p.Count == m.Is.Count) {
		delete(l.pending, tagLane)
	}
	if l.known.Clock == m.Is.Count {
		return false
	}
	missed = l.known.Clock != m.Was.Count
	l.note(l.known.digest ^ mixCount(countClock, l.known.Clock) ^ mixCount(countClock, m.Is.Count))
	l.known.Clock = m.Is.Count
	if missed {
		l.suspect(now, tagLane)
	}
	return missed
}

// note makes d the digest of what is known.
func (l *Ledger) note(d uint64) {
	l.known.digest = d
	l.past.add(d)
}

// Had reports whether what is known here is, or was not long ago, a position
// with this digest: then nothing from before it was missed.
func (l *Ledger) Had(digest uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known.taken && l.past.has(digest)
}

// Check notes where the position p of the tier differs from what is known here.
// The messages about it may be on their way: [Ledger.Settle], called when they
// have had their time, makes suspect what was not heard of by then. It reports
// whether there is anything to settle.
func (l *Ledger) Check(p remote.Position, now int64) (differs bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.known.taken:
		return false
	case l.known.Epoch != p.Epoch || len(l.known.Lanes) != len(p.Lanes):
		l.adopt(p)
		l.doubt(now)
		l.tags.suspect(now)
		return false
	case l.past.has(Digest(p)):
		return false
	}
	// Drops of everything are rare: obeying one before its message comes, and
	// again then, is cheaper than to remember it.
	if l.known.Drops != p.Drops {
		l.known.Drops = p.Drops
		l.disown()
	}
	if l.known.Expiries != p.Expiries {
		l.known.Expiries = p.Expiries
		l.expire()
	}
	l.pending = map[int]remote.Word{}
	for _, n := range differing(&l.known.Position, &p) {
		if n == tagLane {
			l.pending[n] = remote.Word{Count: p.Clock}
		} else {
			l.pending[n] = p.Lanes[n]
		}
	}
	l.note(Digest(l.known.Position))
	return len(l.pending) > 0
}

// Settle makes suspect what [Ledger.Check] has found and no message has told of
// since. It returns the number of lanes that are concerned.
func (l *Ledger) Settle(now int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var moved []int
	for n, w := range l.pending {
		moved = append(moved, n)
		if n == tagLane {
			l.known.Clock = w.Count
		} else {
			l.known.Lanes[n] = w
		}
	}
	l.pending = nil
	if len(moved) > 0 {
		l.note(Digest(l.known.Position))
		l.suspect(now, moved...)
	}
	return len(moved)
}

// Digest is a number that positions share only if they are equal, but for one
// chance in 2^64.
func Digest(p remote.Position) uint64 {
	d := mix(hashString(p.Epoch), 0, 0) ^
		mixCount(countDrops, p.Drops) ^ mixCount(countExpiries, p.Expiries) ^ mixCount(countClock, p.Clock)
	for i, w := range p.Lanes {
		d ^= mixWord(i, w)
	}
	return d
}

// Counts have numbers of their own among lanes.
const (
	countDrops = -2 - iota
	countExpiries
	countClock
)

func mixCount(which int, n uint64) uint64 { return mix(uint64(which), n, 0) }

func mixWord(lane int, w remote.Word) uint64 { return mix(uint64(lane), w.Count, w.Nonce) }

// mix is three rounds of the finalizer of SplitMix64, by Steele, Lea and Flood:
// all instances must agree on it.
func mix(a, b, c uint64) uint64 { return round(round(round(a)^b) ^ c) }

func round(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func hashString(s string) (h uint64) {
	for i := range len(s) {
		h = round(h ^ uint64(s[i]))
	}
	return h
}

// ring holds the newest digests.
type ring struct {
	at   int
	held [1024]uint64
	n    int
}

func (r *ring) reset(d uint64) {
	r.at, r.n = 0, 0
	r.add(d)
}

func (r *ring) add(d uint64) {
	r.held[r.at] = d
	r.at = (r.at + 1) % len(r.held)
	r.n = min(r.n+1, len(r.held))
}

func (r *ring) has(d uint64) bool { return slices.Contains(r.held[:r.n], d) }
