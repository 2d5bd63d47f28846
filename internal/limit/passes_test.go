package limit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/limit"
)

func TestPassServesABurstOfEventsAndTakesItsShareOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var passes []time.Duration
		p := limit.NewPasses(func() {
			passes = append(passes, time.Since(begun))
			time.Sleep(10 * time.Millisecond)
		})
		ctx, end := context.WithCancel(t.Context())
		for range 100 {
			p.Wake(ctx)
		}
		time.Sleep(99 * time.Millisecond)
		if synctest.Wait(); len(passes) > 0 {
			t.Errorf("a pass began after %v", passes[0])
		}
		time.Sleep(5 * time.Millisecond)
		p.Wake(ctx) // during the pass
		time.Sleep(5 * time.Second)
		// The second one waits for 50 times as long as the first has run.
		if len(passes) != 2 || passes[0] != 100*time.Millisecond || passes[1] != 610*time.Millisecond {
			t.Errorf("passes began after %v", passes)
		}
		p.Wake(ctx)
		end()
		p.Close()
		p.Wake(ctx)
		time.Sleep(time.Second)
		if len(passes) != 2 {
			t.Errorf("after the end: passes began after %v", passes)
		}
	})
}
