package l1

import (
	"math/rand/v2"
	"testing"
)

// TestWheelFindsEveryDeadlineInItsTick moves a wheel through time in uneven
// steps, with deadlines of all distances, and checks that each entry comes out
// in the first step that covers its tick.
func TestWheelFindsEveryDeadlineInItsTick(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var w wheel[int, int]
	waiting := map[*Entry[int, int]]bool{}
	var now int64
	for range 2000 {
		for range r.IntN(5) {
			ahead := []int64{1, 30, wheelSlots - 1, wheelSlots, wheelSlots + 1, 5 * wheelSlots}[r.IntN(6)]
			e := until(0, 0, now+r.Int64N(ahead*tickLength))
			w.add(e)
			waiting[e] = true
		}
		for e := range waiting { // any entry
			if r.IntN(4) == 0 {
				w.remove(e)
				delete(waiting, e)
			}
			break
		}
		if want := len(waiting) > 0; w.n != len(waiting) || want != (w.next() != never) {
			t.Fatalf("wheel holds %d, next %d, want %d", w.n, w.next(), len(waiting))
		}
		for e := range waiting {
			if w.next() > max(tickOf(e.Dead), w.tick) {
				t.Fatalf("next is %d, a deadline is in %d", w.next(), tickOf(e.Dead))
			}
		}
		now += r.Int64N([]int64{1, 1, 10, 2 * wheelSlots}[r.IntN(4)] * tickLength)
		end := now / tickLength
		for e := w.pop(end); e != nil; e = w.pop(end) {
			if !waiting[e] {
				t.Fatal("an entry came out twice")
			}
			if e.Dead > now {
				w.add(e)
				continue
			}
			delete(waiting, e)
		}
		for e := range waiting {
			if tickOf(e.Dead) < end {
				t.Fatalf("deadline in tick %d was overlooked, now %d", tickOf(e.Dead), end)
			}
		}
	}
}

// TestWheelStridesOverIdleYears: after a long time the wheel must not look at
// an entry once for every turn it has missed.
func TestWheelStridesOverIdleYears(t *testing.T) {
	const years = 200 * 365 * 24 * 3600
	var w wheel[int, int]
	far := until(1, 1, (years+1000)*tickLength)
	w.add(far)
	seen := 0
	for e := w.pop(years); e != nil; e = w.pop(years) {
		w.add(e)
		if seen++; seen > 1 {
			t.Fatal("looked at more than once")
		}
	}
	if w.tick != years || w.next() < years {
		t.Fatalf("tick %d, next %d", w.tick, w.next())
	}
}
