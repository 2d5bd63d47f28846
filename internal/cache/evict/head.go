package evict

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
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

	// Idles is the bit of State for an entry with an idle life: reads prolong it.
	Idles = 1 << UsesBits
	// SettledBits are the bits of State that show whether a hit changes anything: it
	// changes nothing if all of MaxUses are set, and Idles is not.
	SettledBits = MaxUses | Idles

	// shardShift is the number of bits below the number of the shard.
	shardShift = UsesBits + 1
	shardBits  = StampShift - shardShift
	// MaxShards is the largest number of shards.
	MaxShards = 1 << shardBits
	// StampShift is the number of bits below the stamp; see Idle.
	StampShift = 14
)

// Head is the common part of all entries, independent of the types of key and value.
// An entry begins with its Head.
type Head struct {
	// Dead is the time from which the entry is never served.
	Dead int64
	// State is, in its low bits, the number of recent hits up to MaxUses, which
	// readers write; above them Idles, the number of the entry's shard, and, with Idles,
	// the time of the last read; see Idle.
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

// Touch records a hit. It never writes the cache line of an entry with a full counter. Of two hits
// at the same moment one may not be counted, which is harmless. The later of two stamps is never
// lost.
func (h *Head) Touch() {
	if u := h.State.Load(); u&MaxUses < MaxUses {
		h.State.CompareAndSwap(u, u+1)
	}
}

// Shard returns the number of the entry's shard.
func (h *Head) Shard() int { return int(h.State.Load() >> shardShift & (MaxShards - 1)) }

// SetShard changes the number of the entry's shard.
func (h *Head) SetShard(n uint32) {
	const mask = (MaxShards - 1) << shardShift
	for u := h.State.Load(); !h.State.CompareAndSwap(u, u&^mask|InShard(n)); u = h.State.Load() {
	}
}

// InShard returns the bits of State for the number of a shard.
func InShard(n uint32) uint32 { return n << shardShift }

const (
	// stampMask selects the stamp from State>>StampShift.
	stampMask = 1<<(32-StampShift) - 1
	// ahead is the number of units by which a stamp may be later than the time of a
	// reader, which is late while its clock is coarse. A stamp that seems further ahead
	// is from a long time ago.
	ahead = 1024
)

// Idle is the time for which an entry lives without being read. The zero Idle means
// that reads do not matter.
//
// The time of the last read is in the high bits of Head.State, the stamp: a number of
// units since the start of the clock, modulo 2^18. A unit is a power of two of
// nanoseconds, between a sixteenth and an eighth of Life, so that a hit in the unit of
// the stamp writes nothing. Life counts from the begin of the unit. So an entry ends
// between 7/8 of Life and all of Life after its last read.
//
// Invariant: in one Head, a stamp is only replaced by a later one, and every writer of
// State keeps the stamp that it finds. So a read is lost only if at the same moment
// another entry replaces its entry, and inherits the stamp.
type Idle struct {
	// Life is in nanoseconds; zero means that reads do not matter.
	Life int64
	// Shift is the number of low bits of a time within one unit.
	Shift uint8
}

// NewIdle returns the Idle of a life. A life counts as none if it is zero or negative,
// or longer than a century.
func NewIdle(life time.Duration) Idle {
	const century = 100 * 365 * 24 * time.Hour
	if life <= 0 || life > century {
		return Idle{}
	}
	return Idle{Life: int64(life), Shift: uint8(max(0, bits.Len64(uint64(life)/8)-1))}
}

// Stamp returns the bits of State, Idles among them, for a read at now; none if reads do
// not matter.
func (i *Idle) Stamp(now int64) uint32 {
	if i.Life == 0 {
		return 0
	}
	return uint32(i.unit(now))<<StampShift | Idles
}

// unit returns the number of the unit of a time.
func (i *Idle) unit(now int64) int64 { return now >> (i.Shift & 63) }

// Settled reports whether a hit at now changes nothing in an entry with such a State and
// an idle life.
func (i *Idle) Settled(state uint32, now int64) bool {
	return state&^(MaxShards-1<<shardShift) == uint32(i.unit(now))<<StampShift|Idles|MaxUses
}

// age returns the number of units from the stamp of a state to now; less than zero if
// the stamp is later.
func (i *Idle) age(state uint32, now int64) int64 {
	age := (i.unit(now) - int64(state>>StampShift)) & stampMask
	if age > stampMask-ahead {
		age -= stampMask + 1
	}
	return age
}

// until returns the end of an entry with a state.
func (i *Idle) until(state uint32, now int64) int64 {
	return (i.unit(now)-i.age(state, now))<<i.Shift + i.Life
}

// End returns the time from which h is not served any more, unless a read comes before.
func (i *Idle) End(h *Head, now int64) int64 {
	if i.Life == 0 {
		return h.Dead
	}
	return min(h.Dead, i.until(h.State.Load(), now))
}

// Over reports whether h has ended at now.
func (i *Idle) Over(h *Head, now int64) bool { return i.End(h, now) <= now }

// Read records a read of h at now, which is before its deadline Dead, and reports
// whether its idle life had not ended either. It needs a Life.
func (i *Idle) Read(h *Head, now int64) (alive bool) {
	for {
		u := h.State.Load()
		age := i.age(u, now)
		if age > 0 && i.until(u, now) <= now {
			return false
		}
		if age <= 0 || h.State.CompareAndSwap(u, u&(1<<StampShift-1)|i.Stamp(now)) {
			return true
		}
	}
}
