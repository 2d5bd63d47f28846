package l1

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/evict"
)

// idlers returns a cache with an idle life, for any number of entries.
func idlers(t *testing.T, idle time.Duration) *Cache[int, int] {
	c := New(Config[int, int]{MaxEntries: 10_000, IdleTTL: idle, Timeless: true})
	t.Cleanup(c.Close)
	return c
}

// mustHit reads a key and wants its value.
func mustHit(t *testing.T, c *Cache[int, int], key, value int) {
	t.Helper()
	if e, _ := c.Get(key); e == nil || e.Value != value {
		t.Fatalf("key %d: %v, want %d", key, e, value)
	}
}

// TestIdleEntryEndsBetweenSevenEighthsAndAllOfItsLife reads an entry some times, and
// then looks for it until it is gone.
func TestIdleEntryEndsBetweenSevenEighthsAndAllOfItsLife(t *testing.T) {
	for _, idle := range []time.Duration{10 * time.Millisecond, time.Second, 3 * time.Second, 100 * time.Second, 48 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c := idlers(t, idle)
			for i := range 40 {
				c.Set(forever(i, 0), 1)
				for range i % 4 {
					time.Sleep(idle * 8 / 10)
					mustHit(t, c, i, 0)
				}
				read := time.Now()
				time.Sleep(time.Duration(i) * idle / 400) // begins anywhere in a unit
				for e, _ := c.Peek(i); e != nil; e, _ = c.Peek(i) {
					time.Sleep(idle / 512)
				}
				if d := time.Since(read); d < idle*7/8 || d > idle+idle/512 {
					t.Fatalf("with %v it ends %v after the last read", idle, d)
				}
				if e, _ := c.Get(i); e != nil || c.Touch(i) {
					t.Fatal("it is still served")
				}
			}
		})
	}
}

func TestIdleMemoryIsFreedWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := idlers(t, 10*time.Second)
		for k := range 3000 {
			c.Set(forever(k, 0), 1)
		}
		for range 10 { // a third is read, the timers of all were set for the first end
			time.Sleep(5 * time.Second)
			for k := 0; k < 3000; k += 3 {
				c.Get(k)
			}
		}
		synctest.Wait()
		validate(t, c)
		if n := c.Len(); n != 1000 {
			t.Fatalf("%d entries, want 1000", n)
		}
		time.Sleep(12 * time.Second)
		synctest.Wait()
		if st := c.Stats(); st.Entries != 0 || st.Expired != 3000 || c.sweeper.runs() {
			t.Fatalf("%+v", st)
		}
	})
}

func TestReadsDoNotLengthenTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := idlers(t, 10*time.Second)
		c.Set(until(1, 1, After(c.Now(), time.Minute)), 1)
		for range 59 {
			time.Sleep(time.Second)
			mustHit(t, c, 1, 1)
		}
		time.Sleep(time.Second)
		mustHold(t, c, 1, nil)
	})
}

// TestOnlyReadsAndStoresProlongAnIdleLife does everything else with an unread entry.
func TestOnlyReadsAndStoresProlongAnIdleLife(t *testing.T) {
	for name, do := range map[string]func(c *Cache[int, int], e *Entry[int, int]){
		"Peek":    func(c *Cache[int, int], e *Entry[int, int]) { c.Peek(e.Key) },
		"Swap":    func(c *Cache[int, int], e *Entry[int, int]) { c.Swap(e, until(e.Key, e.Value, e.Dead-1)) },
		"All":     func(c *Cache[int, int], _ *Entry[int, int]) { c.All()(func(*Entry[int, int]) bool { return true }) },
		"Hottest": func(c *Cache[int, int], _ *Entry[int, int]) { c.Hottest(10) },
		"Resize":  func(c *Cache[int, int], _ *Entry[int, int]) { c.Resize(5000, 0) },
	} {
		synctest.Test(t, func(t *testing.T) {
			c := idlers(t, 10*time.Second)
			c.Set(until(1, 1, After(c.Now(), time.Hour)), 1)
			for range 9 {
				time.Sleep(time.Second)
				if e, _ := c.Peek(1); e != nil {
					do(c, e)
				}
			}
			time.Sleep(time.Second)
			if e, _ := c.Peek(1); e != nil {
				t.Errorf("%s prolongs it", name)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := idlers(t, 10*time.Second)
		for i := range 50 {
			c.Set(forever(1, i), 1)
			time.Sleep(8 * time.Second)
			mustHit(t, c, 1, i)
			time.Sleep(8 * time.Second)
			if !c.Touch(1) {
				t.Fatal("it is gone after a read")
			}
		}
	})
}

func TestIdleHitsAllocateNothing(t *testing.T) {
	for _, p := range policies {
		c := New(Config[int, int]{MaxEntries: 100, Policy: p, IdleTTL: time.Millisecond})
		for k := range 100 {
			c.Set(forever(k, 0), 1)
		}
		k := 0
		if n := testing.AllocsPerRun(1000, func() { c.Get(k % 100); c.Touch(k % 100); k += 7 }); n != 0 {
			t.Errorf("%v: a hit allocates %v times", p, n)
		}
		c.Close()
	}
}

// TestIdleEntryIsEvictedBeforeOthers: it is as good as gone, also before it is swept.
func TestIdleEntryIsEvictedBeforeOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var why []Reason
		c := New(Config[int, int]{MaxEntries: 3, IdleTTL: 100 * time.Millisecond, Notify: func(_ *Entry[int, int], r Reason) { why = append(why, r) }})
		defer c.Close()
		for k := range 3 {
			c.Set(forever(k, 0), 1)
		}
		time.Sleep(90 * time.Millisecond)
		for range evict.MaxUses {
			c.Get(1)
			c.Get(2)
		}
		time.Sleep(20 * time.Millisecond)
		removed, _ := c.Set(forever(3, 0), 1)
		c.Notify(removed)
		if len(why) != 1 || why[0] != Expired || removed[0].Entry.Key != 0 {
			t.Fatalf("%v", removed)
		}
	})
}
