//go:build !race

package strata_test

import (
	"context"
	"testing"
)

func TestHitAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	c := newCache[string, int64](t)
	if err := c.Set(ctx, "k", 1); err != nil {
		t.Fatal(err)
	}
	for name, get := range map[string]func(){
		"GetOrLoad": func() { c.GetOrLoad(ctx, "k", plainLoad) },
		"Get":       func() { c.Get(ctx, "k") },
	} {
		if n := testing.AllocsPerRun(1000, get); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}
