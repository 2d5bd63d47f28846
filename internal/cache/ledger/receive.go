package ledger

import "github.com/strata-cache/strata/remote"

// Receive notes the lane version that a message carries. If an earlier message of
// the lane was lost, the lane becomes suspect and Receive returns true. The drop
// that the message announces is for the caller to apply.
func (l *Ledger) Receive(m *remote.Message, now int64) (missed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known.taken {
		return false // Rejoin will make every older entry suspect
	}
	switch m.Kind {
	case remote.Dropped, remote.Expired:
		return l.receiveLane(m, now)
	case remote.TagDropped, remote.TagExpired:
		return l.receiveTag(m, now)
	case remote.AllDropped:
		if m.Is.Count == 0 {
			return false // the publisher does not count
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

func (l *Ledger) receiveLane(m *remote.Message, now int64) (missed bool) {
	n := int(m.Lane)
	if m.Is == (remote.LaneVersion{}) || n >= len(l.known.Lanes) {
		return false // the publisher knows no lanes
	}
	// The version of the tier was known before its message. The message has come now, or the one
	// behind it.
	if p, ok := l.pending[n]; ok && (p == m.Was || p == m.Is) {
		delete(l.pending, n)
	}
	if l.awaited != nil {
		if a := l.awaited.lanes[n]; a == laneMark(mixVersion(n, m.Was)) || a == laneMark(mixVersion(n, m.Is)) {
			delete(l.awaited.lanes, n)
		}
	}
	version := l.known.Lanes[n]
	// The position was read after this drop: the message brings no news.
	if version == m.Is {
		return false
	}
	missed = version != m.Was
	l.move(n, m.Is)
	if missed {
		l.suspect(now, n)
	}
	return missed
}

func (l *Ledger) receiveTag(m *remote.Message, now int64) (missed bool) {
	if m.Is.Count == 0 {
		return false
	}
	if p, ok := l.pending[tagLane]; ok && (p.Count == m.Was.Count || p.Count == m.Is.Count) {
		delete(l.pending, tagLane)
	}
	// As for a lane: the drop is known already.
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

// move makes version the known version of a lane.
func (l *Ledger) move(lane int, version remote.LaneVersion) {
	l.note(lane, mixVersion(lane, l.known.Lanes[lane]), mixVersion(lane, version))
	l.known.Lanes[lane] = version
	l.saw(lane, version)
}

// count makes n the value of one of the known counts.
func (l *Ledger) count(which int, known *uint64, n uint64) {
	l.note(which, mixCount(which, *known), mixCount(which, n))
	*known = n
}

// note notes that the mixed version of a lane, or of a count, has changed.
func (l *Ledger) note(which int, was, is uint64) {
	// The digest is the exclusive or of all versions: a change costs two operations, however many
	// lanes there are.
	l.known.digest ^= was ^ is
	l.past.add(change{which: which, was: was, delta: was ^ is})
}
