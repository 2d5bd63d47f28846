package coherence_test

import (
	"context"
	"runtime"
)

func plainLoad(context.Context, string) (int64, error) { return 1, nil }

func noKeys(context.Context, []string) (map[string]int64, error) { return nil, nil }

// exitGoroutine is what testing.T.FailNow does, in words that vet does not
// take for unreachable code.
func exitGoroutine() { runtime.Goexit() }
