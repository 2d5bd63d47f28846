// Callbacks: a Runner runs the functions of the program that a cache only reports to: its hooks,
// the handler of its log, its tracer. A function that does not return holds up no caller, no lock
// and no Close for long.

package observe

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Patience is for how long a caller waits for a function. Each function that callers have left,
	// and that still runs, makes the next caller less patient, so that all callers together lose
	// less than a second to functions that never return.
	Patience = 50 * time.Millisecond
	// grace is for how long a caller waits after its context has ended: most functions end at once.
	grace = Patience / 10
	// mostRunning is the number of functions that run at once. A call beyond it waits placeWait for a
	// place, then its function is not run. placeWait is shorter than Patience: if hooks call caches
	// whose hooks call caches again, the innermost call gives up first, and frees the others.
	mostRunning = 256
	placeWait   = Patience / 5
	// deepest is how many functions within one another are run: a hook that reads would be told of its own read, and so on.
	// If each of them begins n pieces of work, a call causes n to this power of them. nestedFrom is a number of functions
	// that run at once: from this number on none is run within another one.
	deepest    = 2
	nestedFrom = 8
)

// Runners are the three runners of one cache. Each has its own bounds, so that a blocked log does
// not keep events from a hook.
type Runners struct {
	Hooks, Tracer, Log Runner
	levels             bool // work gets a level, see Within
}

// NewRunners returns the Runners of a cache. Without levels, for a cache that has neither hooks nor a Tracer, work gets no level.
func NewRunners(levels bool) *Runners {
	all := &Runners{levels: levels}
	for r := range all.each {
		r.init()
	}
	return all
}

func (r *Runners) each(yield func(*Runner) bool) {
	_ = yield(&r.Hooks) && yield(&r.Tracer) && yield(&r.Log)
}

func (r *Runners) sum(of func(*Runner) uint64) uint64 {
	return of(&r.Hooks) + of(&r.Tracer) + of(&r.Log)
}

// Late is the number of functions that took longer than their callers waited.
func (r *Runners) Late() uint64 { return r.sum(func(r *Runner) uint64 { return r.late.Load() }) }

// Dropped is the number of functions not run, because too many were running.
func (r *Runners) Dropped() uint64 { return r.sum(func(r *Runner) uint64 { return r.dropped.Load() }) }

// Panics is the number of functions that panicked.
func (r *Runners) Panics() uint64 { return r.sum(func(r *Runner) uint64 { return r.panics.Load() }) }

// Wait waits for the functions that run on without their callers, for at most d, or until ctx ends.
func (r *Runners) Wait(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for r := range r.each {
		r.wait(ctx)
	}
}

// Runner runs functions of one kind. It is safe for concurrent use. Create it with NewRunner.
type Runner struct {
	places  chan struct{} // one for each function that runs
	resumed atomic.Int64  // calls of Resume that run
	late    atomic.Uint64
	dropped atomic.Uint64
	panics  atomic.Uint64
	calls   sync.Pool // of *call

	mu   sync.Mutex    // guards below
	left int           // functions that run on without their callers
	none chan struct{} // is closed when the last of them has ended
}

// NewRunner returns a Runner.
func NewRunner() *Runner {
	r := new(Runner)
	r.init()
	return r
}

func (r *Runner) init() { r.places = make(chan struct{}, mostRunning) }

// Run runs f on a goroutine of its own, and waits until f returns, panics or ends its goroutine, ctx
// has ended, or Patience is over. It reports whether f has ended; if not, f runs on, or was not run.
func (r *Runner) Run(ctx context.Context, f func()) (ended bool) {
	within := r.level(ctx)
	if within >= deepest || within > 0 && len(r.places) >= nestedFrom || !r.enter(ctx) {
		r.dropped.Add(1)
		return false
	}
	c := r.call()
	c.f = f
	go c.run(within)
	runtime.Gosched() // most functions take less time than the making of a timer
	select {
	case <-c.ended:
	default:
		if !c.wait(ctx) {
			return false
		}
	}
	c.f = nil
	c.state.Store(begun)
	r.calls.Put(c)
	return true
}

// enter takes a place.
func (r *Runner) enter(ctx context.Context) bool {
	select {
	case r.places <- struct{}{}:
		return true
	default:
	}
	if r.allLeft() {
		return false
	}
	t := time.NewTimer(placeWait)
	defer t.Stop()
	select {
	case r.places <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-t.C:
	}
	return false
}

// patience returns for how long the next caller waits. one is the time for which it would wait if
// no function ran on without its caller.
func (r *Runner) patience(one time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return one / time.Duration(1+r.left)
}

// allLeft reports whether every place is taken by a function without a caller.
func (r *Runner) allLeft() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left >= mostRunning
}

// leave changes the number of functions without callers.
func (r *Runner) leave(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == 0 {
		r.none = make(chan struct{})
	}
	if r.left += n; r.left == 0 {
		close(r.none)
	}
}

// runnerCall is one function that runs.
type runnerCall struct {
	r     *Runner
	f     func()
	ended chan struct{} // gets one when f has ended, unless the caller has left by then
	state atomic.Int32  // the first of the caller and f to finish sets it
}

// States of a call.
const (
	begun int32 = iota
	over        // f has ended
	alone       // the caller has left
)

// call returns an unused call. Calls are used again, unless their callers have left.
func (r *Runner) call() *runnerCall {
	if c, ok := r.calls.Get().(*runnerCall); ok {
		return c
	}
	return &runnerCall{r: r, ended: make(chan struct{}, 1)}
}

// run runs the function, within so many others.
func (c *runnerCall) run(within int) {
	defer func() {
		if recover() != nil {
			c.r.panics.Add(1)
		}
		<-c.r.places
		if !c.state.CompareAndSwap(begun, over) {
			c.r.leave(-1)
			return
		}
		c.ended <- struct{}{}
	}()
	nest(within+1, c.f)
}

// wait waits for the function, and reports whether it has ended.
func (c *runnerCall) wait(ctx context.Context) bool {
	t := time.NewTimer(c.r.patience(Patience))
	defer t.Stop()
	select {
	case <-c.ended:
		return true
	case <-t.C:
	case <-ctx.Done():
		t.Reset(c.r.patience(grace))
		select {
		case <-c.ended:
			return true
		case <-t.C:
		}
	}
	c.r.leave(1) // before the function can end alone
	if !c.state.CompareAndSwap(begun, alone) {
		c.r.leave(-1)
		<-c.ended
		return true
	}
	c.r.late.Add(1)
	return false
}

// wait waits for the functions that run on without their callers, or until ctx ends.
func (r *Runner) wait(ctx context.Context) {
	for {
		r.mu.Lock()
		left, none := r.left, r.none
		r.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-none:
		case <-ctx.Done():
			return
		}
	}
}

// Handler returns a handler of a log that hands lines on to next by r. It does not ask next
// beforehand which levels it wants.
func (r *Runner) Handler(next slog.Handler) slog.Handler {
	if next == slog.DiscardHandler {
		return next
	}
	return &boundedHandler{r, next}
}

type boundedHandler struct {
	r    *Runner
	next slog.Handler
}

// Enabled reports true: the question to the next handler may block like its work.
func (h *boundedHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle hands a line on. It returns no error of the next handler: the error may come too late.
func (h *boundedHandler) Handle(ctx context.Context, line slog.Record) error {
	h.r.Run(ctx, func() {
		if h.next.Enabled(ctx, line.Level) {
			_ = h.next.Handle(ctx, line)
		}
	})
	return nil
}

// WithAttrs returns a handler that adds attrs to each line.
func (h *boundedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &boundedHandler{h.r, h.next.WithAttrs(attrs)}
}

// WithGroup returns a handler that puts the attributes of each line into a group.
func (h *boundedHandler) WithGroup(name string) slog.Handler {
	return &boundedHandler{h.r, h.next.WithGroup(name)}
}

// A function that calls its cache may be told of its own calls, and call the cache again. The level of work is the number
// of functions within one another in which it was begun. The stack of a goroutine tells it by the frames of nest; a context
// takes it to other goroutines, and to work that goes on when its function has ended.

// levelKey is the key of a context for the level of its work.
type levelKey struct{}

// Within returns ctx for work that the caller begins, with the caller's level.
func (r *Runners) Within(ctx context.Context) context.Context {
	if !r.levels {
		return ctx
	}
	if n := levelHere(); n > levelOf(ctx) {
		return context.WithValue(ctx, levelKey{}, n)
	}
	return ctx
}

// Resume calls f, which is a part of the work of ctx and tells functions of something without a context, at the level of ctx.
func (r *Runners) Resume(ctx context.Context, f func()) {
	n := 0
	if r.levels {
		n = levelOf(ctx)
	}
	if n == 0 {
		f()
		return
	}
	r.Hooks.resumed.Add(1)
	defer r.Hooks.resumed.Add(-1)
	nest(n, f)
}

// levelOf returns the level that [Runners.Within] has given a context.
func levelOf(ctx context.Context) int {
	n, _ := ctx.Value(levelKey{}).(int)
	return n
}

// level returns the level of work that ctx or the caller's stack tell of. While no function of r runs, and no work is resumed,
// the stack has none.
func (r *Runner) level(ctx context.Context) int {
	n := levelOf(ctx)
	if len(r.places) > 0 || r.resumed.Load() > 0 {
		n = max(n, levelHere())
	}
	return n
}

// nest calls f within n frames that return to nestedAt.
//
//go:noinline
func nest(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	nest(n-1, f)
}

// nestedAt is where nest calls itself.
var nestedAt = func() (at uintptr) { // read-only
	nest(1, func() {
		var frame [1]uintptr
		runtime.Callers(3, frame[:]) // behind Callers, this function and the nest that calls it
		at = frame[0]
	})
	return at
}()

// levelHere returns the number of frames of nest in the stack of this goroutine, and no more than deepest.
func levelHere() (n int) {
	var stack [64]uintptr
	for skip, size := 2, len(stack); size == len(stack) && n < deepest; skip += size {
		size = runtime.Callers(skip, stack[:])
		for _, pc := range stack[:size] {
			if pc == nestedAt && n < deepest {
				n++
			}
		}
	}
	return n
}

// Ending ends a piece of work that a function of the program has begun: after that function has
// returned, however late, and after the work. The zero Ending is ready to use. Its methods are safe
// for concurrent use.
type Ending[E any] struct {
	mu    sync.Mutex // guards below
	end   func(E)    // nil until the function has returned it
	ended *E         // of work that ended before
}

// Begins takes the function that ends the work, which may be nil. It calls end at once if the work has
// ended by now.
func (g *Ending[E]) Begins(end func(E)) {
	g.mu.Lock()
	g.end = end
	e := g.ended
	g.mu.Unlock()
	if e != nil && end != nil {
		end(*e)
	}
}

// Ends returns the function that ends the work, for a call with e. It is nil if the work has not begun: then
// Begins calls it. Ends must be called once.
func (g *Ending[E]) Ends(e E) (end func(E)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.end == nil {
		late := e // most work has begun by now, and allocates nothing
		g.ended = &late
	}
	return g.end
}
