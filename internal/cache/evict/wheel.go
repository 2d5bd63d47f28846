package evict

import (
	"math"
	"time"
)

const (
	// TickLength is the time span of one slot of the wheel.
	TickLength = int64(time.Second)
	// wheelSlots is the number of slots. Deadlines further away than one turn of
	// the wheel share the slots and are checked once per turn.
	wheelSlots = 512
	wheelMask  = wheelSlots - 1
	// dueSlot is one more slot, for the rest of a slot while it is emptied.
	dueSlot = wheelSlots
	// slotMark tells the number of a slot from the number of a node.
	slotMark = 1 << 31
	// Never is a tick after all others: it stands for no deadline.
	Never int64 = math.MaxInt64
)

// timer links a node into a slot of the wheel. The prev of the first node of a slot
// is the number of the slot with slotMark; a prev of zero means that the node is in
// no slot.
type timer struct{ prev, next uint32 }

// wheel is a hashed timing wheel with unsorted slots (Varghese and Lauck,
// "Hashed and Hierarchical Timing Wheels", 1987, scheme 6): the entries of one
// shard with a deadline. All methods need the shard's mutex.
type wheel struct {
	slots []uint32 // the first node of each; allocated with the first deadline
	// tick is the first tick not emptied yet.
	tick int64
	n    int
}

// TickOf returns the tick that a deadline falls into.
func TickOf(dead int64) int64 {
	if dead == Forever {
		return Never
	}
	return dead / TickLength
}

// add puts a node into the slot of the end of its entry at now, if there is one.
func (w *wheel) add(b *slab, i uint32, now int64) {
	dead := b.idle.End(b.head(i), now)
	if dead == Forever {
		return
	}
	if w.slots == nil {
		w.slots = make([]uint32, wheelSlots+1)
	}
	// A deadline in the past goes into the next slot to be emptied.
	slot := uint32(max(TickOf(dead), w.tick) & wheelMask)
	t := b.timer(i)
	t.prev, t.next = slot|slotMark, w.slots[slot]
	if t.next != 0 {
		b.timer(t.next).prev = i
	}
	w.slots[slot] = i
	w.n++
}

// remove takes a node out; it does nothing if the node is in no slot.
func (w *wheel) remove(b *slab, i uint32) {
	if !b.timed(i) {
		return
	}
	t := b.timer(i)
	switch {
	case t.prev == 0:
		return
	case t.prev&slotMark != 0:
		w.slots[t.prev&^slotMark] = t.next
	default:
		b.timer(t.prev).next = t.next
	}
	if t.next != 0 {
		b.timer(t.next).prev = t.prev
	}
	*t = timer{}
	w.n--
}

// pop takes out the next node of the ticks before end, or returns zero if there
// is none. Deadlines whole turns apart share a slot, so the entry may still be
// alive; then the caller puts it back.
func (w *wheel) pop(b *slab, end int64) uint32 {
	w.tick = max(w.tick, end-wheelSlots) // one turn sees every slot
	for w.n == 0 || w.slots[dueSlot] == 0 {
		if w.n == 0 {
			w.tick = max(w.tick, end)
		}
		if w.tick >= end {
			return 0
		}
		slot := w.tick & wheelMask
		if i := w.slots[slot]; i != 0 {
			b.timer(i).prev = dueSlot | slotMark
			w.slots[dueSlot], w.slots[slot] = i, 0
		}
		w.tick++
	}
	i := w.slots[dueSlot]
	w.remove(b, i)
	return i
}

// next returns the first tick with entries in its slot, or Never. It may be
// called only after pop has returned zero.
func (w *wheel) next() int64 {
	if w.n == 0 {
		return Never
	}
	for t := w.tick; t < w.tick+wheelSlots; t++ {
		if w.slots[t&wheelMask] != 0 {
			return t
		}
	}
	return w.tick // only if w.n is wrong
}
