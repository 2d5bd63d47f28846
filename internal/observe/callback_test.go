package observe

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// stuck returns a function that does not return before the end of the test.
func stuck(t *testing.T) func() {
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	return func() { <-end }
}

func TestCallerHasTheResultOfAFunctionThatReturns(t *testing.T) {
	r := NewRunner()
	for range 1000 {
		n := 0
		if !r.Run(t.Context(), func() { n++ }) || n != 1 {
			t.Fatalf("ran %d times", n)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if n := 0; !r.Run(ended, func() { n++ }) || n != 1 {
		t.Errorf("a context that has ended before: ran %d times", n)
	}
	if r.late.Load() != 0 || r.dropped.Load() != 0 {
		t.Errorf("%d late, %d dropped", r.late.Load(), r.dropped.Load())
	}
}

func TestFunctionsThatDoNotReturnCostCallersABoundedTimeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f, begun := NewRunner(), stuck(t), time.Now()
		for range 10_000 {
			if r.Run(context.Background(), f) {
				t.Fatal("a function that does not return has ended")
			}
		}
		if took := time.Since(begun); took < Patience || took > 7*Patience {
			t.Errorf("callers have lost %v", took)
		}
		if l, d := r.late.Load(), r.dropped.Load(); l != mostRunning || l+d != 10_000 {
			t.Errorf("%d late, %d dropped", l, d)
		}
	})
}

func TestCallerLeavesWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f, begun := NewRunner(), stuck(t), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), Patience/5)
		defer cancel()
		if r.Run(ctx, f) || time.Since(begun) != Patience/5+grace {
			t.Errorf("returned after %v", time.Since(begun))
		}
	})
}

// TestOrdinaryUseDropsNothing has more callers at once than places, of functions that take a moment.
func TestOrdinaryUseDropsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		var all sync.WaitGroup
		r := NewRunner()
		for range 10 * mostRunning {
			all.Go(func() {
				r.Run(context.Background(), func() { time.Sleep(time.Millisecond); n.Add(1) })
			})
		}
		all.Wait()
		if n.Load() != 10*mostRunning || r.dropped.Load() != 0 || r.late.Load() != 0 {
			t.Errorf("%d ran, %d dropped, %d late", n.Load(), r.dropped.Load(), r.late.Load())
		}
	})
}

func TestFunctionWithinItselfEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, depth, begun := NewRunner(), 0, time.Now()
		var f func()
		f = func() {
			depth++
			r.Run(context.Background(), f)
		}
		r.Run(context.Background(), f)
		if depth != deepest || r.dropped.Load() != 1 || time.Since(begun) != 0 {
			t.Errorf("depth %d, %d dropped, after %v", depth, r.dropped.Load(), time.Since(begun))
		}
	})
}

// TestFunctionsThatWaitForEachOtherEnd hides from a function that it runs within another one, as a load
// on a goroutine of its own does.
func TestFunctionsThatWaitForEachOtherEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := NewRunner(), time.Now()
		var depth atomic.Int64
		var f func()
		f = func() {
			depth.Add(1)
			var other sync.WaitGroup
			other.Go(func() { r.Run(context.Background(), f) })
			other.Wait()
		}
		r.Run(context.Background(), f)
		if depth.Load() != mostRunning || r.dropped.Load() != 1 || time.Since(begun) != placeWait {
			t.Errorf("depth %d, %d dropped, after %v", depth.Load(), r.dropped.Load(), time.Since(begun))
		}
	})
}

func TestPanicAndExitEndTheFunctionOnly(t *testing.T) {
	r := NewRunner()
	if !r.Run(t.Context(), func() { panic("no") }) || !r.Run(t.Context(), runtime.Goexit) || r.panics.Load() != 1 {
		t.Errorf("%d panics", r.panics.Load())
	}
	if len(r.places) != 0 {
		t.Errorf("%d places are taken", len(r.places))
	}
}

func TestWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, begun := NewRunners(true), time.Now()
		wait := func(ctx context.Context, want time.Duration) {
			t.Helper()
			begun = time.Now()
			if all.Wait(ctx, time.Second); time.Since(begun) != want {
				t.Errorf("waited for %v, want %v", time.Since(begun), want)
			}
		}
		wait(t.Context(), 0)
		end := make(chan struct{})
		all.Log.Run(t.Context(), func() { <-end })
		wait(t.Context(), time.Second)
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		wait(short, time.Millisecond)
		time.AfterFunc(10*time.Millisecond, func() { close(end) })
		wait(t.Context(), 10*time.Millisecond)
		wait(t.Context(), 0)
		if all.Late() != 1 || all.Dropped() != 0 || all.Panics() != 0 {
			t.Errorf("%d late, %d dropped, %d panics", all.Late(), all.Dropped(), all.Panics())
		}
	})
}

func TestLinesComeToTheNextHandlerBeforeTheCallGoesOn(t *testing.T) {
	var out strings.Builder
	r := NewRunner()
	log := slog.New(r.Handler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))
	log.With("a", 1).WithGroup("g").Warn("text", "b", 2)
	log.Info("not wanted")
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "msg=text a=1 g.b=2\n") {
		t.Errorf("got %q", got)
	}
	if r.Handler(slog.DiscardHandler) != slog.DiscardHandler {
		t.Error("lines that nobody wants take a goroutine")
	}
	slog.New(r.Handler(bad{})).Error("text")
	if r.panics.Load() != 1 {
		t.Errorf("%d panics of a handler", r.panics.Load())
	}
}

// bad is a handler that panics.
type bad struct{ slog.Handler }

func (bad) Enabled(context.Context, slog.Level) bool { panic("no") }

func BenchmarkRun(b *testing.B) {
	r, ctx := NewRunner(), b.Context()
	f := func() {}
	b.ReportAllocs()
	for b.Loop() {
		r.Run(ctx, f)
	}
}
