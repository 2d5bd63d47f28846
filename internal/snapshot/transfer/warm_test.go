package transfer_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/transfer"
)

// cache has an even key already, and cannot use key 1. It notes the batches that it is asked for.
type cache struct {
	room    int
	batches [][]int
	at      []time.Duration
	begun   time.Time
	silent  error
}

func (c *cache) Err(ctx context.Context) error { return ctx.Err() }
func (c *cache) Room(int) int                  { return min(c.room, 500) }
func (c *cache) Has(key int) bool              { return key%2 == 0 }
func (c *cache) Usable(key int) bool           { return key != 1 }

func (c *cache) LookUp(_ context.Context, keys []int, so *transfer.Warmed) error {
	c.batches, c.at = append(c.batches, keys), append(c.at, time.Since(c.begun))
	if c.silent != nil {
		return c.silent
	}
	so.Found += len(keys)
	c.room -= len(keys)
	return nil
}

func count(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

func TestWarmingKeepsItsRateAndEndsWhenTheCacheIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cache{room: 1000, begun: time.Now()}
		w := transfer.Warming[int]{Cache: c, PerSecond: 100}
		so, err := w.Run(t.Context(), count(40))
		// Ten keys are a batch: five of them are asked for, of the first batch four.
		want := []time.Duration{0, 40 * time.Millisecond, 90 * time.Millisecond, 140 * time.Millisecond}
		if err != nil || so != (transfer.Warmed{Keys: 40, Present: 20, Found: 19, Absent: 1}) || !slices.Equal(c.at, want) {
			t.Errorf("%+v, %v, at %v", so, err, c.at)
		}
		c = &cache{room: 30}
		w = transfer.Warming[int]{Cache: c}
		if so, err = w.Run(t.Context(), count(10_000)); err != nil || c.room != 0 || so.Keys > 100 {
			t.Errorf("%+v, %v; there is room for %d", so, err, c.room)
		}
	})
}

func TestWarmingEndsAfterThreeBatchesInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cache{room: 1000, begun: time.Now(), silent: errors.New("silent")}
		w := transfer.Warming[int]{Cache: c}
		so, err := w.Run(t.Context(), count(10_000))
		if !errors.Is(err, c.silent) || so.Keys != 1500 || so.Found != 0 || !slices.Equal(c.at, []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond}) {
			t.Errorf("%+v, %v, at %v", so, err, c.at)
		}
	})
}
