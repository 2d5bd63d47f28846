package loads_test

import (
	"context"
	"sync"
	"testing"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

type kept struct{}

// TestContextThatALoaderKeepsStaysItsOwn lets goroutines of Loaders look at their
// contexts while other loads use the memory of the flights again.
func TestContextThatALoaderKeepsStaysItsOwn(t *testing.T) {
	c := lab.NewCache[int, int](t)
	const loads = 300
	var all sync.WaitGroup
	for i := range loads {
		ctx := context.WithValue(t.Context(), kept{}, i)
		load := func(ctx context.Context, _ int) (int, error) {
			inner := strata.Loading(ctx)
			all.Go(func() {
				<-ctx.Done()
				inner.SetTTL(0)
				strata.Loading(ctx).NoStore()
				if ctx.Err() != context.Canceled || ctx.Value(kept{}) != i {
					t.Errorf("%v, %v, want those of load %d", ctx.Err(), ctx.Value(kept{}), i)
				}
				v, err := c.GetOrLoad(ctx, -1-i, plain)
				if err != context.Canceled || v != 0 {
					t.Errorf("a load with an ended context: %d, %v", v, err)
				}
			})
			return i, nil
		}
		if v, err := c.GetOrLoad(ctx, i, load); v != i || err != nil {
			t.Errorf("load %d: %d, %v", i, v, err)
		}
	}
	all.Wait()
	for i := range loads {
		if v, ok := c.Get(t.Context(), i); v != i || !ok {
			t.Errorf("key %d: %d, %v", i, v, ok)
		}
	}
}

func plain(_ context.Context, key int) (int, error) { return key, nil }
