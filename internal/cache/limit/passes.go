package limit

import (
	"context"
	"sync"
	"time"
)

// Passes runs a function in the background after events that come in bursts: a pass begins a
// moment after an event, and serves all events before it. Passes of one Passes do not run at
// the same time. NewPasses makes one.
type Passes struct {
	pass func()

	mu      sync.Mutex // guards below
	running bool
	again   bool // an event came during a pass
	closed  bool
	runs    sync.WaitGroup
}

const (
	// passDelay is the time from an event to its pass.
	passDelay = 100 * time.Millisecond
	// passShare bounds the time of one processor that passes take to one part in passShare,
	// however many events come.
	passShare = 50
)

// NewPasses returns a Passes that runs pass.
func NewPasses(pass func()) *Passes { return &Passes{pass: pass} }

// Wake is an event: it starts passes. If passes are running, one more follows. Passes end when
// ctx does. Wake does not block.
func (p *Passes) Wake(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.again = true; p.running || p.closed {
		return
	}
	p.running = true
	p.runs.Go(func() { p.run(ctx) })
}

// run makes passes until no event has come since the last pass began.
func (p *Passes) run(ctx context.Context) {
	pause := passDelay
	for p.next() {
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		p.begin()
		start := time.Now()
		p.pass()
		pause = max(passDelay, passShare*time.Since(start))
	}
}

// next reports whether another pass is needed, and ends the run if none is.
func (p *Passes) next() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = p.again
	return p.again
}

// begin notes that the pass which starts now serves all events so far.
func (p *Passes) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again = false
}

// Close keeps further passes from starting and waits for the running one. The context of Wake
// has ended.
func (p *Passes) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.runs.Wait()
}
