// Package checks holds the checks of stratatest.TestBus, TestCodec and TestStore.
package checks

import "testing"

// Check is one promise of a bus, a store or a tier, which a fixture F holds.
type Check[F any] struct {
	// Name is the promise.
	Name string
	// Run fails t if the promise is not kept, and skips it if the implementation lacks the
	// ability.
	Run func(t testing.TB, f F)
}
