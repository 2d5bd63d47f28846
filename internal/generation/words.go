package generation

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
	p = l.notBehind(p)
	l.adopt(p)
	switch {
	case !old.taken || old.Epoch != p.Epoch || len(old.Lanes) != len(p.Lanes):
		l.doubt(now)
		l.tags.suspect(now)
		return -1
	case old.Drops != p.Drops:
		l.invalidateAll()
		return -1
	case old.Expiries != p.Expiries:
		l.expire(now)
	}
	moved := differing(&old.Position, &p)
	l.suspect(now, moved...)
	return len(moved)
}

// adopt makes p what is known.
func (l *Ledger) adopt(p remote.Position) {
	p.Lanes = slices.Clone(p.Lanes)
	l.known = position{Position: p, taken: true, digest: Digest(p)}
	l.past, l.pending, l.awaited = history{}, nil, nil
	if ls := l.lanes.Load(); ls == nil || len(ls.of) != len(p.Lanes) {
		l.lanes.Store(&lanes{of: make([]doubt, len(p.Lanes))})
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
		l.count(countDrops, &l.known.Drops, m.Is.Count)
	case remote.AllExpired:
		if m.Is.Count == 0 {
			return false
		}
		l.count(countExpiries, &l.known.Expiries, m.Is.Count)
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
	if l.awaited != nil {
		if a := l.awaited.lanes[n]; a == mark(mixWord(n, m.Was)) || a == mark(mixWord(n, m.Is)) {
			delete(l.awaited.lanes, n)
		}
	}
	w := l.known.Lanes[n]
	if w == m.Is {
		return false
	}
	missed = w != m.Was
	l.move(n, m.Is)
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
	l.count(countClock, &l.known.Clock, m.Is.Count)
	if missed {
		l.suspect(now, tagLane)
	}
	return missed
}

// move makes w the word of a lane.
func (l *Ledger) move(lane int, w remote.Word) {
	l.note(lane, mixWord(lane, l.known.Lanes[lane]), mixWord(lane, w))
	l.known.Lanes[lane] = w
}

// count makes n one of the counts.
func (l *Ledger) count(which int, known *uint64, n uint64) {
	l.note(which, mixCount(which, *known), mixCount(which, n))
	*known = n
}

// note notes that the mixed word of a lane, or of a count, has changed.
func (l *Ledger) note(which int, was, is uint64) {
	l.known.digest ^= was ^ is
	l.past.add(change{which: which, was: was, delta: was ^ is})
}

// notBehind returns p without what is known here to be past: messages may have
// told of more than p, if it was read from several places.
func (l *Ledger) notBehind(p remote.Position) remote.Position {
	k := &l.known
	if !p.Spread || !k.taken || k.Epoch != p.Epoch || len(k.Lanes) != len(p.Lanes) {
		return p
	}
	p.Drops, p.Expiries, p.Clock = max(p.Drops, k.Drops), max(p.Expiries, k.Expiries), max(p.Clock, k.Clock)
	p.Lanes = slices.Clone(p.Lanes)
	for i, w := range p.Lanes {
		if w != k.Lanes[i] && l.past.has(i, w) {
			p.Lanes[i] = k.Lanes[i]
		}
	}
	return p
}

// Had reports whether what is known here is, or was not long ago, a position
// with this digest: then nothing from before it was missed.
func (l *Ledger) Had(digest uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known.taken && l.past.hasDigest(l.known.digest, digest)
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
	case l.past.hasDigest(l.known.digest, Digest(p)):
		return false
	}
	p = l.notBehind(p)
	// Drops of everything are rare: obeying one before its message comes, and
	// again then, is cheaper than to remember it.
	if l.known.Drops != p.Drops {
		l.count(countDrops, &l.known.Drops, p.Drops)
		l.invalidateAll()
	}
	if l.known.Expiries != p.Expiries {
		l.count(countExpiries, &l.known.Expiries, p.Expiries)
		l.expire(now)
	}
	l.pending = map[int]remote.Word{}
	for _, n := range differing(&l.known.Position, &p) {
		if n == tagLane {
			l.pending[n] = remote.Word{Count: p.Clock}
		} else {
			l.pending[n] = p.Lanes[n]
		}
	}
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
			l.count(countClock, &l.known.Clock, w.Count)
		} else {
			l.move(n, w)
		}
	}
	l.pending = nil
	if len(moved) > 0 {
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
