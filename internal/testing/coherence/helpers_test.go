package coherence_test

import (
	"context"
	"runtime"
	"time"

	"github.com/strata-cache/strata"
)

// Defaults of the Options.
const (
	breakAfter    = 5
	breakFor      = 5 * time.Second
	remoteTimeout = 100 * time.Millisecond
)

func plainLoad(context.Context, string) (int64, error) { return 1, nil }

func noKeys(context.Context, []string) (map[string]int64, error) { return nil, nil }

// exitGoroutine is what testing.T.FailNow does, in words that vet does not
// take for unreachable code.
func exitGoroutine() { runtime.Goexit() }

// source is what i says of the source of a value, without its times and the error that
// it replaces.
func source(i strata.Info) strata.Info {
	i.Age, i.TTL, i.Err = 0, 0, nil
	return i
}
