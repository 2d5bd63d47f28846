package lab

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/strata-cache/strata"
)

// WantFound checks that a Get finds want.
func WantFound(t *testing.T, c *strata.Cache[string, int64], want int64, opts ...strata.CallOption) {
	t.Helper()
	if v, ok := c.Get(t.Context(), "k", opts...); !ok || v != want {
		t.Errorf("Get: %d, %v; want %d", v, ok, want)
	}
}

// WantNotFound checks that a Get finds nothing.
func WantNotFound(t *testing.T, c *strata.Cache[string, int64], opts ...strata.CallOption) {
	t.Helper()
	if v, ok := c.Get(t.Context(), "k", opts...); ok {
		t.Errorf("Get found %d", v)
	}
}

// Forever makes a cache keep its entries until they are dropped or evicted.
func Forever[K comparable, V any](o *strata.Options[K, V]) { o.TTL = strata.NoExpiry }

// Remembering makes a cache remember failures, for a second at first.
func Remembering(o *strata.Options[string, int64]) { o.ErrorTTL = time.Second }

// Defaults of the Options: failures in a row that open a breaker, how long it stays open,
// and how long an operation of L2 may take.
const (
	BreakAfter    = 5
	BreakFor      = 5 * time.Second
	RemoteTimeout = 100 * time.Millisecond
)

// ExitGoroutine ends the goroutine, as testing.T.FailNow does. It is a function because
// vet takes code after a plain Goexit for unreachable.
func ExitGoroutine() { runtime.Goexit() }

// SourceOf is i without its times and without the error that the value replaces. The
// rest describes the source of the value.
func SourceOf(i strata.Info) strata.Info {
	i.Age, i.TTL, i.Err = 0, 0, nil
	return i
}

// Windows sets for how long stale values may be served.
func Windows(revalidate, onError time.Duration) func(*strata.Options[string, int64]) {
	return func(o *strata.Options[string, int64]) {
		o.Stale = strata.Stale{WhileRevalidate: revalidate, OnError: onError}
	}
}

// GetTakes calls GetOrLoad and says how long it took.
func GetTakes(t *testing.T, c *strata.Cache[string, int64], load strata.Loader[string, int64], want int64) time.Duration {
	t.Helper()
	start := time.Now()
	if v := MustGet(t, c, "k", load); v != want {
		t.Errorf("got %d, want %d", v, want)
	}
	return time.Since(start)
}

// Negatives makes a cache keep negative entries for 20 seconds.
func Negatives(o *strata.Options[string, int64]) { o.NotFoundTTL = 20 * time.Second }

// DefaultLives gives a cache the lives that Options have by default.
func DefaultLives(o *strata.Options[string, int64]) {
	o.Jitter, o.RefreshAt, o.NotFoundTTL, o.ErrorTTL, o.Stale = 0, 0, 0, 0, strata.Stale{}
}

// ManyKeys are n names of keys.
func ManyKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	return keys
}

// MissALot makes 200 misses, so that the cache expects L2 to have no values.
func MissALot(t *testing.T, c *strata.Cache[string, int64]) {
	t.Helper()
	for i := range 200 {
		MustGet(t, c, fmt.Sprint("cold", i), (&Origin{}).Load)
	}
}

// NewCache returns a cache with a TTL of one minute, no jitter and no L2,
// changed by change. It is closed at the end of the test.
func NewCache[K comparable, V any](t *testing.T, change ...func(*strata.Options[K, V])) *strata.Cache[K, V] {
	t.Helper()
	// Jitter and windows are off, for the sake of exact times. Tests about them set them.
	o := strata.Options[K, V]{
		Name: "test", TTL: time.Minute, Jitter: -1, RefreshAt: -1, NotFoundTTL: -1, ErrorTTL: -1,
		Stale: strata.Stale{WhileRevalidate: -1, OnError: time.Hour},
	}
	for _, f := range change {
		f(&o)
	}
	c := newEncoded(o)
	if c == nil {
		var err error
		if c, err = strata.New(o); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// MustGet returns the value that GetOrLoad of key brings, and fails the test on an error.
func MustGet(t *testing.T, c *strata.Cache[string, int64], key string, load strata.Loader[string, int64]) int64 {
	t.Helper()
	v, err := c.GetOrLoad(t.Context(), key, load)
	if err != nil {
		t.Errorf("GetOrLoad(%q): %v", key, err)
	}
	return v
}

// WantHeld fails the test unless Get of k brings v.
func WantHeld(t *testing.T, who string, c *strata.Cache[string, int64], v int64) {
	t.Helper()
	if got, ok := c.Get(t.Context(), "k"); got != v || !ok {
		t.Errorf("%s has %d, %v; want %d", who, got, ok, v)
	}
}

// WantAbsent fails the test if Get of k brings anything.
func WantAbsent[V any](t *testing.T, who string, c *strata.Cache[string, V]) {
	t.Helper()
	if got, ok := c.Get(t.Context(), "k"); ok {
		t.Errorf("%s has %v; want nothing", who, got)
	}
}

// Must ends the test on an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Tune changes the options of c, and ends the test on an error.
func Tune(t *testing.T, c *strata.Cache[string, int64], change strata.Tuning) {
	t.Helper()
	if err := c.Tune(change); err != nil {
		t.Fatal(err)
	}
}
