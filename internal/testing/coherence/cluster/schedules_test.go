package cluster_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/kit"
)

var (
	schedules = flag.Int("schedules", 1000, "number of seeded schedules that a cluster is put through")
	seed      = flag.Uint64("seed", 0, "the first seed; without -schedules, only this one is run")
)

// TestClusterKeepsItsPromisesOnEverySchedule puts two or three instances on one tier
// and bus through seeded schedules of calls, delays, failures, late operations, and
// cuts. Each schedule has a bubble of its own. The results of the clients are judged by
// the promises of docs/promises.md under Agreement and, for Loads, under L1 and L2.
//
// A schedule is repeated with -seed=N, exactly enough with GOMAXPROCS=1: the
// scheduler orders events of the same instant, and the cache itself
// draws some waits. -seed=N -schedules=1000 continues from there.
func TestClusterKeepsItsPromisesOnEverySchedule(t *testing.T) { runSchedules(t, announced) }

// runSchedules runs and judges as many schedules as the flags say.
func runSchedules(t *testing.T, shares sharing) {
	count, first := *schedules, uint64(1)
	if isFlagSet("seed") {
		first = *seed
		if !isFlagSet("schedules") {
			count = 1
		}
	}
	if shares != announced && !isFlagSet("schedules") && !isFlagSet("seed") {
		count /= 4
	}
	if !isFlagSet("schedules") {
		count = kit.Rounds(count)
	}
	start := time.Now()
	var next, broken, left atomic.Uint64
	for w := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprint("worker ", w), func(t *testing.T) {
			t.Parallel()
			for n := next.Add(1); n <= uint64(count) && broken.Load() < 5; n = next.Add(1) {
				if !judgeSchedule(t, shares, first+n-1, &left) {
					broken.Add(1)
				}
			}
		})
	}
	t.Cleanup(func() {
		n := min(next.Load(), uint64(count))
		t.Logf("%d schedules, %.0f in a second; %d values were left out", n, float64(n)/time.Since(start).Seconds(), left.Load())
		if left.Load() == 0 && n >= 200 && shares != itemsAlone {
			t.Error("L2 has sent every value: no read has named one that its instance has")
		}
	})
}

// judgeSchedule runs one schedule and reports broken promises. It adds to left the values
// that L2 did not send because the instance had them.
func judgeSchedule(t *testing.T, shares sharing, seed uint64, left *atomic.Uint64) (kept bool) {
	ended := false
	defer func() {
		if !ended { // the bubble panicked, and takes the test with it
			fmt.Fprintf(os.Stderr, "-seed=%d did not end\n", seed)
		}
	}()
	p, h := runSchedule(t, shares, seed, left)
	ended = true
	violations := h.Judge(p)
	for i, v := range violations {
		if i == 5 {
			t.Logf("-seed=%d: and %d more", seed, len(violations)-i)
			break
		}
		t.Errorf("-seed=%d: %v", seed, v)
	}
	if len(violations) > 0 && isFlagSet("seed") {
		t.Log("\n" + strings.Join(h.Trace(), "\n"))
	}
	return len(violations) == 0
}

func isFlagSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}
