package kit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// Within is a context with a deadline.
func Within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Hurry calls f with a context that ends at some time, before or after f usually does.
func Hurry(ctx context.Context, rng *rand.Rand, usual time.Duration, f func(context.Context) error) error {
	left := time.Duration(rng.Int64N(int64(usual))) + 1
	cancel := context.CancelFunc(func() {})
	switch rng.IntN(4) {
	case 0:
		ctx, cancel = context.WithTimeout(ctx, left)
	case 1:
		ctx, cancel = context.WithCancel(ctx)
		defer time.AfterFunc(left, cancel).Stop()
	case 2:
		ctx, cancel = context.WithTimeout(ctx, 2*left)
		defer time.AfterFunc(left, cancel).Stop()
	}
	defer cancel()
	return f(ctx)
}

// Haltingly answers after some time, and sometimes stops in the middle. out are the bytes for
// the other end, which flush sends.
func Haltingly(out *[]byte, flush func(), rng *rand.Rand, slow time.Duration, answer func()) {
	nap := func() { time.Sleep(time.Duration(rng.Int64N(int64(slow)))) } // in the bubble
	nap()
	before := len(*out)
	answer()
	if n := len(*out) - before; rng.IntN(3) == 0 && n > 1 {
		cut := before + 1 + rng.IntN(n-1)
		rest := string((*out)[cut:])
		*out = (*out)[:cut]
		flush()
		nap()
		*out = append(*out, rest...)
	}
}

// Worth is the value of a key: it names it. Some are large, and go a way of their own.
func Worth(key string) string {
	n := 0
	for _, c := range key {
		n += int(c)
	}
	if n%40 == 0 {
		n *= 20
	}
	return strings.Repeat(key, 1+n%500)
}

// HasWorth returns err, or an error if a read without one got the value of another key.
func HasWorth(key, got string, err error) error {
	if err == nil && got != Worth(key) {
		return fmt.Errorf("%s got %.40q", key, got)
	}
	return err
}
