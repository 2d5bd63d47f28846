package rig

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Load is a number of goroutines that call a function over and over.
type Load struct {
	Goroutines int
	// For is the time for which they call. With Calls set, each goroutine stops
	// after that many calls instead.
	For   time.Duration
	Calls int
	// Every is the number of calls of which one is timed: two readings of the
	// clock cost more than a hit does. The cost of these readings is taken off
	// the times. Zero means 1.
	Every int
	// Costs says that the costs of the calls for this process are measured too.
	// The garbage of earlier work is collected first.
	Costs bool
	// CPU says that the processor time is measured, without the rest of Costs and
	// without a collection.
	CPU bool
}

// Run is the measurement of a Load.
type Run struct {
	Calls int
	Took  time.Duration
	// Costs are the costs of all calls together, as far as the Load asks for them.
	Costs Costs
	times []time.Duration // of the timed calls, sorted
}

// PerSecond is the number of calls per second.
func (r Run) PerSecond() float64 { return float64(r.Calls) / r.Took.Seconds() }

// Quantile returns the time that share q of the timed calls did not exceed. It
// is exact for these calls, and ignores the others.
func (r Run) Quantile(q float64) time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	return r.times[min(int(q*float64(len(r.times))), len(r.times)-1)]
}

// Run puts the load on call. g is the number of the goroutine, and i the number of the call of this
// goroutine. The goroutines begin together. The first error of each ends it, and is returned.
func (l Load) Run(call func(g, i int) error) (Run, error) {
	every, clock := max(l.Every, 1), clockCost()
	workers := make([]worker, l.Goroutines)
	var stop atomic.Bool
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for g := range workers {
		w := &workers[g]
		// Room for the usual number of times, so that the calls alone allocate.
		w.times = make([]time.Duration, 0, 1<<10)
		wg.Go(func() {
			<-begin
			w.run(g, l.Calls, every, clock, &stop, call)
		})
	}
	// The timer is made before the costs are read, so that they do not include it.
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	if l.Costs {
		runtime.GC()
	}
	before := l.spent()
	start := time.Now()
	close(begin)
	if l.Calls == 0 {
		timer.Reset(l.For)
		<-timer.C
		stop.Store(true)
	}
	wg.Wait()
	took := time.Since(start)
	return sum(workers, took, l.spent().minus(before))
}

// spent returns the expenses of this process so far, as far as the load asks for them.
func (l Load) spent() Costs {
	switch {
	case l.Costs:
		return spent()
	case l.CPU:
		return Costs{CPU: cpuTime()}
	}
	return Costs{}
}

// worker holds the measurements of one goroutine.
type worker struct {
	calls int
	times []time.Duration
	err   error
	_     [64]byte // keeps the counters of two workers off one cache line
}

// run makes calls until it has made the limit, if there is one, or is stopped.
// It does little besides, as the costs of the process include it.
func (w *worker) run(g, limit, every int, clock time.Duration, stop *atomic.Bool, call func(g, i int) error) {
	i, untimed := 0, 0
	for w.err == nil && (i < limit || limit == 0) && !stop.Load() {
		if untimed > 0 {
			untimed--
			w.err = call(g, i)
		} else {
			untimed = every - 1
			start := time.Now()
			w.err = call(g, i)
			w.times = append(w.times, max(time.Since(start)-clock, 0))
		}
		i++
	}
	w.calls = i
}

func sum(workers []worker, took time.Duration, costs Costs) (Run, error) {
	r := Run{Took: took, Costs: costs}
	var errs []error
	for i := range workers {
		r.Calls += workers[i].calls
		r.times = append(r.times, workers[i].times...)
		errs = append(errs, workers[i].err)
	}
	slices.Sort(r.times)
	return r, errors.Join(errs...)
}

// clockCost returns the median duration of an empty interval, as the clock tells it.
func clockCost() time.Duration {
	costs := make([]time.Duration, 1001)
	for i := range costs {
		start := time.Now()
		costs[i] = time.Since(start)
	}
	slices.Sort(costs)
	return costs[len(costs)/2]
}
