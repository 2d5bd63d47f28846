package kit

import "testing"

// Rounds returns n, or a quarter of it with -short, and at least 1. It is the number of
// rounds, seeds or combinations of a test that finds most faults in its first ones: `make
// test` runs a quarter, `make whole` all.
func Rounds(n int) int {
	if testing.Short() {
		return max(1, n/4)
	}
	return n
}

// Alone skips a test of one goroutine in a short run with the race detector, which takes ten times as long and finds
// nothing there. `make test` runs these tests without it.
func Alone(t testing.TB) {
	t.Helper()
	if raced && testing.Short() {
		t.Skip("a test of one goroutine, which make test runs without the race detector")
	}
}
