package strata_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/memory"
)

// One guard makes all caches of a process smaller while the heap is too large.
func ExampleMemory_guard() {
	ctx := context.Background()
	guard, err := memory.NewGuard(memory.GuardOptions{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer guard.Close()

	users, err := strata.New(strata.Options[string, string]{
		TTL:    time.Hour,
		Memory: strata.Memory[string, string]{MaxEntries: 10_000_000, Guard: guard},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)
	prices, err := strata.New(strata.Options[string, int]{
		TTL:    time.Minute,
		Memory: strata.Memory[string, int]{MaxEntries: 1_000_000, Guard: guard.Floor(1000)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer prices.Close(ctx)

	_ = users.Set(ctx, "ada", "Ada")
	_ = prices.Set(ctx, "tea", 3)
	s := guard.Stats()
	fmt.Println(s.Evicted, "evicted, exhausted:", s.Exhausted)
	// Output: 0 evicted, exhausted: false
}
