// Package sim simulates eviction policies on traces of requests and compares their
// hit ratios. A trace runs on anything with the one method of Policy, so an engine can
// stand beside the simulator of its policy.
package sim

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/strata-cache/strata/internal/cache/evict"
)

// Policy is a cache of keys that chooses the keys to evict. Policies are for one
// goroutine.
type Policy interface {
	// Access asks for key, reports whether the cache held it, and puts it in if not.
	Access(key uint64) (hit bool)
}

// Result counts the requests of a run.
type Result struct{ Requests, Hits int }

// Ratio returns the share of hits, 0 to 1, and 0 for no requests.
func (r Result) Ratio() float64 { return float64(r.Hits) / float64(max(1, r.Requests)) }

// Run asks p for each key in order.
func Run(p Policy, keys []uint64) Result {
	r := Result{Requests: len(keys)}
	for _, key := range keys {
		if p.Access(key) {
			r.Hits++
		}
	}
	return r
}

// Trace is a sequence of requests with a name. It is read-only after NewTrace, and
// several goroutines may run policies on it.
type Trace struct {
	Name     string
	Keys     []uint64
	Distinct int // distinct keys
	foreseen func() future
}

// NewTrace returns the trace of keys, which it keeps.
func NewTrace(name string, keys []uint64) *Trace {
	seen := make(map[uint64]struct{})
	for _, key := range keys {
		seen[key] = struct{}{}
	}
	foreseen := sync.OnceValue(func() future { return foresee(keys) })
	return &Trace{Name: name, Keys: keys, Distinct: len(seen), foreseen: foreseen}
}

// minCapacity is the least capacity at which hit ratios are compared. Smaller ones
// depend on the rounding of shares.
const minCapacity = 40

// Capacities returns the capacities at which to compare policies on the trace: 0.5,
// 2, 5 and 15 % of its distinct keys, rounded down, without those below 40.
func (t *Trace) Capacities() (all []int) {
	for _, perMille := range []int{5, 20, 50, 150} {
		if c := t.Distinct * perMille / 1000; c >= minCapacity {
			all = append(all, c)
		}
	}
	return all
}

// makers make policies by name, in the order of tables. An optimum needs the trace.
var makers = []struct { // read-only
	name string
	make func(capacity int, t *Trace) Policy
}{
	{"lru", func(c int, _ *Trace) Policy { return NewEngine(evict.LRU, c) }},
	{"lfu", func(c int, _ *Trace) Policy { return NewLFU(c) }},
	{"cachelfu", func(c int, _ *Trace) Policy { return NewEngine(evict.LFU, c) }},
	{"fifo", func(c int, _ *Trace) Policy { return NewEngine(evict.FIFO, c) }},
	{"random", func(c int, _ *Trace) Policy { return NewRandom(c) }},
	{"clock", func(c int, _ *Trace) Policy { return NewClock(c) }},
	{"sieve", func(c int, _ *Trace) Policy { return NewSieve(c) }},
	{"arc", func(c int, _ *Trace) Policy { return NewARC(c) }},
	{"lirs", func(c int, _ *Trace) Policy { return NewLIRS(c) }},
	{"s3fifo", func(c int, _ *Trace) Policy { return NewS3FIFO(c) }},
	{"tinylfu", func(c int, _ *Trace) Policy { return NewTinyLFU(c) }},
	{"a3fifo", func(c int, _ *Trace) Policy { return NewEngine(evict.A3FIFO, c) }},
	{"belady", func(c int, t *Trace) Policy {
		return &Belady{future: t.foreseen(), kept: newPositions(len(t.Keys)), capacity: c}
	}},
}

// Names returns the names of all policies, in the order of tables.
func Names() (all []string) {
	for _, m := range makers {
		all = append(all, m.name)
	}
	return all
}

var (
	errUnknown  = errors.New("sim: unknown policy")
	errCapacity = errors.New("sim: a capacity is at least 1")
)

// New returns an empty cache with the named policy for capacity entries. Only
// "belady" looks at the trace. A name missing from Names and a capacity below 1 are
// errors.
func New(name string, capacity int, t *Trace) (Policy, error) {
	if capacity < 1 {
		return nil, fmt.Errorf("%w: %d", errCapacity, capacity)
	}
	for _, m := range makers {
		if m.name == name {
			return m.make(capacity, t), nil
		}
	}
	return nil, fmt.Errorf("%w %q: there are %s", errUnknown, name, strings.Join(Names(), ", "))
}

// Cell is one run: a policy with a capacity on a trace.
type Cell struct {
	Trace    *Trace
	Capacity int
	Policy   string
}

// RunAll runs all cells, GOMAXPROCS of them at a time, and returns their results in
// the order of cells. The longest traces are run first. The error is the error of New
// for the first cell that it refuses.
func RunAll(cells []Cell) ([]Result, error) {
	results, errs := make([]Result, len(cells)), make([]error, len(cells))
	order := longestFirst(cells)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(order); i = next.Add(1) - 1 {
				at := order[i]
				results[at], errs[at] = cells[at].run()
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

func longestFirst(cells []Cell) []int {
	order := make([]int, len(cells))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(cells[b].Trace.Keys) - len(cells[a].Trace.Keys) })
	return order
}

func (c Cell) run() (Result, error) {
	p, err := New(c.Policy, c.Capacity, c.Trace)
	if err != nil {
		return Result{}, err
	}
	return Run(p, c.Trace.Keys), nil
}
