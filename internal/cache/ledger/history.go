package ledger

import "github.com/strata-cache/strata/remote"

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
