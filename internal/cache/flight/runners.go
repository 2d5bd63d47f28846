package flight

import (
	"runtime"
	"sync"
)

// maxIdle is the number of idle runners that a group keeps.
const maxIdle = 16

// runners are the goroutines on which a group runs its launched flights and batches. Some
// idle ones are kept for the next one: to wake one costs less than a new goroutine,
// and its stack has grown already.
//
// States of a runner: running a flight, idle, ended.
//
// Invariant: at most maxIdle runners are idle. An idle one is in the list, and a
// closed list is empty.
type runners[K comparable, V any] struct {
	all sync.WaitGroup

	mu     sync.Mutex // guards below
	idle   []runner[K, V]
	closed bool
}

// runner is the way to an idle goroutine: it gets one launch, or is closed.
type runner[K comparable, V any] chan launch[K, V]

// launch is a flight to run, with its leader, or a batch.
type launch[K comparable, V any] struct {
	f      *Flight[K, V]
	leader Leader[K, V]
	batch  *Batch[K, V]
}

// run runs a flight on a goroutine that waits for one, or on a new one.
func (r *runners[K, V]) run(g *Group[K, V], l launch[K, V]) {
	if idle := r.take(); idle != nil {
		idle <- l
		return
	}
	r.start(g, l)
}

// start runs a flight on a new goroutine, and then others.
func (r *runners[K, V]) start(g *Group[K, V], first launch[K, V]) {
	r.all.Go(func() {
		growStack()
		g.run(first)
		own := make(runner[K, V], 1)
		for r.keep(own) {
			next, more := <-own
			if !more {
				return
			}
			g.run(next)
		}
	})
}

// take takes the runner with the shortest idle time, nil if there is none.
func (r *runners[K, V]) take() (idle runner[K, V]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.idle) - 1; n >= 0 {
		idle, r.idle = r.idle[n], r.idle[:n]
	}
	return idle
}

// keep reports whether the runner should wait for another flight.
func (r *runners[K, V]) keep(own runner[K, V]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.idle) == maxIdle {
		return false
	}
	r.idle = append(r.idle, own)
	return true
}

// close ends the idle runners, now and from now on.
func (r *runners[K, V]) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, idle := range r.idle {
		close(idle)
	}
	r.idle = nil
}

// growStack makes the goroutine's stack grow at once to the 8 KiB that a load with
// network calls needs, while the stack is nearly empty. Growth step by step on the
// way down cost a tenth of a miss that L2 answers with a lease.
//
//go:noinline
func growStack() { runtime.KeepAlive(&[6 << 10]byte{}) }
