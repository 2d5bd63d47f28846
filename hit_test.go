package strata_test

import (
	"context"
	"testing"
	"time"
)

// untouchable is a context that must not be looked at.
type untouchable struct{ t *testing.T }

func (u untouchable) Deadline() (time.Time, bool) { u.t.Error("Deadline"); return time.Time{}, false }
func (u untouchable) Done() <-chan struct{}       { u.t.Error("Done"); return nil }
func (u untouchable) Err() error                  { u.t.Error("Err"); return context.Canceled }
func (u untouchable) Value(any) any               { u.t.Error("Value"); return nil }

func TestHitDoesNotTouchTheContext(t *testing.T) {
	c := newCache[string, int64](t)
	if err := c.Set(t.Context(), "k", 1); err != nil {
		t.Fatal(err)
	}
	if v, err := c.GetOrLoad(untouchable{t}, "k", plainLoad); v != 1 || err != nil {
		t.Errorf("got %d, %v", v, err)
	}
	if v, ok := c.Get(untouchable{t}, "k"); v != 1 || !ok {
		t.Errorf("got %d, %v", v, ok)
	}
}
