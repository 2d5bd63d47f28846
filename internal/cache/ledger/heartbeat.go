// Heartbeats: how one announces a position of the tier, and how this instance
// compares the announced position with its own. If the position was read from one
// server at one moment, the text is its digest: an instance that missed no message
// has passed through that position. A position from several servers may never have
// existed as a whole. Then the text is a mark of each lane's version: in each lane
// by itself, an instance that missed no message has passed through that version, or
// will when the messages of the other server arrive.
// States of a comparison: Reached, Unknown, Ahead, and Overdue after Ahead.
// Invariant: a heartbeat from beyond a lost message is never Reached.

package ledger

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/strata-cache/strata/remote"
)

// marksPrefix begins a text with lane marks. No digest begins so.
const marksPrefix = "~"

// headLen is the length of the part in front of the lane marks: the epoch and
// three counts.
const headLen = 4 * 8

// Heartbeat returns the text by which a heartbeat announces p.
func Heartbeat(p remote.Position) string {
	if !p.Spread {
		return strconv.FormatUint(Digest(p), 16)
	}
	b := append(make([]byte, 0, len(marksPrefix)+headLen+4*len(p.Lanes)), marksPrefix...)
	for _, n := range []uint64{hashString(p.Epoch), p.Drops, p.Expiries, p.Clock} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	for i, version := range p.Lanes {
		b = binary.BigEndian.AppendUint32(b, laneMark(mixVersion(i, version)))
	}
	return string(b)
}

// laneMark is the short form of a lane's mixed version.
func laneMark(mixed uint64) uint32 { return uint32(mixed >> 32) }

// Comparison is the result of comparing a heartbeat with the known position.
type Comparison uint8

// The results of a comparison.
const (
	// Reached: this instance has passed through the announced position, or the
	// heartbeat announces none that can be compared.
	Reached Comparison = iota
	// Unknown: this instance has never been at the announced position.
	Unknown
	// Ahead: messages on their way may bring this instance to the announced
	// position. [Ledger.Overdue] says later whether they have.
	Ahead
)

// laneMarks is the part of an announced position that this instance has not
// reached.
type laneMarks struct {
	lanes  map[int]uint32      // marks of versions not arrived yet
	counts [headLen / 8]uint64 // the hashed epoch, drops, expiries, clock
}

// Compare compares the text of a heartbeat with the known position.
func (l *Ledger) Compare(heartbeat string) Comparison {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known.taken {
		return Reached
	}
	if marks, ok := strings.CutPrefix(heartbeat, marksPrefix); ok {
		return l.compareMarks(marks)
	}
	digest, err := strconv.ParseUint(heartbeat, 16, 64)
	if err != nil || l.past.hasDigest(l.known.digest, digest) {
		return Reached
	}
	return Unknown
}

func (l *Ledger) compareMarks(marks string) Comparison {
	if len(marks) != headLen+4*len(l.known.Lanes) {
		return Reached // the sender has another number of lanes
	}
	if l.awaited != nil {
		return Reached // one comparison at a time
	}
	s := &laneMarks{lanes: map[int]uint32{}}
	b := []byte(marks)
	for i := range s.counts {
		s.counts[i], b = binary.BigEndian.Uint64(b), b[8:]
	}
	if s.counts[0] != hashString(l.known.Epoch) {
		return Unknown
	}
	for i, version := range l.known.Lanes {
		m := binary.BigEndian.Uint32(b[4*i:])
		if now := mixVersion(i, version); m != laneMark(now) && !l.past.hasMark(i, m) {
			s.lanes[i] = m
		}
	}
	if !l.lacks(s) {
		return Reached
	}
	l.awaited = s
	return Ahead
}

// lacks reports whether the known position, which is of the same epoch, has not
// reached s. mu is held.
func (l *Ledger) lacks(s *laneMarks) bool {
	k := &l.known
	return len(s.lanes) > 0 || s.counts[1] > k.Drops || s.counts[2] > k.Expiries || s.counts[3] > k.Clock
}

// Overdue reports whether messages announced by a heartbeat ahead of this instance
// are missing. It is called after the time that they may take.
func (l *Ledger) Overdue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.awaited
	l.awaited = nil
	return s != nil && l.known.taken && l.lacks(s)
}
