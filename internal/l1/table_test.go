package l1

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// hashed makes an entry with a hash of the test's choice.
func hashed(key int, hash uint64) *Entry[int, int] {
	e := forever(key, key)
	e.hash = hash
	return e
}

// TestMatchesNeverOverlooks checks the byte search against a loop. It may mark
// too much, never too little, and never the overflow count.
func TestMatchesNeverOverlooks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		tags := r.Uint64()
		if r.IntN(2) == 0 {
			tags &= 0x0101010101010101 * uint64(r.IntN(256)) // many equal and zero bytes
		}
		tag := r.Uint64() & 0xff
		marks := matches(tags, tag)
		for slot := range groupSlots {
			marked := marks>>(8*slot)&0x80 != 0
			if equal := tags>>(8*slot)&0xff == tag; equal && !marked {
				t.Fatalf("tags %x, tag %x: slot %d overlooked", tags, tag, slot)
			}
		}
		if marks&^highBits != 0 {
			t.Fatalf("tags %x, tag %x: marks %x", tags, tag, marks)
		}
		if marks != 0 && tags>>(8*slotOf(marks))&0xff != tag {
			t.Fatalf("tags %x, tag %x: the lowest mark of %x is wrong", tags, tag, marks)
		}
	}
}

// TestTableWithCollidingHashes fills tables with hashes that have few homes and
// few tags, so that groups overflow and wrap around, and removes in random
// order.
func TestTableWithCollidingHashes(t *testing.T) {
	for _, x := range []struct {
		name        string
		homes, tags uint64
		n           int
	}{
		{"one group", 1, 256, 6},
		{"one home", 1, 3, 90},
		{"last home", 1, 1, 90},
		{"two homes", 2, 1, 150},
		{"saturated counts", 1, 2, 800},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, uint64(x.n)))
			table := newTable[int, int](x.n)
			in := map[int]*Entry[int, int]{}
			for step := range 6 * x.n {
				k := r.IntN(x.n)
				if e := in[k]; e != nil {
					if !table.remove(e) || table.remove(e) {
						t.Fatal("remove does not remove exactly once")
					}
					delete(in, k)
				} else {
					e := hashed(k, (table.mask-uint64(k)%x.homes)<<8|uint64(k)%x.tags)
					table.insert(e)
					in[k] = e
				}
				if step%499 == 0 || x.n < 100 {
					checkTable(t, table, in, x.n)
				}
			}
			checkTable(t, table.copied(3*x.n), in, x.n)
		})
	}
}

func checkTable(t *testing.T, table *table[int, int], in map[int]*Entry[int, int], n int) {
	t.Helper()
	if held, err := validateTable(table); err != nil || len(held) != len(in) {
		t.Fatalf("%d entries, want %d: %v", len(held), len(in), err)
	}
	for k := range n {
		var hash uint64
		if e := in[k]; e != nil {
			hash = e.hash
		}
		if got := table.find(hash, k); got != in[k] {
			t.Fatalf("find(%d) = %v, want %v", k, got, in[k])
		}
	}
}

func TestTableShrinksWhenNearlyEmpty(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 100})
	defer c.Close()
	c.Resize(1_000_000, 0)
	for k := range 10_000 {
		c.Set(forever(k, k), 1)
	}
	large := len(c.shards[0].table.Load().groups)
	for k := range 9990 {
		c.Delete(k)
	}
	if small := len(c.shards[0].table.Load().groups); small > 16 || large < 1000 {
		t.Fatalf("%d groups for 10000 entries, %d for 10", large, small)
	}
	for k := 9990; k < 10_000; k++ {
		if e, _ := c.Peek(k); e == nil {
			t.Fatalf("key %d was lost", k)
		}
	}
	validate(t, c)
}

// TestLayoutFillsCacheLines: on 64-bit machines a group is one cache line and a
// shard is three, so that no two of them share a line.
func TestLayoutFillsCacheLines(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("for 64-bit machines")
	}
	if n := unsafe.Sizeof(group[string, string]{}); n != 64 {
		t.Errorf("a group has %d bytes", n)
	}
	if n := unsafe.Sizeof(shard[string, string]{}); n != 192 {
		t.Errorf("a shard has %d bytes", n)
	}
	var e Entry[string, []byte]
	if n := unsafe.Offsetof(e.Value); n >= 64 {
		t.Errorf("the value begins at byte %d, not on the line with the deadline", n)
	}
}
