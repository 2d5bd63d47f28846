package l1

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/kit"
)

// TestDeadlineIsExactWhenIdle: with few reads the time is never coarse.
func TestDeadlineIsExactWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config[int, int]{MaxEntries: 10})
		defer c.Close()
		for range 50 {
			dead := After(c.Now(), 700*time.Millisecond+13)
			c.Set(until(1, 1, dead), 1)
			sleepTo(c, dead-1)
			if e, now := c.Get(1); e == nil || now != dead-1 {
				t.Fatalf("missed a nanosecond before the deadline, at %d of %d", now, dead)
			}
			sleepTo(c, dead)
			if e, now := c.Get(1); e != nil || now != dead {
				t.Fatalf("served at the deadline, at %d of %d", now, dead)
			}
		}
	})
}

// TestNeverServedAMillisecondAfterDeadline reads so often that the time is
// published, in steps that do not divide the clock's.
func TestNeverServedAMillisecondAfterDeadline(t *testing.T) {
	for _, step := range []time.Duration{30 * time.Microsecond, 170 * time.Microsecond, 499 * time.Microsecond, 500 * time.Microsecond, 770 * time.Microsecond, 3 * time.Millisecond} {
		t.Run(step.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := New(Config[int, int]{MaxEntries: 100})
				defer c.Close()
				coarse := 0
				for range kit.Rounds(1000) {
					for k := range 100 {
						e, now := c.Get(k)
						exact := c.Now()
						if now != exact {
							coarse++
						}
						switch {
						case now > exact:
							t.Fatalf("time %d is ahead of %d", now, exact)
						case e != nil && exact >= e.Dead+int64(time.Millisecond):
							t.Fatalf("served %v after the deadline", time.Duration(exact-e.Dead))
						case e == nil:
							c.Set(until(k, k, After(exact, time.Duration(k+1)*97*time.Microsecond)), 1)
						}
						c.Get(k)
						c.Get(k)
						c.Get(k)
					}
					time.Sleep(step)
				}
				if coarse == 0 && step < coarseTick-time.Microsecond {
					t.Fatal("the time was never published: the test tests nothing")
				}
			})
		})
	}
}

func TestClockEndsByItselfWhenQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.init()
		for range 5 {
			read(&c, 2*busyReads)
			synctest.Wait()
			if !c.runs() || c.published.Load() == 0 {
				t.Fatal("many reads did not start it")
			}
			time.Sleep((quietTicks + 1) * coarseTick)
			synctest.Wait()
			if c.runs() || c.published.Load() != 0 {
				t.Fatal("it runs on without readers")
			}
			if c.now() != c.exact() {
				t.Fatal("not exact when idle")
			}
			time.Sleep(time.Hour)
		}
	})
}

func TestFewReadsStartNoClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.init()
		for range 1000 {
			read(&c, busyReads/2)
			if c.published.Load() != 0 {
				t.Fatal("few reads started it")
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// TestReadersCorrectAnOldTime: after the process was stopped, or while no
// processor is free for the clock's goroutine, the published time is old.
// Readers must notice after a bounded number of reads.
func TestReadersCorrectAnOldTime(t *testing.T) {
	c := New(Config[int, int]{MaxEntries: 10})
	defer c.Close()
	c.clock.close() // ends publication
	dead := After(c.Now(), time.Microsecond)
	c.Set(until(1, 1, dead), 1)
	for c.Now() < dead+int64(2*coarseTick) {
		runtime.Gosched()
	}
	c.clock.published.Store(timeless + 1)
	for range paceReads {
		c.Get(1)
	}
	if e, now := c.Get(1); e != nil || now < dead {
		t.Fatalf("time is still %d, the deadline was %d", now, dead)
	}
}

// TestStoresKeepTheTime: many stores publish the time, as many hits do, and correct it if it is
// old. The published time is never ahead, so a life that begins at it is not longer.
func TestStoresKeepTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config[int, int]{MaxEntries: 100, Timeless: true})
		defer c.Close()
		time.Sleep(time.Hour)
		if got := c.Lately(); got != c.Now() {
			t.Fatalf("before the first deadline it is %d, not %d", got, c.Now())
		}
		stores := func() {
			for range len(c.shards) * paceStores * busyReads / paceReads {
				c.Set(until(1, 1, After(c.Lately(), time.Minute)), 1)
			}
		}
		stores()
		if c.clock.published.Load() == 0 {
			t.Fatal("many stores did not publish the time")
		}
		time.Sleep(coarseTick / 2)
		if lately, now := c.Lately(), c.Now(); lately != now-int64(coarseTick/2) {
			t.Fatalf("half a tick later the published time is %d, the time is %d", lately, now)
		}
		c.clock.close() // no goroutine publishes any more
		c.clock.published.Store(timeless + 1)
		stores()
		if lately, now := c.Lately(), c.Now(); lately != now {
			t.Fatalf("stores left the time at %d of %d", lately, now)
		}
	})
}

// TestPublishedTimeNeverGoesBack: a reader held up between reading the clock
// and publishing must not move back the time that others have published since,
// nor publish after the goroutine has ended.
func TestPublishedTimeNeverGoesBack(t *testing.T) {
	var c clock
	c.init()
	late := c.exact() + int64(time.Hour)
	c.published.Store(late)
	c.refresh()
	if got := c.published.Load(); got != late {
		t.Fatalf("went back from %d to %d", late, got)
	}
	c.published.Store(0)
	c.refresh()
	if got := c.published.Load(); got != 0 {
		t.Fatalf("revived as %d", got)
	}
}

func TestClosedClockStartsNothing(t *testing.T) {
	var c clock
	c.init()
	c.close()
	c.close()
	read(&c, 10*busyReads)
	if c.runs() || c.published.Load() != 0 {
		t.Fatal("a closed clock runs")
	}
}

// TestClockKeepsGoingWhileRead: with steady reads the published time goes on,
// never older than a tick, and publication does not stop in between.
func TestClockKeepsGoingWhileRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.init()
		defer c.close()
		read(&c, 2*busyReads)
		for range 1000 {
			time.Sleep(130 * time.Microsecond)
			if c.published.Load() == 0 {
				t.Fatal("given up while it was read")
			}
			if old := c.exact() - c.now(); old < 0 || old > int64(coarseTick) {
				t.Fatalf("the time is %d ns old", old)
			}
		}
	})
}

// read reads the clock n times, as hits on one stripe do.
func read(c *clock, n int) {
	for i := range n {
		c.now()
		if i%paceReads == 0 {
			c.pace()
		}
	}
}

// runs reports whether the clock has a goroutine.
func (c *clock) runs() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}
