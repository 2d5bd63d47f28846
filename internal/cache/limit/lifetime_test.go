package limit_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/limit"
)

type otherKey struct{}

var errCause = errors.New("cause")

// cut is work that counts how often it is cut short.
type cut struct{ times atomic.Int32 }

func (c *cut) CutShort() { c.times.Add(1) }

func newScope(ctx context.Context) *limit.Scope {
	s := new(limit.Scope)
	s.Begin(ctx, "value")
	return s
}

// newDeadlines returns the ends of Bounds that may take a minute by clock.
func newDeadlines() *limit.Deadlines {
	return limit.NewDeadlines(time.Minute, errCause, clock)
}

// clock shows the nanoseconds since 1970.
func clock() int64 { return time.Now().UnixNano() }

func TestScopeEndsWithItsOwnerAndNotWithItsCaller(t *testing.T) {
	for _, made := range []bool{true, false} {
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), otherKey{}, 1))
		s := newScope(ctx)
		if made {
			s.Done()
		}
		cancel(errors.New("the caller has left"))
		if s.Err() != nil || context.Cause(s) != nil || s.Value(limit.Own{}) != "value" || s.Value(otherKey{}) != 1 {
			t.Errorf("made %v: %v, %v, %v, %v while it runs", made, s.Err(), context.Cause(s), s.Value(limit.Own{}), s.Value(otherKey{}))
		}
		s.End(errCause)
		s.End(errors.New("a second end"))
		if !s.Finish() {
			t.Errorf("made %v: the owner's value is said to be unknown, after it was read", made)
		}
		if s.Err() != context.Canceled || context.Cause(s) != errCause || s.Value(limit.Own{}) != "value" {
			t.Errorf("made %v: %v, %v, %v after its end", made, s.Err(), context.Cause(s), s.Value(limit.Own{}))
		}
		<-s.Done()
	}
}

// TestScopeForgetsAValueOfItsOwnerThatNobodyKnows checks the result of Finish, by which the owner
// knows whether it may use its value for something else.
func TestScopeForgetsAValueOfItsOwnerThatNobodyKnows(t *testing.T) {
	s := newScope(context.WithValue(t.Context(), otherKey{}, 1))
	if s.Value(otherKey{}) != 1 || s.Finish() || s.Value(limit.Own{}) != nil || s.Finish() {
		t.Error("a value that was not asked for is said to be known, or is still there")
	}
	if s.Value(otherKey{}) != 1 || s.Err() != context.Canceled {
		t.Errorf("%v, %v after the work", s.Value(otherKey{}), s.Err())
	}
}

func TestContextsInsideOfAScopeEndWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScope(t.Context())
		child, cancel := context.WithTimeout(s, time.Minute)
		defer cancel()
		ran := make(chan struct{})
		context.AfterFunc(s, func() { close(ran) })
		s.End(errCause)
		<-ran
		if child.Err() != context.Canceled || context.Cause(child) != errCause {
			t.Errorf("%v, %v", child.Err(), context.Cause(child))
		}
	})
}

func TestBoundThatIsNotDoneInTimeIsCutShortOnce(t *testing.T) {
	for name, asks := range map[string]bool{"work that asks for its end": true, "work that does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDeadlines()
				defer d.Close()
				var b limit.Bound
				var w cut
				begun := time.Now()
				b.Begin(newScope(t.Context()), &w, d, clock())
				if end, ok := b.Deadline(); !ok || end.Sub(begun) != time.Minute {
					t.Errorf("deadline after %v, %v", end.Sub(begun), ok)
				}
				if asks {
					b.Done()
				}
				time.Sleep(time.Minute - 1)
				if synctest.Wait(); w.times.Load() != 0 || b.Err() != nil {
					t.Errorf("%d times before its end; %v", w.times.Load(), b.Err())
				}
				time.Sleep(1)
				if synctest.Wait(); w.times.Load() != 1 || b.Err() != context.DeadlineExceeded || context.Cause(&b) != errCause {
					t.Errorf("%d times at its end; %v, %v", w.times.Load(), b.Err(), context.Cause(&b))
				}
				if b.InTime() {
					t.Error("in time after its end")
				}
				b.End()
			})
		})
	}
}

func TestBoundEndsWithItsScope(t *testing.T) {
	for name, asks := range map[string]bool{"work that asks for its end": true, "work that does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScope(t.Context())
				var b limit.Bound
				var w cut
				b.Begin(s, &w, nil, 0)
				if asks {
					b.Done()
				}
				why := errors.New("why")
				s.End(why)
				synctest.Wait()
				if b.InTime() || w.times.Load() != 1 || b.Err() != context.Canceled || context.Cause(&b) != why {
					t.Errorf("%d times; %v, %v", w.times.Load(), b.Err(), context.Cause(&b))
				}
				var late limit.Bound
				late.Begin(s, &w, nil, 0)
				if late.InTime() || late.Err() == nil {
					t.Error("work that begins after the end of its Scope is in time")
				}
			})
		})
	}
}

func TestBoundThatIsDoneInTimeIsNotCutShort(t *testing.T) {
	for name, asks := range map[string]bool{"work that asks for its end": true, "work that does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDeadlines()
				defer d.Close()
				s := newScope(t.Context())
				var b limit.Bound
				var w cut
				b.Begin(s, &w, d, clock())
				if asks {
					b.Done()
				}
				time.Sleep(time.Minute - 1)
				if !b.InTime() || b.Err() != nil {
					t.Error("not in time, or ended before its work was")
				}
				b.End()
				time.Sleep(time.Hour)
				s.End(errCause)
				synctest.Wait()
				if <-b.Done(); w.times.Load() != 0 || b.Err() != context.Canceled {
					t.Errorf("%d times; %v", w.times.Load(), b.Err())
				}
			})
		})
	}
}

// TestDeadlinesEndEachBoundAtItsTime lets Bounds begin one after the other, and some
// of them return before their ends.
func TestDeadlinesEndEachBoundAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bounds = 100
		d := newDeadlines()
		defer d.Close()
		works, all := make([]cut, bounds), make([]limit.Bound, bounds)
		for i := range all {
			all[i].Begin(newScope(t.Context()), &works[i], d, clock())
			time.Sleep(time.Second)
		}
		for i := range all {
			if i%3 == 0 && all[i].InTime() {
				all[i].End()
			}
		}
		for i := range 2 * bounds {
			synctest.Wait()
			now := bounds + i // seconds
			for j := range all {
				want := int32(0)
				if now >= j+60 && (j%3 != 0 || j+60 <= bounds) {
					want = 1
				}
				if got := works[j].times.Load(); got != want {
					t.Fatalf("after %d s the work %d was cut short %d times, want %d", now, j, got, want)
				}
			}
			time.Sleep(time.Second)
		}
	})
}

func TestTimeOfCenturiesIsNotOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := limit.NewDeadlines(math.MaxInt64, errCause, clock)
		defer d.Close()
		var b limit.Bound
		var w cut
		b.Begin(newScope(t.Context()), &w, d, clock())
		defer b.End()
		b.Done()
		synctest.Wait()
		if end, ok := b.Deadline(); !ok || time.Until(end) < 100*365*24*time.Hour || b.Err() != nil || !b.InTime() || w.times.Load() != 0 {
			t.Errorf("ends at %v, %v; cut short %d times", end, b.Err(), w.times.Load())
		}
	})
}
