package limit

import (
	"context"
	"sync"
	"time"
)

// Bound is the context of one piece of work in a [Scope]. It ends with the Scope, when
// the time is over, or after the work. It makes a context of package context only on
// demand: when its Done is asked for, or when it ends before the work has returned.
// Work for which neither happens costs no timer. [Bound.Begin] is called before
// anything else.
//
// States: begun, returned, ended. Across these: made or not.
//
// Invariant: either the work has returned before the end, and InTime reports true, or it
// is cut short, once, and InTime reports false afterwards.
type Bound struct {
	scope     *Scope
	work      Work
	begun     int64      // by the clock of deadlines
	deadlines *Deadlines // nil: no time
	deadline

	// The bools lie beside one another, so that each load takes a word less of memory. listed
	// belongs to deadlines, whose mutex guards it; mu guards the others and made.
	listed, returned, ended bool

	mu   sync.Mutex
	made *made // nil until needed
}

// Work is told that it was not done in time.
type Work interface{ CutShort() }

// made is the context of package context of a Bound.
type made struct {
	context.Context
	cancel context.CancelFunc
	stop   func() bool // keeps the work from being cut short, unless it is too late
	late   sync.WaitGroup
}

// Begin begins the work, in s and for as long as d allows; nil: without end. The time
// is now, by the clock of d.
func (b *Bound) Begin(s *Scope, w Work, d *Deadlines, now int64) {
	b.scope, b.work, b.deadlines, b.begun = s, w, d, now
	if d != nil {
		d.add(b)
	}
	s.Follow(b)
}

// Begun returns the time of the begin.
func (b *Bound) Begun() int64 { return b.begun }

// Ended ends the work with the Scope.
func (b *Bound) Ended(error) { b.context() }

// timeOut ends the work when its time is over.
func (b *Bound) timeOut() { b.context() }

// context returns the context of package context, which it makes if there is none. If
// it has to end it ends at once.
func (b *Bound) context() *made {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.made == nil {
		b.made = b.make()
	}
	return b.made
}

// make makes the context of package context. b.mu is held.
func (b *Bound) make() *made {
	m := new(made)
	if b.deadlines != nil {
		m.Context, m.cancel = context.WithDeadlineCause(b.scope, b.deadlines.end(b), b.deadlines.cause)
	} else {
		m.Context, m.cancel = context.WithCancel(b.scope)
	}
	switch {
	case b.ended:
		m.cancel()
	case !b.returned:
		m.late.Add(1)
		m.stop = context.AfterFunc(m.Context, func() {
			defer m.late.Done()
			b.work.CutShort()
		})
	}
	return m
}

// InTime is called when the work has returned, and reports whether the work returned
// before the end. If not, InTime waits for the return of CutShort.
func (b *Bound) InTime() bool {
	b.mu.Lock()
	b.returned = true
	m := b.made
	b.mu.Unlock()
	if m == nil || m.stop() {
		return true
	}
	m.late.Wait()
	return false
}

// End ends the context after the work.
func (b *Bound) End() {
	if b.deadlines != nil {
		b.deadlines.remove(b)
	}
	b.mu.Lock()
	b.ended = true
	m := b.made
	b.mu.Unlock()
	if m != nil {
		m.cancel()
	}
}

// Deadline returns the end of the time.
func (b *Bound) Deadline() (deadline time.Time, ok bool) {
	if b.deadlines == nil {
		return deadline, false
	}
	return b.deadlines.end(b), true
}

// Done returns a channel, closed at the end.
func (b *Bound) Done() <-chan struct{} { return b.context().Done() }

// Err returns the reason of the end, as any context does.
func (b *Bound) Err() error {
	m, ended := b.state()
	switch {
	case m != nil:
		return m.Err()
	case ended:
		return context.Canceled
	case b.scope.Err() != nil:
		return b.context().Err()
	}
	return nil
}

// Value returns a value of the Scope. The context of package context knows the cause of
// the end, for which it is asked through Value.
func (b *Bound) Value(key any) any {
	if m, _ := b.state(); m != nil {
		return m.Value(key)
	}
	return b.scope.Value(key)
}

func (b *Bound) state() (m *made, ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.made, b.ended
}
