package evict

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// bed is a policy with entries that no table holds.
type bed struct {
	*a3fifo
	keys map[uint32]int // by node
}

func newBed(share int64, weighted bool) *bed {
	b := &bed{a3fifo: &a3fifo{nodes: new(slab)}, keys: map[uint32]int{}}
	b.fit(share, weighted)
	return b
}

// add makes room for an entry of weight w with so many uses, and inserts it. It
// returns the evicted keys.
func (b *bed) add(key int, w int64, uses uint32) (gone []int) {
	hash := uint32(key+1) * 0x9e3779b1
	queue := b.admit(hash, w, b.total()+b.sizeOf(w) > b.share)
	for b.total()+b.sizeOf(w) > b.share {
		i := b.evict(Standing{queue, w}, 0, 0)
		if i == 0 {
			panic("nothing to evict")
		}
		gone = append(gone, b.keys[i])
		delete(b.keys, i)
		b.nodes.remove(i)
	}
	h := &Head{Dead: Forever}
	h.SetUses(uses)
	b.nodes.add(h, hash, w)
	b.keys[h.node] = key
	b.insert(h.node, queue, len(gone) > 0)
	return gone
}

// in returns the keys of a queue, the oldest first.
func (b *bed) in(queue uint32) (keys []int) {
	for i := b.queue(queue).head; i != 0; i = b.nodes.node(i).next {
		keys = append(keys, b.keys[i])
	}
	return keys
}

func TestNewEntriesFillMainUntilTheCacheIsFull(t *testing.T) {
	b := newBed(10, false)
	for k := range 10 {
		b.add(k, 1, 0)
	}
	if s, m := b.in(inSmall), b.in(inMain); !slices.Equal(s, []int{9}) || len(m) != 9 {
		t.Fatalf("small %v, main %v", s, m)
	}
}

func TestEntryThatWasNotHitMakesRoomFirst(t *testing.T) {
	b := newBed(10, false)
	for k := range 20 {
		if gone := b.add(k, 1, 0); k >= 10 && !slices.Equal(gone, []int{k - 1}) {
			t.Fatalf("key %d takes the place of %v", k, gone)
		}
	}
}

func TestTwoHitsTakeAnEntryToMain(t *testing.T) {
	b := newBed(10, false)
	for k := range 9 {
		b.add(k, 1, 0)
	}
	b.add(9, 1, promoteUses)
	gone := b.add(10, 1, 0)
	if len(gone) != 1 || slices.Contains(b.in(inSmall), 9) || !slices.Contains(b.in(inMain), 9) {
		t.Fatalf("evicts %v, small %v, main %v", gone, b.in(inSmall), b.in(inMain))
	}
}

// TestReturningKeyEntersMainIfItWasAwayForLessTimeThanTheVictimWasIdle shows both
// sides of the guard.
func TestReturningKeyEntersMainIfItWasAwayForLessTimeThanTheVictimWasIdle(t *testing.T) {
	for _, x := range []struct {
		name string
		used bool // main, just before the key comes back
		want uint32
	}{{"idle victim", false, inMain}, {"victim in use", true, inSmall}} {
		t.Run(x.name, func(t *testing.T) {
			b := newBed(100, false)
			for k := range 200 {
				b.add(k, 1, 0)
			}
			for k := 300; k < 310; k++ {
				b.add(k, 1, 0)
			}
			if x.used {
				for i := b.main.head; i != 0; i = b.nodes.node(i).next {
					b.nodes.node(i).mark = uint32(b.clock)<<queueBits | inMain
				}
			}
			b.add(300, 1, 0)
			if !slices.Contains(b.in(x.want), 300) {
				t.Fatalf("small %v, main %v", b.in(inSmall), b.in(inMain))
			}
		})
	}
}

func TestSmallQueueGrowsForKeysThatItJustMissed(t *testing.T) {
	b := newBed(1000, false)
	for k := range 1000 {
		b.add(k, 1, 0)
	}
	before := b.target()
	for k := range 400 { // until a target of forty, each key comes back twenty keys later
		b.add(10_000+k, 1, 0)
		b.add(10_000+k-20, 1, 0)
	}
	if b.target() < before+25 {
		t.Fatalf("target %d, was %d", b.target(), before)
	}
}

func TestSmallQueueShrinksForKeysThatMainJustMissed(t *testing.T) {
	b := newBed(1000, false)
	for k := range 1000 {
		b.add(k, 1, 0)
	}
	b.setTarget(500)
	for k := range 200 {
		b.mainClock++
		b.remember(uint32(20_000+k)*0x9e3779b1, true, b.mainClock)
		b.add(20_000+k-1, 1, 0)
	}
	if b.target() > 400 {
		t.Fatalf("target %d, was 500", b.target())
	}
}

// TestOneEvictionTakesBoundedWork: a walk over all of a shard would stop its
// writers.
func TestOneEvictionTakesBoundedWork(t *testing.T) {
	b := newBed(10_000, false)
	for k := range 10_000 {
		b.add(k, 1, MaxUses)
	}
	first := b.in(inMain)[0]
	gone := b.evict(Standing{inMain, 1}, 0, 0)
	turned := 0
	for i := b.main.head; i != 0; i = b.nodes.node(i).next {
		if b.nodes.head(i).Uses() < MaxUses {
			turned++
		}
	}
	if turned > handSteps || b.keys[gone] != first+handSteps {
		t.Fatalf("%d entries turned, key %d evicted", turned, b.keys[gone])
	}
}

func TestDeadEntriesGoFirstAndLeaveNoGhost(t *testing.T) {
	b := newBed(10, false)
	for k := range 10 {
		b.add(k, 1, MaxUses)
	}
	oldest := b.nodes.head(b.main.head)
	oldest.Dead = 5
	if i := b.evict(Standing{inMain, 1}, 0, 6); b.nodes.head(i) != oldest {
		t.Fatalf("evicts %d", b.keys[i])
	}
	if len(b.ghosts.buckets) != 0 {
		t.Fatal("a dead entry is remembered")
	}
}

func TestSparedEntryIsNeverTheVictim(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		b := newBed(20, false)
		for k := range 1 + r.IntN(20) {
			b.add(k, 1, r.Uint32N(MaxUses+1))
		}
		for i := range b.keys { // any
			for n := len(b.keys); n > 1; n-- {
				if v := b.evict(Standing{inSmall + r.Uint32N(2), 1}, i, 0); v == 0 || v == i {
					t.Fatalf("evicts %d of %d with %d spared", v, n, i)
				}
			}
			if v := b.evict(Standing{inSmall, 1}, i, 0); v != 0 {
				t.Fatalf("evicts %d although only %d is left", v, i)
			}
			break
		}
	}
}

func TestGhostsKeepTheNewestOfABucket(t *testing.T) {
	g := newGhosts(1, 1000)
	for k := range uint32(100) {
		g.add(k+1, k%2 == 0, uint64(k))
	}
	for k := range uint32(100) {
		x, ok := g.take(k+1, 99, 199)
		if want := k >= 100-bucketSlots; ok != want {
			t.Fatalf("ghost %d: %v", k, ok)
		}
		if !ok {
			continue
		}
		if _, again := g.take(k+1, 99, 199); again {
			t.Fatalf("ghost %d comes back twice", k)
		}
		age := int64(99 - k)
		if k%2 == 0 {
			age += 100
		}
		if x.fromMain != (k%2 == 0) || x.age != age {
			t.Fatalf("ghost %d: %+v", k, x)
		}
	}
}

func TestCoarseStampsOfGhostsMeasureToWithinOneStep(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, capacity := range []int64{1, 1023, 5000, 100_000, 1 << 40} {
		g := newGhosts(1, capacity)
		step := int64(1) << g.shift
		for range 10_000 {
			then, passed := uint64(random.Int64N(1<<50)), random.Int64N(16*capacity)
			g.add(7, false, then)
			x, ok := g.take(7, then+uint64(passed), 0)
			if !ok || x.age > passed+step || x.age+step < passed {
				t.Fatalf("capacity %d: %d passed, the ghost says %d", capacity, passed, x.age)
			}
		}
	}
}

// TestMainKeepsItsEntriesWhileHeavyOnesPass sends heavy entries, and light ones, through a full
// shard, all asked for once.
func TestMainKeepsItsEntriesWhileHeavyOnesPass(t *testing.T) {
	b := newBed(1000, true)
	next := 0
	for ; next < 1000; next++ {
		b.add(next, 1, 0)
	}
	for range 100 {
		b.add(next, 50, 0)
		for range 60 {
			next++
			b.add(next, 1, 0)
		}
		next++
	}
	kept := 0
	for _, k := range b.in(inMain) {
		if k < 1000 {
			kept++
		}
	}
	if kept < 900 || b.total() != 1000 {
		t.Fatalf("main has kept %d entries of 990, all weigh %d", kept, b.total())
	}
}

// TestSmallQueueMakesRoomForAllOfAHeavyEntry: main pays nothing for it.
func TestSmallQueueMakesRoomForAllOfAHeavyEntry(t *testing.T) {
	b := newBed(1000, true)
	for k := range 1000 {
		b.add(k, 1, 0)
	}
	small := b.in(inSmall)
	if gone := b.add(1000, 10, 0); len(small) != 10 || !slices.Equal(gone, small) {
		t.Fatalf("evicts %v for an entry of weight 10, small is %v", gone, small)
	}
}

// TestShardThatWasEmptiedIsFilledAnew: only small holes wait for proven entries.
func TestShardThatWasEmptiedIsFilledAnew(t *testing.T) {
	b := newBed(1000, true)
	for k := range 1100 {
		b.add(k, 1, 0)
	}
	for b.total() > 400 {
		i := b.main.head
		b.remove(i)
		b.nodes.remove(i)
	}
	for k := range 600 {
		b.add(2000+k, 1, 0)
	}
	if n := b.small.n; n > 20 {
		t.Fatalf("the small queue holds %d entries of 1000", n)
	}
}

// TestMarksKeepTheirTimesWhenTheirUnitChanges raises and lowers the bound of a full shard.
func TestMarksKeepTheirTimesWhenTheirUnitChanges(t *testing.T) {
	b := newBed(1<<23, true)
	for k := range 2000 {
		b.add(k, 1<<13, 0)
	}
	for _, share := range []int64{1 << 30, 1 << 20, 1 << 26} {
		before := map[uint32]int64{}
		b.each(func(i uint32) { before[i] = b.idle(i) })
		b.fit(share, true)
		step := int64(1) << 10
		b.each(func(i uint32) {
			if after := b.idle(i); after < before[i]-step || after > before[i]+step {
				t.Fatalf("share %d: idle for %d, before %d", share, after, before[i])
			}
		})
	}
}

// TestHeavyEntriesOfAFullShardMustComeBack offers heavy entries once, and soon again.
func TestHeavyEntriesOfAFullShardMustComeBack(t *testing.T) {
	b := newBed(1000, true)
	for k := range 2000 {
		b.add(k, 1, 0)
	}
	hash := func(k uint32) uint32 { return (k + 1) * 0x9e3779b1 }
	for _, w := range []int64{1, 2, 10} { // a hundredth of the shard is not heavy
		if b.refuses(hash(5000), w) {
			t.Fatalf("refuses a weight of %d", w)
		}
	}
	for k := range uint32(50) {
		if !b.refuses(hash(6000+k), 300) {
			t.Fatalf("takes heavy entry %d at its first sight", k)
		}
	}
	for k := range 500 {
		b.add(10_000+k, 1, 0)
	}
	if !b.refuses(hash(6000), 300) {
		t.Fatal("takes a heavy entry that came back as late as main's victim, by its weight")
	}
	if b.add(9000, 1, 0); b.refuses(hash(6000), 300) {
		t.Fatal("refuses an entry that came back at once")
	}
}

// TestClockDoesNotGoBack: ages are differences of its times.
func TestClockDoesNotGoBack(t *testing.T) {
	p := newBed(100, true)
	last := p.clock
	for i := range uint32(100) {
		p.admit(i, []int64{Pinned, 0, 1, 50}[i%4], i%3 == 0)
		if p.clock < last {
			t.Fatalf("%d: the clock goes from %d to %d", i, last, p.clock)
		}
		last = p.clock
	}
}
