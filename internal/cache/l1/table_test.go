package l1

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/internal/testing/kit"
)

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

// TestTableWithCollidingHashes fills tables with hashes of few homes and few
// tags, so that groups overflow and wrap around, and removes in random order.
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
			table := newTable(x.n)
			in := map[int]*evict.Head{}
			hashes := map[*evict.Head]uint32{}
			hashOf := func(h *evict.Head) uint32 { return hashes[h] }
			for step := range 6 * x.n {
				k := r.IntN(x.n)
				if h := in[k]; h != nil {
					table.remove(h, hashes[h])
					delete(in, k)
				} else {
					h := new(evict.Head)
					hashes[h] = hashFor(table, len(table.groups)-1-int(uint64(k)%x.homes), uint32(uint64(k)%x.tags))
					table.insert(h, hashes[h])
					in[k] = h
				}
				if step%499 == 0 || x.n < 100 {
					checkTable(t, table, in, hashOf)
				}
			}
			checkTable(t, table, in, hashOf)
		})
	}
}

// hashFor returns a hash with the given home and low byte.
func hashFor(t *table, home int, low uint32) uint32 {
	hash := uint32((uint64(home)<<32+uint64(len(t.groups))-1)/uint64(len(t.groups))+256)&^0xff | low
	if t.home(hash) != home {
		panic("no such hash")
	}
	return hash
}

func checkTable(t *testing.T, table *table, in map[int]*evict.Head, hashOf func(*evict.Head) uint32) {
	t.Helper()
	if held, err := validateTable(table, hashOf); err != nil || len(held) != len(in) {
		t.Fatalf("%d entries, want %d: %v", len(held), len(in), err)
	}
	for k, h := range in {
		if g, slot, _ := table.locate(h, hashOf(h)); g == nil || g.slots[slot].Load() != h {
			t.Fatalf("entry %d is not found", k)
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
	if small := len(c.shards[0].table.Load().groups); small > 20 || large < 1000 {
		t.Fatalf("%d groups for 10000 entries, %d for 10", large, small)
	}
	for k := 9990; k < 10_000; k++ {
		if e, _ := c.Peek(k); e == nil {
			t.Fatalf("key %d was lost", k)
		}
	}
	validate(t, c)
}

// TestLayoutFillsCacheLines: on 64-bit machines a group is one cache line and
// shards are whole lines, so that no two of them share one; and an entry of two
// numbers is half a line.
func TestLayoutFillsCacheLines(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("for 64-bit machines")
	}
	if n := unsafe.Sizeof(group{}); n != 64 {
		t.Errorf("a group has %d bytes", n)
	}
	if n := unsafe.Sizeof(shard{}); n%64 != 0 {
		t.Errorf("a shard has %d bytes", n)
	}
	if n := unsafe.Sizeof(Entry[uint64, uint64]{}); n != 32 {
		t.Errorf("an entry of two numbers has %d bytes", n)
	}
}

// TestFullTableRefusesAnInsertion inserts into a table without a free slot.
func TestFullTableRefusesAnInsertion(t *testing.T) {
	table := newTable(1)
	for range groupSlots {
		table.insert(&evict.Head{}, 1)
	}
	defer func() {
		if recover() == nil {
			t.Error("the insertion has returned")
		}
	}()
	table.insert(&evict.Head{}, 1)
}

// TestTablesOfWeighedEntriesAreOfTheirSize fills caches whose bound counts weights, and looks for room that no
// entry will ever take. Light entries that come after heavy ones need larger tables.
func TestTablesOfWeighedEntriesAreOfTheirSize(t *testing.T) {
	bounds := []int{2000, 3000, 5000, 9000}
	for _, entries := range bounds[:max(2, kit.Rounds(len(bounds)))] {
		const weight = 100
		c := New(Config[int, int]{MaxWeight: int64(entries) * weight})
		fill := func(from, weight, most int) {
			for k := range 2 * entries * most {
				c.Set(forever(from+k, k), int64(weight))
				c.Get(from + k)
				c.Get(from + k)
			}
			slots := 0
			for i := range c.shards {
				slots += c.shards[i].table.Load().room()
			}
			if n := c.Len(); n < entries*most*9/10 || slots > n*5/4 {
				t.Errorf("room for %d entries holds %d, for a bound of %d", slots, n, entries*most)
			}
		}
		fill(0, weight, 1)
		fill(100_000, weight/4, 4)
		validate(t, c)
		c.Close()
	}
}
