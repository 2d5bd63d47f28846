package evict

import (
	"math"
	"sync/atomic"
)

// Forever is later than every time: the deadline of an entry that lives until it is
// evicted or deleted.
const Forever int64 = math.MaxInt64

const (
	// MaxUses is the largest number of uses that a Head counts. It is a mask too: uses
	// are the low bits of State.
	MaxUses = 3
	// UsesBits is the number of those bits.
	UsesBits = 2
)

// Head is what all entries have in common, whatever the types of their key and value.
// An entry begins with its Head.
type Head struct {
	// Dead is the time from which the entry is never served.
	Dead int64
	// State is, in its low bits, the number of recent hits up to MaxUses, which
	// readers write, above them the number of the entry's shard, and above that the time
	// of the last read, if reads matter to its life; see Idle.
	State atomic.Uint32
	// node is the entry's number in the slab of its Order. It is set before the
	// entry is published; zero before that.
	node uint32
}

// Uses returns the number of recent hits.
func (h *Head) Uses() uint32 { return h.State.Load() & MaxUses }

// SetUses changes the number of hits.
func (h *Head) SetUses(n uint32) {
	for u := h.State.Load(); !h.State.CompareAndSwap(u, u&^MaxUses|n); u = h.State.Load() {
	}
}

// Touch records a hit. It never writes the cache line of an entry with a full counter.
// The hit of one of two readers may be lost, which is harmless; a later stamp is not.
func (h *Head) Touch() {
	if u := h.State.Load(); u&MaxUses < MaxUses {
		h.State.CompareAndSwap(u, u+1)
	}
}

// Shard returns the number of the entry's shard.
func (h *Head) Shard() int { return int(h.State.Load() >> UsesBits & (1<<ShardBits - 1)) }
