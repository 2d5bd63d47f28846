package evict

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// row is an Order of entries that no table holds, numbered as they were added.
type row struct {
	t *testing.T
	Order
	heads []*Head
	keys  map[*Head]int
}

func newRow(t *testing.T, p Policy, n int) *row {
	r := &row{t: t, keys: map[*Head]int{}}
	r.Fit(p, 100, false)
	for range n {
		r.add()
	}
	return r
}

func (r *row) add() {
	h := &Head{Dead: Forever}
	hash := uint32(len(r.heads)+1) * 0x9e3779b1
	r.Add(h, hash, 1, r.Admit(hash, 1, false), false, 0)
	r.keys[h] = len(r.heads)
	r.heads = append(r.heads, h)
}

// evict evicts n entries and returns their numbers.
func (r *row) evict(n int, keep *Head) (gone []int) {
	r.t.Helper()
	for range n {
		x := r.Evict(Standing{}, keep, 0)
		if x.Head == nil {
			return gone
		}
		gone = append(gone, r.keys[x.Head])
		delete(r.keys, x.Head)
		r.check()
	}
	return gone
}

func (r *row) check() {
	r.t.Helper()
	held := map[*Head]bool{}
	for h := range r.keys {
		held[h] = true
	}
	if err := r.Validate(held, 0); err != nil {
		r.t.Fatal(err)
	}
}

func TestEachPolicyEvictsInItsOrder(t *testing.T) {
	for _, x := range []struct {
		policy Policy
		hits   []int
		want   []int
	}{
		{FIFO, nil, []int{0, 1, 2, 3, 4}},
		{FIFO, []int{0, 0, 1, 4}, []int{0, 1, 2, 3, 4}},
		{LRU, nil, []int{0, 1, 2, 3, 4}},
		{LRU, []int{0, 2, 4, 0}, []int{1, 3, 2, 4, 0}},
		{LFU, nil, []int{0, 1, 2, 3, 4}},
		{LFU, []int{0, 0, 0, 3, 1, 3}, []int{2, 4, 1, 3, 0}},
		{LFU, []int{2, 1, 0}, []int{3, 4, 2, 1, 0}}, // of equal counts by last use
	} {
		r := newRow(t, x.policy, 5)
		for _, i := range x.hits {
			r.Hit(r.heads[i])
			r.check()
		}
		if got := r.evict(9, nil); !slices.Equal(got, x.want) {
			t.Errorf("%v after hits of %v evicts %v, want %v", x.policy, x.hits, got, x.want)
		}
	}
}

func TestRandomEvictsAllEntriesEquallyOften(t *testing.T) {
	const rounds = 40_000
	for _, keep := range []int{-1, 0, 2} {
		var count [4]int
		for range rounds {
			r := newRow(t, Random, 4)
			var spared *Head
			if keep >= 0 {
				spared = r.heads[keep]
			}
			count[r.evict(1, spared)[0]]++
		}
		left, choices := 0, 4
		if keep >= 0 {
			choices = 3
		}
		for i, n := range count {
			if left += n; i == keep && n != 0 || i != keep && (n < rounds/choices*9/10 || n > rounds/choices*11/10) {
				t.Errorf("%d is kept: evictions %v", keep, count)
				break
			}
		}
	}
}

func TestHottestIsTheOppositeOfTheOrderOfEviction(t *testing.T) {
	for _, p := range []Policy{LRU, LFU} {
		r := newRow(t, p, 20)
		rnd := rand.New(rand.NewPCG(1, uint64(p)))
		for range 100 {
			r.Hit(r.heads[rnd.IntN(20)])
		}
		r.heads[7].Dead = 1
		if got := r.Hottest(100, 1); len(got) != 19 || slices.ContainsFunc(got, func(x Ranked) bool { return x.Head == r.heads[7] }) {
			t.Fatalf("%v: %d hottest, want 19 that live", p, len(got))
		}
		r.heads[7].Dead = Forever
		var hottest []int
		last := ^uint64(0)
		for _, x := range r.Hottest(12, 0) {
			if x.Rank > last {
				t.Fatalf("%v: rank %d after %d", p, x.Rank, last)
			}
			last = x.Rank
			hottest = append(hottest, r.keys[x.Head])
		}
		gone := r.evict(20, nil)
		slices.Reverse(gone)
		if !slices.Equal(hottest, gone[:12]) {
			t.Fatalf("%v: hottest %v, evicts in the end %v", p, hottest, gone[:12])
		}
	}
}

func TestNoPolicyEvictsTheKeptEntry(t *testing.T) {
	for p := range policies {
		for n := 1; n < 6; n++ {
			for keep := range n {
				r := newRow(t, p, n)
				r.Hit(r.heads[0])
				if gone := r.evict(n, r.heads[keep]); len(gone) != n-1 || slices.Contains(gone, keep) {
					t.Fatalf("%v: evicts %v of %d and keeps %d", p, gone, n, keep)
				}
			}
		}
	}
}

// TestEachPolicyKeepsItsStructure does random operations of all kinds.
func TestEachPolicyKeepsItsStructure(t *testing.T) {
	for p := range policies {
		r := newRow(t, p, 0)
		rnd := rand.New(rand.NewPCG(2, uint64(p)))
		for range 3000 {
			h := r.any(rnd)
			switch op := rnd.IntN(100); {
			case op < 40 || h == nil:
				r.add()
			case op < 70:
				r.Hit(h)
			case op < 80:
				if r.Remove(h).Head != h {
					t.Fatalf("%v removes another entry", p)
				}
				delete(r.keys, h)
			case op < 85:
				x := &Head{Dead: Forever}
				r.Replace(h, x, rnd.Int64N(9), 0)
				r.keys[x] = r.keys[h]
				delete(r.keys, h)
			case op < 99:
				if len(r.evict(1, nil)) != 1 {
					t.Fatalf("%v evicts nothing of %d", p, len(r.keys))
				}
			default:
				r.Empty()
				clear(r.keys)
			}
			r.check()
		}
	}
}

// any returns a held entry, the same in each run; nil if there is none.
func (r *row) any(rnd *rand.Rand) *Head {
	held := slices.SortedFunc(func(yield func(*Head) bool) {
		for h := range r.keys {
			if !yield(h) {
				return
			}
		}
	}, func(a, b *Head) int { return r.keys[a] - r.keys[b] })
	if len(held) == 0 {
		return nil
	}
	return held[rnd.IntN(len(held))]
}

func TestPoliciesHaveNames(t *testing.T) {
	names := map[string]bool{}
	for p := range policies + 1 {
		if p.Known() != (p < policies) || (p.String() == "unknown") == p.Known() {
			t.Errorf("policy %d: %v, known %t", p, p, p.Known())
		}
		names[p.String()] = true
	}
	if len(names) != int(policies)+1 {
		t.Errorf("names %v", names)
	}
}
