package l1

import "testing"

// evictOrder drains a queue and returns the keys in the order they left.
func evictOrder(q *queue[int, int], keep *Entry[int, int]) (keys []int) {
	for e := q.victim(keep); e != nil; e = q.victim(keep) {
		q.remove(e)
		keys = append(keys, e.Key)
	}
	return keys
}

func TestUsedEntriesGetSecondChances(t *testing.T) {
	for _, x := range []struct {
		name string
		use  []uint32 // of the keys 0, 1, 2 …
		keep int
		want []int
	}{
		{"unused go oldest first", []uint32{0, 0, 0}, -1, []int{0, 1, 2}},
		{"one use is one round", []uint32{1, 0, 0}, -1, []int{1, 2, 0}},
		{"more uses last longer", []uint32{3, 1, 2, 0}, -1, []int{3, 1, 2, 0}},
		{"each round takes one use", []uint32{2, 1}, -1, []int{1, 0}},
		{"the spared entry stays", []uint32{0, 3, 3}, 0, []int{1, 2}},
		{"spared alone", []uint32{0}, 0, nil},
		{"empty", nil, -1, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			var q queue[int, int]
			var keep *Entry[int, int]
			for k, u := range x.use {
				e := forever(k, k)
				e.use.Store(u)
				q.add(e)
				if k == x.keep {
					keep = e
				}
			}
			got := evictOrder(&q, keep)
			if len(got) != len(x.want) {
				t.Fatalf("evicts %v, want %v", got, x.want)
			}
			for i := range got {
				if got[i] != x.want[i] {
					t.Fatalf("evicts %v, want %v", got, x.want)
				}
			}
		})
	}
}

// TestHandStopsWhenAllAreInUse: one eviction must not walk a whole shard.
func TestHandStopsWhenAllAreInUse(t *testing.T) {
	var q queue[int, int]
	for k := range 10 * handSteps {
		e := forever(k, k)
		e.use.Store(maxUse)
		q.add(e)
	}
	if e := q.victim(nil); e.Key != handSteps {
		t.Fatalf("evicts %d, want %d: the first after %d second chances", e.Key, handSteps, handSteps)
	}
}

// TestHandThatStopsAtTheSparedTakesTheNext: after the last step the spared
// entry may be at the head.
func TestHandThatStopsAtTheSparedTakesTheNext(t *testing.T) {
	var q queue[int, int]
	var keep *Entry[int, int]
	for k := range handSteps + 2 {
		e := forever(k, k)
		e.use.Store(maxUse)
		q.add(e)
		if k == handSteps {
			keep = e
		}
	}
	if e := q.victim(keep); e.Key != handSteps+1 {
		t.Fatalf("evicts %d, want %d", e.Key, handSteps+1)
	}
}
