package l1

import (
	"math"
	"time"
)

const (
	// tickLength is the time span of one slot of the wheel.
	tickLength = int64(time.Second)
	// wheelSlots is the number of slots. Deadlines that are further away than
	// one turn of the wheel share the slots and are checked once per turn.
	wheelSlots = 512
	wheelMask  = wheelSlots - 1
	// never is the tick that stands for no deadline.
	never int64 = math.MaxInt64
)

// wheel is a hashed timing wheel with unsorted slots (Varghese and Lauck,
// "Hashed and Hierarchical Timing Wheels", 1987, scheme 6): the entries of one
// shard that have a deadline. All methods need the shard's mutex.
type wheel[K comparable, V any] struct {
	slots []*Entry[K, V] // allocated with the first deadline
	// tick is the first tick that has not been emptied.
	tick int64
	// due holds the remaining entries of the slot that is being emptied.
	due *Entry[K, V]
	n   int
}

// tickOf returns the tick that a deadline falls into.
func tickOf(dead int64) int64 {
	if dead == Forever {
		return never
	}
	return dead / tickLength
}

// add puts an entry into the slot of its deadline, if it has one.
func (w *wheel[K, V]) add(e *Entry[K, V]) {
	if e.Dead == Forever {
		return
	}
	if w.slots == nil {
		w.slots = make([]*Entry[K, V], wheelSlots)
	}
	push(&w.slots[max(tickOf(e.Dead), w.tick)&wheelMask], e)
	w.n++
}

// push links e at the head of a list.
func push[K comparable, V any](list **Entry[K, V], e *Entry[K, V]) {
	e.wnext, e.wprev = *list, list
	if e.wnext != nil {
		e.wnext.wprev = &e.wnext
	}
	*list = e
}

// remove takes an entry out; it does nothing if the entry is not in the wheel.
func (w *wheel[K, V]) remove(e *Entry[K, V]) {
	if e.wprev == nil {
		return
	}
	*e.wprev = e.wnext
	if e.wnext != nil {
		e.wnext.wprev = e.wprev
	}
	e.wnext, e.wprev = nil, nil
	w.n--
}

// pop takes out the next entry of the ticks before end, or returns nil if there
// is none. A slot is shared by deadlines that are whole turns apart, so the
// returned entry may still be alive; then the caller puts it back.
func (w *wheel[K, V]) pop(end int64) *Entry[K, V] {
	w.tick = max(w.tick, end-wheelSlots) // one turn sees every slot
	for w.due == nil {
		if w.n == 0 {
			w.tick = max(w.tick, end)
		}
		if w.tick >= end {
			return nil
		}
		slot := &w.slots[w.tick&wheelMask]
		if w.due = *slot; w.due != nil {
			w.due.wprev = &w.due
			*slot = nil
		}
		w.tick++
	}
	e := w.due
	w.remove(e)
	return e
}

// next returns the first tick that has a slot with entries, or never. It may be
// called only after pop has returned nil.
func (w *wheel[K, V]) next() int64 {
	if w.n == 0 {
		return never
	}
	t := w.tick
	for w.slots[t&wheelMask] == nil {
		t++
	}
	return t
}
