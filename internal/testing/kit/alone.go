package kit

import "testing"

// Alone skips a test of one goroutine in a short run with the race detector, which takes ten times as long and finds
// nothing there. `make test` runs these tests without it.
func Alone(t testing.TB) {
	t.Helper()
	if raced && testing.Short() {
		t.Skip("a test of one goroutine, which make test runs without the race detector")
	}
}
