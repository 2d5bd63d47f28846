// Values that a read has already, from L1 or from its last question. L2 is told their
// IDs, and need not send them.
// Invariant: a value counts as the value in L2 only if L2 was told its ID, in the
// schema of the cache, and has answered that the bytes are the same.

package l2

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/remote"
)

// large is a size in bytes. For an encoded value of this size or more it pays to ask L2 whether the
// value is still the same.
const large = 4 << 10

// lately is the number of smaller values in a row after which no large ones are expected.
const lately = 256

// bulk tells whether reads should expect large values. The zero bulk expects none.
type bulk struct{ left atomic.Int32 }

// add notes the size of a value. If two are added at once, one may be forgotten.
func (b *bulk) add(n int) {
	switch left := b.left.Load(); {
	case n >= large && left < lately:
		b.left.Store(lately)
	case n > 0 && n < large && left > 0:
		b.left.Store(left - 1)
	}
}

func (b *bulk) expected() bool { return b.left.Load() > 0 }

// worth tells whether a read should name the value that it has: if L2 holds another one,
// the read takes a second round trip. With the zero worth it should.
type worth struct {
	score atomic.Int32
	turns atomic.Uint32
}

const (
	// sameGain is added to the score for an unchanged value, and changedLoss taken off
	// for a changed one. So it is enough if a third of the values are unchanged.
	sameGain, changedLoss = 2, 1
	mostWorth             = 8
	// retryWorth: one in this number of reads names its value even if earlier reads have
	// shown that it is not worth it. So a change for the better is noticed.
	retryWorth = 16
)

// add notes whether a value that a read has named was the one that L2 holds.
func (w *worth) add(same bool) {
	if s := w.score.Load(); same {
		w.score.Store(min(s+sameGain, mostWorth))
	} else {
		w.score.Store(max(s-changedLoss, -mostWorth))
	}
}

// ask reports whether the next read names the value that it has.
func (w *worth) ask() bool {
	return w.score.Load() > -mostWorth || w.turns.Add(1)%retryWorth == 0
}

// Knows adds the ID of the i-th value to known, the IDs of the values that the reads of n
// names have already. known stays nil while all IDs are zero.
func Knows(known []remote.ID, n, i int, id remote.ID) []remote.ID {
	if id == 0 {
		return known
	}
	if known == nil {
		known = make([]remote.ID, n)
	}
	known[i] = id
	return known
}

// naming returns the IDs of known values to send to L2: none unless large values are
// expected, and such questions are worth it.
func (m *Meter) naming(known []remote.ID) []remote.ID {
	if len(known) == 0 || !m.bulk.expected() || !m.worth.ask() {
		return nil
	}
	return known
}

// believe makes sure that a Held is Same only if it has no data and L2 was told an ID.
func (s *Store) believe(h *remote.Held, known remote.ID) {
	switch {
	case !h.Same:
	case h.Data != nil:
		h.Same = false
	case known == 0:
		h.Same = false
		s.Unreadable()
	}
}

// age takes the time in which an answer came off its lives: L2 has told them at some moment in it. A life without an
// end has none.
func age(h *remote.Held, took time.Duration) {
	const endless = math.MaxInt64 / 2
	if h.Fresh < endless {
		h.Fresh -= took
	}
	if h.Left <= 0 || h.Left >= endless {
		return
	}
	if h.Left -= took; h.Left <= 0 {
		*h = remote.Held{}
	}
}
