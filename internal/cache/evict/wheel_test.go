package evict

import (
	"math/rand/v2"
	"testing"
)

// TestWheelFindsEveryDeadlineInItsTick moves a wheel through time in uneven
// steps, with deadlines of all distances, and checks that each entry comes out
// in the first step that covers its tick.
func TestWheelFindsEveryDeadlineInItsTick(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var w wheel
	var b slab
	waiting := map[uint32]bool{}
	var now int64
	for range 2000 {
		for range r.IntN(5) {
			ahead := []int64{1, 30, wheelSlots - 1, wheelSlots, wheelSlots + 1, 5 * wheelSlots}[r.IntN(6)]
			h := &Head{Dead: now + r.Int64N(ahead*TickLength)}
			b.add(h, 0, 1)
			w.add(&b, h.node, now)
			waiting[h.node] = true
		}
		for i := range waiting { // any entry
			if r.IntN(4) == 0 {
				w.remove(&b, i)
				b.remove(i)
				delete(waiting, i)
			}
			break
		}
		if want := len(waiting) > 0; w.n != len(waiting) || want != (w.next() != Never) {
			t.Fatalf("wheel holds %d, next %d, want %d", w.n, w.next(), len(waiting))
		}
		for i := range waiting {
			if w.next() > max(TickOf(b.head(i).Dead), w.tick) {
				t.Fatalf("next is %d, a deadline is in %d", w.next(), TickOf(b.head(i).Dead))
			}
		}
		now += r.Int64N([]int64{1, 1, 10, 2 * wheelSlots}[r.IntN(4)] * TickLength)
		end := now / TickLength
		for i := w.pop(&b, end); i != 0; i = w.pop(&b, end) {
			if !waiting[i] {
				t.Fatal("an entry came out twice")
			}
			if b.head(i).Dead > now {
				w.add(&b, i, now)
				continue
			}
			b.remove(i)
			delete(waiting, i)
		}
		for i := range waiting {
			if TickOf(b.head(i).Dead) < end {
				t.Fatalf("deadline in tick %d was overlooked, now %d", TickOf(b.head(i).Dead), end)
			}
		}
	}
}

// TestWheelStridesOverIdleYears: after a long time the wheel must not look at
// an entry once for every turn it has missed.
func TestWheelStridesOverIdleYears(t *testing.T) {
	const years = 200 * 365 * 24 * 3600
	var w wheel
	var b slab
	far := &Head{Dead: (years + 1000) * TickLength}
	b.add(far, 0, 1)
	w.add(&b, far.node, 0)
	seen := 0
	for i := w.pop(&b, years); i != 0; i = w.pop(&b, years) {
		w.add(&b, i, 0)
		if seen++; seen > 1 {
			t.Fatal("looked at more than once")
		}
	}
	if w.tick != years || w.next() < years {
		t.Fatalf("tick %d, next %d", w.tick, w.next())
	}
}
