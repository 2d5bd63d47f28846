package limit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/limit"
)

func TestPassServesABurstOfEventsAndTakesItsShareOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, passes := time.Now(), make(chan time.Duration, 9)
		p := limit.NewPasses(func() {
			passes <- time.Since(begun)
			time.Sleep(10 * time.Millisecond)
		})
		ctx, end := context.WithCancel(t.Context())
		for range 100 {
			p.Wake(ctx)
		}
		if first := <-passes; first != 100*time.Millisecond {
			t.Errorf("the first pass began after %v", first)
		}
		p.Wake(ctx) // during the pass
		// The second one waits for 50 times as long as the first has run.
		if second := <-passes; second != 610*time.Millisecond {
			t.Errorf("the second pass began after %v", second)
		}
		time.Sleep(5 * time.Second)
		p.Wake(ctx)
		end()
		p.Close()
		p.Wake(ctx)
		time.Sleep(time.Second)
		if len(passes) > 0 {
			t.Errorf("a pass began after %v", <-passes)
		}
	})
}
