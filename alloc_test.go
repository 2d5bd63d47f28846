//go:build !race

package strata_test

import (
	"context"
	"testing"
)

func TestHitAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	c := holding(t, "k")
	for name, get := range map[string]func(){
		"GetOrLoad": func() { c.GetOrLoad(ctx, "k", plainLoad) },
		"Get":       func() { c.Get(ctx, "k") },
	} {
		if n := testing.AllocsPerRun(1000, get); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}
