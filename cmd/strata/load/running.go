package load

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// Settings are the part of Options that a running load can change.
type Settings struct {
	// Rate and Concurrency are as in Options.
	Rate        float64
	Concurrency int
	// Paused stops the schedule: no request becomes due. The requests already due are
	// still sent.
	Paused bool
}

// validate returns the joined errors of all invalid fields.
func (s Settings) validate() error {
	return errors.Join(within("concurrency", s.Concurrency, MaxConcurrency), checkRate(s.Rate))
}

// Running is a running load. Its methods may be called at the same time.
type Running struct {
	o        Options
	template *template
	rec      *recorder
	start    time.Time
	worker   func()        // sends requests until it leaves
	finish   func()        // called by the last worker
	turn     chan struct{} // has an element while a worker waits for the next start
	done     chan struct{} // closed after the last answer
	result   *Result       // once done is closed

	mu       sync.Mutex // guards below
	settings Settings
	changes  int
	changed  chan struct{} // closed by the next change
	schedule schedule
	workers  int            // running ones
	wait     sync.WaitGroup // for workers; grows while workers is not 0
}

// Start starts a load as Run does, and returns while it runs.
func Start(ctx context.Context, o Options) (*Running, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	t, err := newTemplate(o)
	if err != nil {
		return nil, err
	}
	release := func() {}
	if o.Transport == nil {
		own := newTransport(o)
		release = own.CloseIdleConnections
		o.Transport = own
	}
	if o.Follow {
		o.Transport = &following{http.Client{Transport: o.Transport}}
	}
	settings := Settings{Rate: o.Rate, Concurrency: o.Concurrency}
	r := &Running{
		o: o, template: t, rec: newRecorder(o.Steps), start: time.Now(),
		turn: make(chan struct{}, 1), done: make(chan struct{}), changed: make(chan struct{}),
		settings: settings, schedule: newSchedule(o.Group, settings),
	}
	// The workers share the end: the last one stops the calls of Progress before the result is
	// read.
	r.worker = func() { r.work(ctx) }
	stopWatch := r.watch()
	r.finish = func() {
		stopWatch()
		release()
		r.result = r.summary(ctx)
		close(r.done)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hire()
	return r, nil
}

// Done returns a channel. It is closed when the load has ended.
func (r *Running) Done() <-chan struct{} { return r.done }

// Wait waits for the end of the load and returns its result.
func (r *Running) Wait() *Result {
	<-r.done
	r.wait.Wait()
	return r.result
}

// Settings returns the settings in force.
func (r *Running) Settings() Settings {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settings
}

// ErrTooManyChanges is returned by Running.Set while requests of 1,000 earlier rates wait
// to be sent. The settings stay unchanged.
var ErrTooManyChanges = errors.New("load: too many changes of the rate while requests wait")

// Set changes the load while it runs; after its end it has no effect. A change of the rate
// moves the requests not yet due. Due requests keep their intended start. After a change
// to a smaller concurrency, no request is sent before enough of the running ones have
// ended. After an error, caused by s, nothing is changed.
func (r *Running) Set(s Settings) error {
	if err := s.validate(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	elapsed := time.Since(r.start)
	// A change without effect is not counted as one.
	if s == r.settings || r.workers == 0 || elapsed >= r.o.Duration {
		return nil
	}
	if (s.Rate != r.settings.Rate || s.Paused != r.settings.Paused) && !r.schedule.change(elapsed, s) {
		return ErrTooManyChanges
	}
	r.settings = s
	r.changes++
	// The worker that waits for a start looks at the schedule again.
	close(r.changed)
	r.changed = make(chan struct{})
	r.hire()
	return nil
}

// hire starts workers up to the concurrency of the settings. mu is held.
func (r *Running) hire() {
	for ; r.workers < r.settings.Concurrency; r.workers++ {
		r.wait.Go(r.worker)
	}
}

// leave removes a worker. The last one ends the load.
func (r *Running) leave() {
	r.mu.Lock()
	r.workers--
	last := r.workers == 0
	r.mu.Unlock()
	if last {
		r.finish()
	}
}

// next is the next request and the moment at which it is sent.
type next struct {
	n             int64
	now, intended time.Time
	mode          mode
}

// verdict is the decision about a worker at its turn.
type verdict int

const (
	sends  verdict = iota // the next request
	waits                 // for a start or a change
	leaves                // because the run is over
	quits                 // because there are too many workers; it has left
)

// await waits for the next request to send. If the worker must end, await removes it from
// the count and reports false. One worker at a time waits for a start and the others for
// their turn, so that no worker owns a request before its start, which a change may move.
func (r *Running) await(ctx context.Context, timer *time.Timer) (next, bool) {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		r.leave()
		return next{}, false
	}
	found, does := r.atTurn(ctx, timer)
	<-r.turn
	// The turn is given back before: the next worker may leave as well.
	if does == leaves {
		r.leave()
	}
	return found, does == sends
}

// atTurn waits for the next request.
func (r *Running) atTurn(ctx context.Context, timer *time.Timer) (next, verdict) {
	for ctx.Err() == nil {
		found, until, changed, does := r.begin()
		if does != waits {
			return found, does
		}
		timer.Reset(time.Until(until))
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
	}
	return next{}, leaves
}

// begin takes the next request if it is due. Otherwise it returns the moment until which
// the worker is to wait, if nothing changes.
func (r *Running) begin() (found next, until time.Time, changed <-chan struct{}, does verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A worker too many leaves at its turn, so that no request is cut off.
	if r.workers > r.settings.Concurrency {
		r.workers--
		return next{}, time.Time{}, nil, quits
	}
	now := time.Now()
	elapsed := now.Sub(r.start)
	start, mode := r.schedule.start(r.schedule.next)
	switch mode {
	case unlimited:
		start = min(elapsed, r.o.Duration)
	// Nothing is due before the end of the run, or before the next change, for which the caller
	// waits, too.
	case paused:
		start = r.o.Duration
	}
	if first := min(start, r.o.Duration); elapsed < first {
		return next{}, r.start.Add(first), r.changed, waits
	}
	if start >= r.o.Duration || elapsed >= r.o.Duration && elapsed-start > lateness {
		return next{}, time.Time{}, nil, leaves
	}
	found = next{now: now, intended: r.start.Add(start), mode: mode, n: r.schedule.take()}
	// Without a schedule a request is never late: latency counts from the sending.
	if mode == unlimited {
		found.intended = now
	}
	return found, time.Time{}, nil, sends
}

// Progress returns the state of the load. Rate and Recent count from the previous call,
// also from a call for Options.Progress.
func (r *Running) Progress() Progress {
	r.mu.Lock()
	elapsed := time.Since(r.start)
	settings, sent := r.settings, r.schedule.next
	// Requests that are due and not yet sent tell that the target cannot keep up.
	behind := r.schedule.due(min(elapsed, r.o.Duration)) - sent
	r.mu.Unlock()
	p := r.rec.progress(elapsed)
	p.Settings, p.Running, p.Behind = settings, max(0, sent-p.Done), max(0, behind)
	return p
}

// watch calls Options.Progress until stop is called. stop waits for the last call to
// return.
func (r *Running) watch() (stop func()) {
	if r.o.Progress == nil {
		return func() {}
	}
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(r.o.Every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.o.Progress(r.Progress())
			case <-done:
				return
			}
		}
	})
	return func() { close(done); watcher.Wait() }
}

// summary returns the counts of the recorder with the fields of the run.
func (r *Running) summary(ctx context.Context) *Result {
	res := r.rec.result()
	r.mu.Lock()
	defer r.mu.Unlock()
	res.Interrupted = ctx.Err() != nil
	res.Changes, res.Settings = r.changes, r.settings
	// An interrupted run is not blamed for the rest of its schedule.
	until := min(time.Since(r.start), r.o.Duration)
	res.Elapsed = r.rec.last.Sub(r.start)
	if !res.Interrupted {
		res.Elapsed = max(res.Elapsed, r.o.Duration)
	} else {
		res.Elapsed = time.Since(r.start)
	}
	res.Unsent = max(0, r.schedule.due(until)-r.schedule.next)
	return res
}
