package lab

import (
	"flag"
	"testing"

	"github.com/strata-cache/strata"
)

// encoded runs the tests of a package with encoded values in L1.
var encoded = flag.Bool("encoded", false, "the caches of the tests have an encoded L1 where their options admit one") // read-only

// Encoded reports whether caches have an encoded L1 where their options admit one.
func Encoded() bool { return *encoded }

// Plain skips a test that an encoded L1 cannot pass, because of why.
func Plain(t *testing.T, why string) {
	t.Helper()
	if *encoded {
		t.Skip("an encoded L1: " + why)
	}
}

// newEncoded returns a cache with an encoded L1; nil if the options or the types do not admit one.
func newEncoded[K comparable, V any](o strata.Options[K, V]) *strata.Cache[K, V] {
	if m := &o.Memory; !*encoded || m.MaxEntries != 0 || m.MaxWeight != 0 || m.Weigh != nil {
		return nil
	}
	o.Memory.Encoded = true
	c, err := strata.New(o)
	if err != nil {
		return nil
	}
	return c
}
