package limit

import "sync"

// Background runs a bounded number of functions at once, each for a key of its
// own. Without room a function is not run. NewBackground makes one.
type Background struct {
	most int

	mu      sync.Mutex // guards below
	running int
	begun   map[any]*begun
	closed  bool
	runs    sync.WaitGroup
}

// begun marks that a function was begun for a key.
type begun struct{ key any }

// NewBackground returns a Background that runs at most so many functions at once
// as most says.
func NewBackground(most int) *Background {
	return &Background{most: most, begun: map[any]*begun{}}
}

// Run runs f on a goroutine of its own, unless another function was begun for key, or key does not
// equal itself. It reports false without room, or after Close. f may call found as soon as other
// callers can see by other means that a function for key runs. From then on f does not keep Run
// from starting another function for key.
func (b *Background) Run(key any, f func(found func())) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	// A key unequal to itself, such as NaN, would never be found again in the map.
	same := key
	if b.begun[key] != nil || key != same {
		return true
	}
	if b.closed || b.running >= b.most {
		return false
	}
	m := &begun{key}
	b.begun[key] = m
	b.running++
	b.runs.Go(func() {
		defer b.ended(m)
		f(func() { b.found(m) })
	})
	return true
}

func (b *Background) found(m *begun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(m)
}

func (b *Background) ended(m *begun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
	b.remove(m)
}

// remove removes m, and no later mark of its key. mu is held.
func (b *Background) remove(m *begun) {
	if b.begun[m.key] == m {
		delete(b.begun, m.key)
	}
}

// Close keeps further functions from running. Wait waits for the running
// ones.
func (b *Background) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// Wait waits until no function runs. Close was called before.
func (b *Background) Wait() { b.runs.Wait() }
