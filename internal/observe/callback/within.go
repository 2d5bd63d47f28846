package callback

import (
	"context"
	"runtime"
)

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
	if n := level(); n > levelOf(ctx) {
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
		n = max(n, level())
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

// level returns the number of frames of nest in the stack of this goroutine, and no more than deepest.
func level() (n int) {
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
