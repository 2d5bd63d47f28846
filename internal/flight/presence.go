package flight

import "sync"

// presence tells whether any caller waits for any of some flights: for one flight,
// or for those of a batch.
type presence struct {
	gone chan bool // holds the latest change until it is received

	mu      sync.Mutex // guards below
	flights int        // those with a caller
}

func newPresence() *presence { return &presence{gone: make(chan bool, 1)} }

// add notes that n flights more have a caller, and sends a change from none to some
// or back.
func (p *presence) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.flights
	if p.flights += n; (before == 0) == (p.flights == 0) {
		return
	}
	select {
	case <-p.gone: // an older change that was not received
	default:
	}
	p.gone <- p.flights == 0
}

// Gone returns a channel that receives true when no caller waits for f any more,
// and false when a caller does again, as of the latest change.
func (g *Group[K, V]) Gone(f *Flight[K, V]) <-chan bool {
	f.home.mu.Lock()
	defer f.home.mu.Unlock()
	if f.presence == nil {
		f.join(newPresence())
	}
	return f.presence.gone
}

// join makes the flight one of those of p. The shard's mutex is held.
func (a *audience) join(p *presence) {
	p.add(1)
	if a.presence = p; a.waiters == 0 {
		p.add(-1)
	}
}

// count adds n to the callers that wait. The shard's mutex is held.
func (a *audience) count(n int) {
	before := a.waiters
	a.waiters += n
	switch {
	case a.presence == nil:
	case before == 0:
		a.presence.add(1)
	case a.waiters == 0:
		a.presence.add(-1)
	}
}
