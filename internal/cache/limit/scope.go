package limit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Scope is a context with the values of another context, but not its cancellation,
// and with a value of its owner under [Own]. It makes a context of package context
// when its Done is asked for: work that does not look at its end costs none.
// [Scope.Begin] is called before anything else.
//
// States: running, ended. Across these: made or not.
//
// Invariant: an ended Scope stays ended, and its follower is told of an end with a
// cause once, whether or not a context is made.
type Scope struct {
	values context.Context // its cancellation does not count

	ended atomic.Bool // written under mu
	known bool        // own has been asked for; guarded by mu

	mu       sync.Mutex // guards below
	own      any        // nil if there is none, or from Finish on unless it is known
	cause    *error     // nil if the work was done; a pointer, since each load has a Scope and few end with a cause
	made     *madeScope
	follower Follower
}

// Own is the key under which a [Scope] has the value of its owner.
type Own struct{}

// madeScope is the context of package context of a Scope.
type madeScope struct {
	context.Context
	cancel context.CancelCauseFunc
}

// Follower is told of the end of a [Scope], if the Scope has ended with a cause. Its
// Ended must not wait: the caller of End may hold locks.
type Follower interface{ Ended(cause error) }

// Begin gives the Scope its values: the values of ctx, and own, which is not nil.
func (s *Scope) Begin(ctx context.Context, own any) { s.values, s.own = ctx, own }

// Precede is Follow directly after Begin, before other goroutines know the Scope.
func (s *Scope) Precede(f Follower) { s.follower = f }

// apart returns the values of ctx without its cancellation.
func apart(ctx context.Context) context.Context {
	if ctx == context.Background() {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// Follow makes f the follower. If the Scope has ended with a cause f is told at once.
func (s *Scope) Follow(f Follower) {
	s.mu.Lock()
	s.follower = f
	cause := s.cause
	s.mu.Unlock()
	if cause != nil {
		f.Ended(*cause)
	}
}

// Leave undoes Follow, and reports true, if f is the follower and has not been told of the end.
func (s *Scope) Leave(f Follower) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.follower != f || s.cause != nil {
		return false
	}
	s.follower = nil
	return true
}

// End cancels the Scope with a cause.
func (s *Scope) End(cause error) {
	if f := s.over(cause); f != nil {
		f.Ended(cause)
	}
}

// Finish ends the Scope after its work: its follower is not told. It reports whether the owner's
// value is known to others. If it is not, Finish removes the value from the Scope.
func (s *Scope) Finish() (known bool) {
	s.mu.Lock()
	m := s.made
	if s.ended.Swap(true) {
		m = nil // it is cancelled already
	}
	known = s.known
	if !known {
		s.own = nil
	}
	s.mu.Unlock()
	if m != nil {
		m.cancel(nil)
	}
	return known
}

// over ends the Scope unless it has ended, and returns its follower then.
func (s *Scope) over(cause error) Follower {
	s.mu.Lock()
	if s.ended.Load() {
		s.mu.Unlock()
		return nil
	}
	s.cause = &cause
	s.ended.Store(true)
	m, f := s.made, s.follower
	s.mu.Unlock()
	if m != nil {
		m.cancel(cause)
	}
	return f
}

// context returns the context of package context, which it makes if there is none.
func (s *Scope) context() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil {
		s.made = new(madeScope)
		s.made.Context, s.made.cancel = context.WithCancelCause(apart(s.values))
		if s.ended.Load() {
			var cause error
			if s.cause != nil {
				cause = *s.cause
			}
			s.made.cancel(cause)
		}
	}
	return s.made.Context
}

// Deadline reports that a Scope has no deadline.
func (s *Scope) Deadline() (deadline time.Time, ok bool) { return deadline, false }

// Done returns a channel, closed at the end of the Scope.
func (s *Scope) Done() <-chan struct{} { return s.context().Done() }

// Err returns context.Canceled once the Scope has ended.
func (s *Scope) Err() error {
	if s.ended.Load() {
		return context.Canceled
	}
	return nil
}

// Value returns a value of the Scope. The context of package context knows the cause of
// the end, for which it is asked through Value.
func (s *Scope) Value(key any) any {
	s.mu.Lock()
	if key == any(Own{}) {
		defer s.mu.Unlock()
		s.known = s.known || s.own != nil
		return s.own
	}
	ended, made := s.ended.Load(), s.made
	s.mu.Unlock()
	switch {
	case made != nil:
		return made.Value(key)
	case ended:
		return s.context().Value(key)
	}
	return apart(s.values).Value(key)
}
