package evict

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestIdleEndLiesBetweenSevenEighthsAndAllOfTheLife(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		life := 8 + r.Int64N(1<<(4+r.UintN(50)))
		i := NewIdle(time.Duration(life))
		if unit := int64(1) << i.Shift; unit > life/8 || unit*16 <= life-16 {
			t.Fatalf("the unit of %d is %d", life, unit)
		}
		h := &Head{Dead: Forever}
		read := r.Int64N(1 << 60)
		h.State.Store(i.Stamp(read))
		now := read + r.Int64N(life)
		if end := i.End(h, now); end <= read+life-life/8-1 || end > read+life {
			t.Fatalf("of a life of %d from %d, the end at %d is %d", life, read, now, end)
		}
		if now := read - r.Int64N(ahead)<<i.Shift; now > 0 && i.Over(h, now) {
			t.Fatalf("a reader whose time %d is before that of the stamp, %d, finds the end", now, read)
		}
	}
}

// TestIdleEntryDoesNotComeBack: stamps begin again from zero after 2^18 units.
func TestIdleEntryDoesNotComeBack(t *testing.T) {
	i := NewIdle(time.Second)
	h := &Head{Dead: Forever}
	h.State.Store(i.Stamp(5 * int64(time.Second)))
	for now := 6 * int64(time.Second); now>>i.Shift < stampMask-ahead; now += int64(200 * time.Millisecond) {
		if !i.Over(h, now) || i.Read(h, now) {
			t.Fatalf("it lives again after %v", time.Duration(now))
		}
	}
}

// TestReaderWithAnOlderTimeTakesNoLifeAway: the published time is late, and a reader may
// have waited since it read the time.
func TestReaderWithAnOlderTimeTakesNoLifeAway(t *testing.T) {
	i := NewIdle(time.Second)
	h := &Head{Dead: Forever}
	h.State.Store(i.Stamp(int64(10 * time.Second)))
	for _, late := range []time.Duration{1, time.Millisecond, time.Second, time.Minute} {
		if !i.Read(h, int64(10*time.Second-min(late, 9*time.Second))) || i.Over(h, int64(10*time.Second+875*time.Millisecond)) {
			t.Errorf("a reader that is %v late takes life away", late)
		}
	}
}

func TestReadWritesOnceInAUnit(t *testing.T) {
	i := NewIdle(time.Minute)
	h := &Head{Dead: Forever}
	h.State.Store(i.Stamp(0))
	writes := 0
	for now := int64(0); now < int64(time.Hour); now += int64(100 * time.Millisecond) {
		before := h.State.Load()
		if !i.Read(h, now) {
			t.Fatal("it has ended")
		}
		if h.State.Load() != before {
			writes++
		}
	}
	if most := int(int64(time.Hour)>>i.Shift) + 1; writes > most || most > 60*16+1 {
		t.Fatalf("%d writes, want at most %d", writes, most)
	}
}

func TestIdleLeavesUsesAndShardAlone(t *testing.T) {
	i := NewIdle(time.Minute)
	h := &Head{Dead: Forever}
	h.State.Store(i.Stamp(0) | InShard(MaxShards-1))
	h.SetUses(2)
	for now := int64(1); now < int64(30*time.Minute); now += int64(30 * time.Second) {
		if !i.Read(h, now) || h.Uses() != 2 || h.Shard() != MaxShards-1 || h.State.Load()&Idles == 0 {
			t.Fatalf("%x", h.State.Load())
		}
	}
}

// TestNoReadIsLostToOtherWriters has readers and a policy write one State, for as long
// as another reader reads.
func TestNoReadIsLostToOtherWriters(t *testing.T) {
	i := Idle{Life: 1 << 50, Shift: 0}
	h := &Head{Dead: Forever}
	h.State.Store(i.Stamp(0))
	var done atomic.Bool
	var all, started sync.WaitGroup
	for range 2 {
		started.Add(1)
		all.Go(func() {
			started.Done()
			for n := uint32(0); !done.Load(); n++ {
				h.SetUses(n % MaxUses)
				h.Touch()
			}
		})
	}
	started.Wait()
	for now := range int64(30_000) {
		if i.Read(h, now); int64(h.State.Load()>>StampShift) != now {
			t.Errorf("the stamp is %d right after a read at %d", h.State.Load()>>StampShift, now)
			break
		}
		if now%1000 == 0 {
			runtime.Gosched() // if there is one processor
		}
	}
	done.Store(true)
	all.Wait()
}
