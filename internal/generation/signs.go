package generation

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/strata-cache/strata/remote"
)

// A sign of life carries a sign of a position that a tier was in.
//
// If that was one moment, the sign is its digest: messages come in the order of
// the drops, so that who has missed none has been there. A position that was
// read from several places is of no one moment, and may never have been. Its
// sign is a mark of each lane's word: of each lane by itself, who has missed
// nothing has been there, or will be when the messages have come that are on
// their way from another place.

// marked begins a sign of the second kind. No digest begins so.
const marked = "~"

// headLen is the length of what is in front of the marks: the epoch and three
// counts.
const headLen = 4 * 8

// Sign is what a sign of life says of p.
func Sign(p remote.Position) string {
	if !p.Spread {
		return strconv.FormatUint(Digest(p), 16)
	}
	b := append(make([]byte, 0, len(marked)+headLen+4*len(p.Lanes)), marked...)
	for _, n := range []uint64{hashString(p.Epoch), p.Drops, p.Expiries, p.Clock} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	for i, w := range p.Lanes {
		b = binary.BigEndian.AppendUint32(b, mark(mixWord(i, w)))
	}
	return string(b)
}

// mark is the short form of a mixed word.
func mark(mixed uint64) uint32 { return uint32(mixed >> 32) }

// News is what a sign says to who sees it.
type News uint8

// What a sign can say.
const (
	// NoNews: nothing was missed up to where it is from, or it says nothing.
	NoNews News = iota
	// Strange: it is from where this instance has never been.
	Strange
	// Early: it may be from where this instance is about to be; [Ledger.Overdue]
	// says whether it has got there.
	Early
)

// signs are what a Ledger awaits because of a sign.
type signs struct {
	// lanes have marks that were not seen yet; counts are epoch, drops,
	// expiries and clock.
	lanes  map[int]uint32
	counts [headLen / 8]uint64
}

// See takes a sign.
func (l *Ledger) See(sign string) News {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known.taken {
		return NoNews
	}
	if marks, ok := strings.CutPrefix(sign, marked); ok {
		return l.seeMarks(marks)
	}
	digest, err := strconv.ParseUint(sign, 16, 64)
	if err != nil || l.past.hasDigest(l.known.digest, digest) {
		return NoNews
	}
	return Strange
}

func (l *Ledger) seeMarks(marks string) News {
	if len(marks) != headLen+4*len(l.known.Lanes) {
		return NoNews // from who has other lanes
	}
	if l.awaited != nil {
		return NoNews // one at a time
	}
	s := &signs{lanes: map[int]uint32{}}
	b := []byte(marks)
	for i := range s.counts {
		s.counts[i], b = binary.BigEndian.Uint64(b), b[8:]
	}
	if s.counts[0] != hashString(l.known.Epoch) {
		return Strange
	}
	for i, w := range l.known.Lanes {
		m := binary.BigEndian.Uint32(b[4*i:])
		if now := mixWord(i, w); m != mark(now) && !l.past.hasMark(i, m) {
			s.lanes[i] = m
		}
	}
	if !l.lacks(s) {
		return NoNews
	}
	l.awaited = s
	return Early
}

// lacks reports whether what is known here, which is of the same epoch, has not
// come to s. mu is held.
func (l *Ledger) lacks(s *signs) bool {
	k := &l.known
	return len(s.lanes) > 0 || s.counts[1] > k.Drops || s.counts[2] > k.Expiries || s.counts[3] > k.Clock
}

// Overdue reports whether what an Early sign has told of has not come. It is
// called when that has had its time.
func (l *Ledger) Overdue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.awaited
	l.awaited = nil
	return s != nil && l.known.taken && l.lacks(s)
}

// change is one step of what is known.
type change struct {
	// which is the lane, or the count, and was its mixed word before; delta is
	// that and the one after.
	which      int
	was, delta uint64
}

// history holds the newest changes.
type history struct {
	at, n int
	held  [1024]change
}

func (h *history) add(c change) {
	h.held[h.at] = c
	h.at = (h.at + 1) % len(h.held)
	h.n = min(h.n+1, len(h.held))
}

// back yields the changes, the newest first.
func (h *history) back(yield func(change) bool) {
	for i := range h.n {
		if !yield(h.held[(h.at-1-i+len(h.held))%len(h.held)]) {
			return
		}
	}
}

// hasDigest reports whether the digest was d, being now.
func (h *history) hasDigest(now, d uint64) bool {
	if now == d {
		return true
	}
	for c := range h.back {
		if now ^= c.delta; now == d {
			return true
		}
	}
	return false
}

// hasMark reports whether a lane had a word with this mark before its own.
func (h *history) hasMark(lane int, m uint32) bool {
	for c := range h.back {
		if c.which == lane && mark(c.was) == m {
			return true
		}
	}
	return false
}

// has reports whether a lane had this word before its own.
func (h *history) has(lane int, w remote.Word) bool {
	mixed := mixWord(lane, w)
	for c := range h.back {
		if c.which == lane && c.was == mixed {
			return true
		}
	}
	return false
}
