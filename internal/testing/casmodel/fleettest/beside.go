package fleettest

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// beside has one thing done twice at a time, and another one.
func beside(t *testing.T, f Fleet) {
	var running, done atomic.Int64
	end := make(chan struct{})
	for _, what := range []int{1, 1, 2} {
		f.Beside(what, func(ctx context.Context) {
			running.Add(1)
			<-end
			if ctx.Err() == nil {
				done.Add(1)
			}
		})
	}
	synctest.Wait()
	if n := running.Load(); n != 2 {
		t.Errorf("%d run", n)
	}
	close(end)
	synctest.Wait()
	f.Beside(1, func(context.Context) { done.Add(1) })
	synctest.Wait()
	if n := done.Load(); n != 3 {
		t.Errorf("%d have ended", n)
	}
}
