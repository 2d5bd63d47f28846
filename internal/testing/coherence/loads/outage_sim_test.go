package loads_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/internal/testing/kit"
)

// The simulated outage: every ten milliseconds a tenth of the keys is asked for, so 10 000
// a second, each of them ten times a second. With -short there are a quarter of them.
const (
	outageTick  = 10 * time.Millisecond
	outageLoad  = 20 * time.Millisecond
	outageLoads = 32
)

func outageKeys() int { return kit.Rounds(1000) }

// outage is an origin with its callers. It is down for a while.
type outage struct {
	busy
	down     atomic.Bool
	attempts []atomic.Int64 // while it was down
	errors   atomic.Int64   // of callers
	reads    atomic.Int64
	stale    atomic.Int64
}

func (o *outage) load(_ context.Context, key int) (int, error) {
	defer o.begin()()
	if o.down.Load() {
		o.attempts[key].Add(1)
	}
	time.Sleep(outageLoad) // in a bubble
	if o.down.Load() {
		return 0, lab.ErrDown
	}
	return key, nil
}

// ask makes callers ask for all keys in turn for d, whether or not others have
// been answered.
func (o *outage) ask(t *testing.T, c *strata.Cache[int, int], d time.Duration) {
	for start, i := time.Now(), 0; time.Since(start) < d; time.Sleep(outageTick) { // in a bubble
		for range len(o.attempts) / 10 {
			key := i % len(o.attempts)
			i++
			go func() {
				o.reads.Add(1)
				if v, err := c.GetOrLoad(t.Context(), key, o.load); err != nil || v != key {
					o.errors.Add(1)
				}
			}()
		}
	}
}

// outageRow is what an outage was for one cache, as a row of a table.
type outageRow struct {
	lasts                                                 time.Duration
	reads, errors, attempts, mostOfAKey, during, recovery int64
}

func (r outageRow) String() string {
	return fmt.Sprintf("%6v %9d %8d %9d %11d %13d %9d", r.lasts, r.reads, r.errors, r.attempts, r.mostOfAKey, r.during, r.recovery)
}

// suffer goes through an outage that lasts for some time.
func suffer(t *testing.T, lasts time.Duration, change func(*strata.Options[int, int])) (r outageRow) {
	r.lasts = lasts
	synctest.Test(t, func(t *testing.T) {
		o := &outage{attempts: make([]atomic.Int64, outageKeys())}
		c := lab.NewCache(t, func(o *strata.Options[int, int]) { o.TTL, o.Jitter = 2*time.Second, 0.1 }, change)
		o.ask(t, c, time.Second) // all is well
		time.Sleep(time.Second)
		o.errors.Store(0)
		o.reads.Store(0)
		o.most.Store(0)
		o.down.Store(true)
		o.ask(t, c, lasts)
		r.during = o.most.Load()
		o.down.Store(false)
		o.most.Store(0)
		o.ask(t, c, 12*time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.recovery = o.most.Load()
		r.reads, r.errors = o.reads.Load(), o.errors.Load()
		for k := range o.attempts {
			n := o.attempts[k].Load()
			r.attempts += n
			r.mostOfAKey = max(r.mostOfAKey, n)
		}
	})
	return r
}

func TestOutageOfTheOriginFailsNoRead(t *testing.T) {
	guarded := suffer(t, time.Minute, func(o *strata.Options[int, int]) {
		o.ErrorTTL, o.RefreshAt, o.Limits.MaxLoads = 0, 0, outageLoads
		o.Stale = strata.Stale{OnError: 10 * time.Minute}
	})
	bare := suffer(t, 10*time.Second, func(o *strata.Options[int, int]) {
		o.Stale = strata.Stale{WhileRevalidate: -1, OnError: -1}
	})
	keys := int64(outageKeys())
	t.Logf("%d keys, each read ten times a second; origin down, and then well for 12s\n"+
		"             down     reads   errors  attempts  of one key  at once, down  recovery\n"+
		"guarded    %v\nunguarded  %v", keys, guarded, bare)
	if guarded.errors != 0 {
		t.Errorf("%d callers got an error while a stale value could be served", guarded.errors)
	}
	if guarded.mostOfAKey > 12 {
		t.Errorf("%d attempts at one key, want 12 at most", guarded.mostOfAKey)
	}
	if guarded.during > outageLoads || guarded.recovery > outageLoads {
		t.Errorf("%d loads at once, %d on recovery; want %d at most", guarded.during, guarded.recovery, outageLoads)
	}
	if guarded.attempts == 0 || guarded.reads != 720*keys || bare.errors < 50*keys || bare.mostOfAKey < 50 {
		t.Errorf("that was no outage")
	}
}

func TestJitterSpreadsEntriesThatWereLoadedTogether(t *testing.T) {
	const ttl = 180 * time.Second
	keys := kit.Rounds(3_000)
	peaks := map[float64]int64{}
	for _, jitter := range []float64{-1, 0.1} {
		synctest.Test(t, func(t *testing.T) {
			c := lab.NewCache(t, func(o *strata.Options[int, int]) {
				o.TTL, o.Jitter, o.Memory.MaxEntries = ttl, jitter, int64(2*keys)
			})
			var perSecond [600]int64
			start := time.Now()
			load := func(_ context.Context, k int) (int, error) {
				perSecond[time.Since(start)/time.Second]++
				return k, nil
			}
			for time.Since(start) < ttl+ttl/2 {
				for k := range keys {
					if _, err := c.GetOrLoad(t.Context(), k, load); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
			}
			total := int64(0)
			for _, n := range perSecond[1:] {
				peaks[jitter] = max(peaks[jitter], n)
				total += n
			}
			if perSecond[0] != int64(keys) || total != int64(keys) {
				t.Errorf("%d loads at first and %d later, want %d each", perSecond[0], total, keys)
			}
		})
	}
	t.Logf("%d keys loaded together, TTL %v\njitter  loads per second at the peak\nnone    %d\n0.1     %d", keys, ttl, peaks[-1], peaks[0.1])
	if peaks[0.1] > peaks[-1]/5 {
		t.Errorf("peak %d with jitter and %d without, want a fifth at most", peaks[0.1], peaks[-1])
	}
}
