//go:build linux

package chaos_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/checker"
	"github.com/strata-cache/strata/test/chaos"
	"github.com/strata-cache/strata/test/internal/cluster"
)

var (
	duration = flag.Duration("for", time.Minute, "how long faults are injected")
	seed     = flag.Uint64("seed", 0, "the seed; 0 for one of the time")
	rate     = flag.Float64("rate", 500, "calls that each process makes in a second")
	every    = flag.Duration("every", 5*time.Second, "mean time between faults")
	only     = flag.String("only", "", "the faults to draw, by their names in faults.go, with commas")
	strict   = flag.Bool("strict", false, "let L1 count as empty while the bus is silent")
	sentinel = flag.Bool("sentinel", false, "let processes find Redis by sentinels, which fail over")
	nodes    = flag.Bool("cluster", false, "let processes use a Redis Cluster, whose replicas take over and whose slots move")
	repoint  = flag.Bool("repoint", false, "let the addresses of Redis lead to another server, while the one of before lives on")
	breaks   = flag.String("break", "", "break the cache: nobus, latebus, oldtier or nolease")
)

func TestMain(m *testing.M) {
	if cluster.IsWorker() {
		cluster.Work()
	}
	os.Exit(m.Run())
}

func options() chaos.Options {
	o := chaos.Options{
		For: *duration, Seed: *seed, Workers: 3, Rate: *rate, Every: *every, Only: *only,
		Strict: *strict, Sentinel: *sentinel, Cluster: *nodes, Repoint: *repoint, Break: *breaks, Log: os.Stdout,
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())
	}
	return o
}

func TestChaosBreaksNoPromise(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	r := chaos.Run(t, options())
	r.Print(os.Stdout)
	if !r.Good() {
		t.Errorf("-seed=%d: %d violations, %d problems", r.Seed, len(r.Violations), len(r.Problems))
	}
	if len(r.Connected) == 0 || r.Loads == 0 {
		t.Error("nothing was ever old, or loaded: the run proves nothing")
	}
}

// TestChaosOverMemcachedBreaksNoPromise has three servers of memcached as L2, with Redis
// as the bus, and without a bus.
func TestChaosOverMemcachedBreaksNoPromise(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	for name, alone := range map[string]bool{"bus": false, "alone": true} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.Memcached, o.Alone = 3, alone
			r := chaos.Run(t, o)
			r.Print(os.Stdout)
			if !r.Good() {
				t.Errorf("-seed=%d: %d violations, %d problems", r.Seed, len(r.Violations), len(r.Problems))
			}
			if len(r.Connected)+len(r.CutOff) == 0 || r.Loads == 0 {
				t.Error("nothing was ever old, or loaded: the run proves nothing")
			}
		})
	}
}

func TestBrokenCachesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	for how, rule := range map[string]checker.Rule{
		cluster.NoBus: checker.Bounded, cluster.LateBus: checker.Bounded, cluster.OldTier: checker.Local, cluster.NoLease: checker.OneClusterLoad,
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			o := options()
			o.For, o.Every, o.Break, o.Log = 5*time.Second, 0, how, nil
			r := chaos.Run(t, o)
			found := map[checker.Rule]int{}
			for _, v := range r.Violations {
				found[v.Rule]++
			}
			if found[rule] == 0 {
				r.Print(os.Stdout)
				t.Errorf("found %v; want %s", found, rule)
			}
		})
	}
}
