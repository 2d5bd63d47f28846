package l1

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/evict"
)

// sleepTo lets the bubble's time pass until the cache's clock shows t.
func sleepTo[K comparable, V any](c *Cache[K, V], t int64) {
	time.Sleep(time.Duration(t - c.Now()))
}

func TestExpiredMemoryIsFreedWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config[int, int]{MaxEntries: 10_000})
		defer c.Close()
		r := rand.New(rand.NewPCG(7, 8))
		lives := map[int]int64{}
		for k := range 3000 {
			dead := After(c.Now(), time.Duration(r.Int64N(int64(40*time.Minute)))+1)
			lives[k] = dead
			c.Set(until(k, k, dead), 1)
			if k%100 == 0 {
				time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
			}
		}
		for c.Len() > 0 {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			validate(t, c)
			for i := range c.shards {
				c.shards[i].table.Load().each(func(h *evict.Head) bool {
					if late := c.Now() - h.Dead; late > int64(2*time.Second) {
						t.Fatalf("an entry is still held %v after its death", time.Duration(late))
					}
					return true
				})
			}
		}
		if st := c.Stats(); st.Expired != 3000 || st.Evicted != 0 {
			t.Fatalf("%+v", st)
		}
	})
}

// TestSweeperEndsByItself has no Close: a goroutine left over would be a
// deadlock at the end of the bubble.
func TestSweeperEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config[int, int]{MaxEntries: 10})
		for range 3 {
			c.Set(forever(1, 1), 1)
			c.Set(until(2, 2, After(c.Now(), 5*time.Second)), 1)
			c.Set(until(3, 3, After(c.Now(), time.Hour)), 1)
			time.Sleep(90 * time.Minute)
			synctest.Wait()
			if c.Len() != 1 || c.sweeper.runs() {
				t.Fatalf("%d entries, running %v", c.Len(), c.sweeper.runs())
			}
		}
	})
}

func TestCloseEndsSweeperAndClockAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config[int, int]{MaxEntries: 10})
		c.Set(until(1, 1, After(c.Now(), time.Hour)), 1)
		for range 2 * busyReads {
			c.Get(1)
		}
		if !c.sweeper.runs() || !c.clock.runs() {
			t.Fatal("the goroutines do not run")
		}
		before := c.Now()
		c.Close()
		if c.Now() != before {
			t.Fatalf("Close waited for %d ns", c.Now()-before)
		}
	})
}

func TestEarlierDeadlineWakesSweeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config[int, int]{MaxEntries: 10_000})
		defer c.Close()
		for i, d := range []time.Duration{time.Hour, 10 * time.Minute, 100 * time.Second, 3 * time.Second} {
			c.Set(until(i, i, After(c.Now(), d)), 1)
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if c.Len() != 3 {
			t.Fatalf("%d entries, want 3", c.Len())
		}
	})
}

// TestSweeperSleepsUntilItIsNeeded counts the checks of an entry that lives for
// a day: one per turn of the wheel, not one per second.
func TestSweeperSleepsUntilItIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config[int, int]{MaxEntries: 10})
		defer c.Close()
		c.Set(until(1, 1, After(c.Now(), 24*time.Hour)), 1)
		wakes, last := 0, int64(-1)
		for range 24 * 60 {
			time.Sleep(time.Minute)
			synctest.Wait()
			if next := c.sweeper.next.Load(); next != last {
				wakes++
				last = next
			}
		}
		if turns := 24 * 3600 / 512; wakes > turns+2 {
			t.Fatalf("woke at %d minutes, want at most %d", wakes, turns+2)
		}
	})
}

func TestNotifyThatEndsItsGoroutineDoesNotEndSweeping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		c := New(Config[int, int]{MaxEntries: 10, Notify: func(*Entry[int, int], Reason) {
			calls.Add(1)
			runtime.Goexit()
		}})
		for i := range 5 {
			c.Set(until(i, i, After(c.Now(), time.Duration(i+1)*2*time.Second)), 1)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if calls.Load() != 5 || c.Len() != 0 || c.sweeper.runs() {
			t.Fatalf("%d calls, %d entries, running %v", calls.Load(), c.Len(), c.sweeper.runs())
		}
	})
}

// TestSweepOfMoreThanOneBatch has many entries die in one tick.
func TestSweepOfMoreThanOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		c := New(Config[int, int]{MaxEntries: 10_000, Notify: func(e *Entry[int, int], r Reason) {
			if r != Expired {
				t.Errorf("%d was %v", e.Key, r)
			}
			told.Add(1)
		}})
		for k := range 10_000 {
			c.Set(until(k, k, After(c.Now(), 2*time.Second)), 1)
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if told.Load() != 10_000 || c.Len() != 0 {
			t.Fatalf("%d told, %d left", told.Load(), c.Len())
		}
	})
}

// TestDeadOnArrivalIsSweptToo: a deadline that the wheel has passed already
// must not wait for its next turn.
func TestDeadOnArrivalIsSweptToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config[int, int]{MaxEntries: 10})
		defer c.Close()
		c.Set(until(0, 0, After(c.Now(), time.Hour)), 1)
		time.Sleep(10 * time.Minute)
		for i, dead := range []int64{math.MinInt64, -1, 0, 1, c.Now() - 5*evict.TickLength, c.Now()} {
			c.Set(until(i+1, 0, dead), 1)
			mustHold(t, c, i+1, nil)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		validate(t, c)
		if c.Len() != 1 {
			t.Fatalf("%d entries, want 1", c.Len())
		}
	})
}

// TestSwapStartsSweeper: Swap may give a deadline to an entry without one.
func TestSwapStartsSweeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config[int, int]{MaxEntries: 10})
		e := forever(1, 1)
		c.Set(e, 1)
		c.Swap(e, until(1, 1, After(c.Now(), time.Second)))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if c.Len() != 0 {
			t.Fatal("not swept")
		}
	})
}

func TestCloseWaitsForNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := false
		c := New(Config[int, int]{MaxEntries: 10, Notify: func(*Entry[int, int], Reason) {
			time.Sleep(10 * time.Second)
			told = true
		}})
		c.Set(until(1, 1, After(c.Now(), time.Second)), 1)
		time.Sleep(3 * time.Second) // the sweeper is in Notify
		c.Close()
		if !told {
			t.Fatal("Close did not wait")
		}
	})
}

// TestSweeperStartsOnlyWhileOpen: a write that Close has overtaken may still
// call wakeSweeper.
func TestSweeperStartsOnlyWhileOpen(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 10})
	c.Close()
	c.wakeSweeper(1)
	if c.sweeper.runs() {
		t.Fatal("it runs after Close")
	}
}

// TestSweeperStaysAfterACall: a deadline may be added between the sweeper's
// last search and its end.
func TestSweeperStaysAfterACall(t *testing.T) {
	var w sweeper
	w.init()
	w.running = true
	w.wake <- struct{}{}
	if w.leave() || !w.runs() {
		t.Fatal("left although a writer called")
	}
	if !w.leave() || w.runs() {
		t.Fatal("stayed although no writer called")
	}
}

// runs reports whether the sweeper has a goroutine.
func (w *sweeper) runs() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running
}
