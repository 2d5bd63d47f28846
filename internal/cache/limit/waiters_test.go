package limit_test

import (
	"testing"

	"github.com/strata-cache/strata/internal/cache/limit"
)

func TestCallersWithoutRoomTakeNone(t *testing.T) {
	w := limit.Waiters{Most: 1}
	if first, second := w.Enter(), w.Enter(); !first || second {
		t.Fatalf("the first has room: %t, the second: %t", first, second)
	}
	w.Leave(true) // the first, before the second
	if !w.Enter() {
		t.Error("a caller is turned away for one that was turned away")
	}
	w.Leave(false)
	if w.Enter() {
		t.Error("the leave of a caller without room has made room")
	}
}
