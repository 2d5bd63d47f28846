// The position of the tier as this instance knows it, and its comparison with
// the position that the tier tells.
//
// States: no position is known (from the start to the first Rejoin); known;
// known with pending differences (from Check to Settle).
//
// Invariant: a lane with another version in the tier than here becomes suspect,
// at once in Rejoin and at Settle after Check, unless messages have brought it
// from the known version to the version in the tier.

package ledger

import (
	"slices"

	"github.com/strata-cache/strata/remote"
)

// tagLane stands for the clock of tags among lanes.
const tagLane = -1

// position is a remote.Position with its digest.
type position struct {
	remote.Position
	taken  bool // false: no position is known
	digest uint64
}

// Rejoin takes the position of the tier, requested after messages had begun to
// arrive again. Lanes with another version than the one known before become
// suspect. It returns their number, or -1 if every entry is concerned.
func (l *Ledger) Rejoin(p remote.Position, now int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.known
	p = l.notBehind(p)
	l.adopt(p)
	switch {
	case !old.taken || old.Epoch != p.Epoch || len(old.Lanes) != len(p.Lanes):
		l.suspectAll(now)
		l.tags.suspect(now)
		return -1
	// A drop of everything in between: no entry is left to be suspect.
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

// adopt makes p the known position.
func (l *Ledger) adopt(p remote.Position) {
	p.Lanes = slices.Clone(p.Lanes)
	l.known = position{Position: p, taken: true, digest: Digest(p)}
	l.past, l.pending, l.awaited = history{}, nil, nil
	if ls := l.lanes.Load(); ls == nil || len(ls.of) != len(p.Lanes) {
		l.lanes.Store(&lanes{of: make([]datedWatermark, len(p.Lanes))})
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

// notBehind returns p with the newer of its parts and the known ones: if p was
// read from several servers, messages may have told of later drops than p.
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

// Check notes the lanes in which the position p of the tier differs from the
// known one. The messages about the difference may be on their way:
// [Ledger.Settle], called after their time, makes the lanes without an
// explanation suspect. Check reports whether there is a difference to settle.
func (l *Ledger) Check(p remote.Position, now int64) (differs bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.known.taken:
		return false
	case l.known.Epoch != p.Epoch || len(l.known.Lanes) != len(p.Lanes):
		l.adopt(p)
		l.suspectAll(now)
		l.tags.suspect(now)
		return false
	// The position was read before messages that have arrived since: it is one that this instance
	// has passed.
	case l.past.hasDigest(l.known.digest, Digest(p)):
		return false
	}
	p = l.notBehind(p)
	// Drops of everything are rare. Applying one before its message arrives, and
	// again with the message, is cheaper than remembering it.
	if l.known.Drops != p.Drops {
		l.count(countDrops, &l.known.Drops, p.Drops)
		l.invalidateAll()
	}
	if l.known.Expiries != p.Expiries {
		l.count(countExpiries, &l.known.Expiries, p.Expiries)
		l.expire(now)
	}
	l.pending = map[int]remote.LaneVersion{}
	for _, n := range differing(&l.known.Position, &p) {
		if n == tagLane {
			l.pending[n] = remote.LaneVersion{Count: p.Clock}
		} else {
			l.pending[n] = p.Lanes[n]
		}
	}
	return len(l.pending) > 0
}

// Settle makes the lanes that [Ledger.Check] has found suspect, unless a message
// has explained them since. It returns their number.
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

// Digest returns a number for p: equal positions have the same, different ones
// share it with a chance of one in 2^64.
func Digest(p remote.Position) uint64 {
	d := mix(hashString(p.Epoch), 0, 0) ^
		mixCount(countDrops, p.Drops) ^ mixCount(countExpiries, p.Expiries) ^ mixCount(countClock, p.Clock)
	for i, version := range p.Lanes {
		// The number of the lane is mixed in, so that two lanes with swapped versions have another
		// digest.
		d ^= mixVersion(i, version)
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

func mixVersion(lane int, w remote.LaneVersion) uint64 { return mix(uint64(lane), w.Count, w.Nonce) }

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

// change is one step of the known position.
type change struct {
	which int    // the lane, or the count
	was   uint64 // its mixed version before
	delta uint64 // was xor the mixed version after
}

// remembered is the number of changes in a history.
const remembered = 1024

// history holds the newest changes. Its ring grows with them: 24 KiB would be most of a cache
// that nothing was dropped from.
type history struct {
	at   int // the next place in the ring
	ring []change
}

func (h *history) add(c change) {
	if len(h.ring) < remembered {
		h.ring = append(h.ring, c)
	} else {
		h.ring[h.at] = c
	}
	h.at = (h.at + 1) % remembered
}

// back yields the changes, the newest first.
func (h *history) back(yield func(change) bool) {
	for i := range h.ring {
		if !yield(h.ring[(h.at-1-i+remembered)%remembered]) {
			return
		}
	}
}

// hasDigest reports whether the digest is d, or was d earlier. now is the digest
// of the known position.
func (h *history) hasDigest(now, d uint64) bool {
	if now == d {
		return true
	}
	// Each change is undone by one more exclusive or, the newest first.
	for c := range h.back {
		if now ^= c.delta; now == d {
			return true
		}
	}
	return false
}

// hasMark reports whether an earlier version of a lane had this mark.
func (h *history) hasMark(lane int, m uint32) bool {
	for c := range h.back {
		if c.which == lane && laneMark(c.was) == m {
			return true
		}
	}
	return false
}

// has reports whether a lane had this version earlier.
func (h *history) has(lane int, version remote.LaneVersion) bool {
	mixed := mixVersion(lane, version)
	for c := range h.back {
		if c.which == lane && c.was == mixed {
			return true
		}
	}
	return false
}
