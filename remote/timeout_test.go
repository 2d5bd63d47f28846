package remote_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/remote"
)

func TestTimeoutEndsTheContextOnceDoneIsCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := remote.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if ctx.Err() != nil {
			t.Errorf("over at once: %v", ctx.Err())
		}
		child, cancelChild := context.WithCancel(ctx)
		defer cancelChild()
		start := time.Now()
		<-child.Done()
		if took := time.Since(start); took != time.Second || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("ended after %v with %v", took, ctx.Err())
		}
		<-ctx.Done()
	})
}

func TestTimeoutIsSeenWithoutAskingForDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := remote.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.Sleep(time.Second)
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("Err: %v", ctx.Err())
		}
	})
}

func TestTimeoutEndsWithItsParent(t *testing.T) {
	for _, ask := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			parent, end := context.WithCancel(t.Context())
			ctx, cancel := remote.WithTimeout(parent, time.Hour)
			defer cancel()
			if ask {
				ctx.Done()
			}
			end()
			synctest.Wait()
			if !errors.Is(ctx.Err(), context.Canceled) {
				t.Errorf("asked %v: Err %v", ask, ctx.Err())
			}
		})
	}
}

func TestEarlierDeadlineOfTheParentCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		ctx, cancel := remote.WithTimeout(parent, time.Hour)
		defer cancel()
		if d, ok := ctx.Deadline(); !ok || time.Until(d) != time.Second {
			t.Errorf("deadline in %v, %v; want 1s", time.Until(d), ok)
		}
		caller, d := remote.Split(ctx)
		if caller != parent || time.Until(d) != time.Second {
			t.Errorf("Split: %v, %v", caller, time.Until(d))
		}
	})
}

func TestValuesAreTheParents(t *testing.T) {
	type key struct{}
	parent := context.WithValue(t.Context(), key{}, 1)
	ctx, cancel := remote.WithTimeout(parent, time.Hour)
	defer cancel()
	before := ctx.Value(key{})
	ctx.Done()
	if before != 1 || ctx.Value(key{}) != 1 {
		t.Errorf("values %v, %v; want 1, 1", before, ctx.Value(key{}))
	}
	if _, d := remote.Split(context.Background()); !d.IsZero() {
		t.Errorf("Background has the deadline %v", d)
	}
}

func BenchmarkTimeout(b *testing.B) {
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.Run("remote", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, cancel := remote.WithTimeout(parent, time.Second)
			cancel()
		}
	})
	b.Run("context", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, cancel := context.WithTimeout(parent, time.Second)
			cancel()
		}
	})
}
