package strata_test

import (
	"context"
	"testing"
	"time"

	"github.com/strata-cache/strata"
)

// holding returns a cache that holds 1 for key.
func holding(t *testing.T, key string) *strata.Cache[string, int64] {
	t.Helper()
	c, err := strata.New(strata.Options[string, int64]{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	if err := c.Set(t.Context(), key, 1); err != nil {
		t.Fatal(err)
	}
	return c
}

// untouchable is a context that must not be looked at.
type untouchable struct{ t *testing.T }

func (u untouchable) Deadline() (time.Time, bool) { u.t.Error("Deadline"); return time.Time{}, false }
func (u untouchable) Done() <-chan struct{}       { u.t.Error("Done"); return nil }
func (u untouchable) Err() error                  { u.t.Error("Err"); return context.Canceled }
func (u untouchable) Value(any) any               { u.t.Error("Value"); return nil }

func TestHitDoesNotTouchTheContext(t *testing.T) {
	c := holding(t, "k")
	if v, err := c.GetOrLoad(untouchable{t}, "k", plainLoad); v != 1 || err != nil {
		t.Errorf("got %d, %v", v, err)
	}
	if v, ok := c.Get(untouchable{t}, "k"); v != 1 || !ok {
		t.Errorf("got %d, %v", v, ok)
	}
}
