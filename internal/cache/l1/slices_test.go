package l1

import (
	"slices"
	"testing"

	"github.com/strata-cache/strata/internal/cache/evict"
)

// arrive makes a full cache of 1000 entries of weight 1 in one shard, and an arrival of weight 900.
func arrive(t *testing.T, p evict.Policy) (c *Cache[int, int], e *Entry[int, int], a arrival) {
	c = New(Config[int, int]{MaxWeight: 1000, Policy: p})
	t.Cleanup(c.Close)
	for k := range 1000 {
		c.Set(forever(k, k), 1)
	}
	e = forever(-1, 0)
	return c, e, arrival{head: headOf(e), hash: uint32(c.hash(-1)), weight: 900, forced: true}
}

// TestHeavyStoreEvictsInSlices looks at a store between its slices: other writers have their
// turn, and neither take the room that it has made nor exceed the bound.
func TestHeavyStoreEvictsInSlices(t *testing.T) {
	for _, p := range policies {
		c, e, a := arrive(t, p)
		var each []uint64
		for o := Outcome(0); o == 0 && len(each) < 10; {
			before := c.Stats().Evicted
			_, o, _ = c.try(&a, c.hash(-1), -1, nil, false, nil)
			each = append(each, c.Stats().Evicted-before)
			if c.Weight() != 1000 {
				t.Fatalf("%v: weight %d between slices", p, c.Weight())
			}
			if o == 0 {
				c.Set(forever(5000+len(each), 0), 1)
			}
		}
		if !slices.Equal(each, []uint64{256, 256, 256, 132}) || c.Weight() != 1000 {
			t.Errorf("%v: slices of %d, weight %d", p, each, c.Weight())
		}
		mustHold(t, c, -1, e)
		validate(t, c)
	}
}

// TestStoreThatLosesBetweenSlicesGivesItsRoomBack stores the key between two slices of a store
// on a condition.
func TestStoreThatLosesBetweenSlicesGivesItsRoomBack(t *testing.T) {
	c, _, a := arrive(t, evict.A3FIFO)
	if _, o, _ := c.try(&a, c.hash(-1), -1, nil, true, nil); o != 0 || !a.sliced {
		t.Fatalf("outcome %d after the first slice", o)
	}
	other := forever(-1, 1)
	c.Set(other, 1)
	if _, o, _ := c.try(&a, c.hash(-1), -1, nil, true, nil); o != Lost {
		t.Fatalf("outcome %d, want that of a lost condition", o)
	}
	if c.Weight() != 1000-256 {
		t.Fatalf("weight %d, 256 were evicted", c.Weight())
	}
	mustHold(t, c, -1, other)
	validate(t, c)
}
