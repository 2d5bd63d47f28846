package strata_test

import (
	"context"
	"strconv"
	"strings"
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

// TestHitKeepsToOptionsThatConcernIt: options for loads spare hits the way through all options, others do not.
func TestHitKeepsToOptionsThatConcernIt(t *testing.T) {
	ctx := t.Context()
	c := holding(t, "k")
	two := func(context.Context, string) (int64, error) { return 2, nil }
	var info strata.Info
	if v, err := c.GetOrLoad(ctx, "k", two, strata.WithTTL(time.Second), strata.ReadInfo(&info)); v != 1 || err != nil || info.Tier != "L1" {
		t.Errorf("ReadInfo: %d, %v, %+v", v, err, info)
	}
	for name, o := range map[string][]strata.CallOption{
		"a tag of 513 bytes":   {strata.WithTags("good", strings.Repeat("t", 513))},
		"65 tags in two calls": {strata.WithTags(numbers(0, 40)...), strata.WithTags(numbers(40, 65)...)},
	} {
		if v, err := c.GetOrLoad(ctx, "k", two, o...); err == nil {
			t.Errorf("%s: %d, want an error", name, v)
		}
	}
	if v, err := c.GetOrLoad(ctx, "k", two, strata.WithTags("good"), strata.NoRemote(), strata.CallOption{}); v != 1 || err != nil {
		t.Errorf("options for loads: %d, %v", v, err)
	}
	if v, err := c.GetOrLoad(ctx, "k", two, strata.NoMemory()); v != 2 || err != nil {
		t.Errorf("NoMemory: %d, %v, want a load", v, err)
	}
	if err := c.Set(ctx, "k", 1); err != nil {
		t.Fatal(err)
	}
	if v, err := c.GetOrLoad(ctx, "k", two, strata.WithTTL(time.Minute), strata.SkipRead()); v != 2 || err != nil {
		t.Errorf("SkipRead: %d, %v, want a load", v, err)
	}
}

func numbers(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, strconv.Itoa(i))
	}
	return all
}

func TestTagsAreCopiedWhenTheCallBegins(t *testing.T) {
	ctx := t.Context()
	c := holding(t, "k")
	tags := []string{"first"}
	o := strata.WithTags(tags...)
	if err := c.Set(ctx, "k", 1, o); err != nil {
		t.Fatal(err)
	}
	tags[0] = "second"
	if err := c.InvalidateTags(ctx, "second"); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Get(ctx, "k"); !ok {
		t.Error("the entry has a tag that was named later")
	}
	if err := c.InvalidateTags(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Get(ctx, "k"); ok {
		t.Error("the entry has lost its tag")
	}
}
