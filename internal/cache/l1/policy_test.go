package l1

import "testing"

// TestLoopThatIsLargerThanTheCacheIsHit: LRU and FIFO miss each key of it.
func TestLoopThatIsLargerThanTheCacheIsHit(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 200})
	defer c.Close()
	hits := 0
	for i := range 30_000 {
		if e, _ := c.Get(i % 300); e != nil {
			hits++
		} else {
			c.Set(forever(i%300, 0), 1)
		}
	}
	if hits < 15_000 {
		t.Fatalf("%d hits of 30000, the optimum is about 20000", hits)
	}
}

// TestScanDoesNotFlushWhatIsUsed reads hot keys while a scan passes.
func TestScanDoesNotFlushWhatIsUsed(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 1000})
	defer c.Close()
	hits, reads := 0, 0
	get := func(k int) {
		if e, _ := c.Get(k); e == nil {
			c.Set(forever(k, 0), 1)
		} else {
			hits++
		}
	}
	for i := range 50_000 {
		get(i % 500)
		reads++
		get(1_000_000 + i)
	}
	if hits < reads*95/100 {
		t.Fatalf("%d of %d reads of hot keys hit", hits, reads)
	}
}

// TestSweepBackAndForthIsHit reads more keys than fit in order, and then in the
// opposite order: the keys read last come back first, and every promotion is wrong.
func TestSweepBackAndForthIsHit(t *testing.T) {
	const keys, bound = 1000, 400
	c := New(Config[int, int]{MaxEntries: bound})
	defer c.Close()
	hits := 0
	for i := range 200 * keys {
		k := i % (2 * keys)
		if k >= keys {
			k = 2*keys - 1 - k
		}
		if e, _ := c.Get(k); e != nil {
			hits++
		} else {
			c.Set(forever(k, 0), 1)
		}
	}
	if share := 100 * hits / (200 * keys); share < 25 {
		t.Fatalf("%d %% of the reads hit, LRU has 40", share)
	}
}
