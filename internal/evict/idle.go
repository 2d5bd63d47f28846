package evict

import (
	"math/bits"
	"time"
)

const (
	// ShardBits is the number of bits of Head.State for the number of a shard.
	ShardBits = 12
	// StampShift is the number of bits below the stamp.
	StampShift = UsesBits + ShardBits
	// stampMask selects the stamp from State>>StampShift.
	stampMask = 1<<(32-StampShift) - 1
	// ahead is by how many units a stamp may be later than the time of a reader, which
	// is late while its clock is coarse. A stamp that seems to be further ahead is that
	// of a long time ago.
	ahead = 1024
)

// Idle is how long an entry lives without being read. The zero Idle means that reads do
// not matter.
//
// The time of the last read is in the high bits of Head.State, the stamp: a number of
// units since the start of the clock, modulo 2^18. A unit is a power of two of
// nanoseconds, between a sixteenth and an eighth of Life, so that a hit whose unit is
// that of the stamp writes nothing. Life counts from the begin of the unit. So an entry
// ends between 7/8 of Life and all of Life after its last read.
//
// Invariant: a stamp is only replaced by a later one, and every writer of State keeps
// the stamp that it finds. So no read is lost.
//
// The fields are read by hits, where a method would be a call.
type Idle struct {
	// Life is in nanoseconds; zero means that reads do not matter.
	Life int64
	// Shift is the number of low bits of a time that are within one unit.
	Shift uint8
}

// NewIdle returns the Idle of a life. A life that is not positive, or longer than a
// century, is none.
func NewIdle(life time.Duration) Idle {
	const century = 100 * 365 * 24 * time.Hour
	if life <= 0 || life > century {
		return Idle{}
	}
	return Idle{Life: int64(life), Shift: uint8(max(0, bits.Len64(uint64(life)/8)-1))}
}

// Stamp returns the bits of State for a read at now.
func (i Idle) Stamp(now int64) uint32 {
	if i.Life == 0 {
		return 0
	}
	return uint32(now>>i.Shift) << StampShift
}

// age returns the number of units from the stamp of a state to now; less than zero if
// the stamp is later.
func (i Idle) age(state uint32, now int64) int64 {
	age := (int64(now>>i.Shift) - int64(state>>StampShift)) & stampMask
	if age > stampMask-ahead {
		age -= stampMask + 1
	}
	return age
}

// until returns the end of an entry with a state.
func (i Idle) until(state uint32, now int64) int64 {
	return (now>>i.Shift-i.age(state, now))<<i.Shift + i.Life
}

// End returns the time from which h is not served any more, unless a read comes before.
func (i Idle) End(h *Head, now int64) int64 {
	if i.Life == 0 {
		return h.Dead
	}
	return min(h.Dead, i.until(h.State.Load(), now))
}

// Over reports whether h has ended at now.
func (i Idle) Over(h *Head, now int64) bool { return i.End(h, now) <= now }

// Read records a read of h at now, and reports whether h lived until then. It needs a
// Life.
func (i Idle) Read(h *Head, now int64) (alive bool) {
	for {
		u := h.State.Load()
		if min(h.Dead, i.until(u, now)) <= now {
			return false
		}
		if i.age(u, now) <= 0 || h.State.CompareAndSwap(u, u&(1<<StampShift-1)|i.Stamp(now)) {
			return true
		}
	}
}

// Inherit gives h the stamp of old if that is later.
func (i Idle) Inherit(old, h *Head) {
	for stamp := old.State.Load() >> StampShift; ; {
		u := h.State.Load()
		later := (stamp - u>>StampShift) & stampMask
		if later == 0 || later > stampMask/2 || h.State.CompareAndSwap(u, u&(1<<StampShift-1)|stamp<<StampShift) {
			return
		}
	}
}
