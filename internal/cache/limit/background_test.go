package limit_test

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/strata-cache/strata/internal/cache/limit"
)

// held begins a function for key that runs until the returned function is called.
func held(t *testing.T, b *limit.Background, key any) (end func()) {
	t.Helper()
	stop := make(chan struct{})
	if !b.Run(key, func(func()) { <-stop }) {
		t.Fatalf("no room for %v", key)
	}
	return func() { close(stop); synctest.Wait() }
}

func TestOneFunctionRunsForAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ran := limit.NewBackground(10), false
		end := held(t, b, "k")
		if !b.Run("k", func(func()) { ran = true }) {
			t.Error("a key with a function is no lack of room")
		}
		end()
		if ran {
			t.Error("two functions ran for a key")
		}
		if !b.Run("k", func(func()) { ran = true }) {
			t.Error("no room")
		}
		if b.Wait(); !ran {
			t.Error("no function ran after the first had ended")
		}
		if !b.Run(math.NaN(), func(func()) { t.Error("a function ran for a key that is never found again") }) {
			t.Error("a key that does not equal itself is no lack of room")
		}
	})
}

func TestNoMoreFunctionsRunThanThereIsRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := limit.NewBackground(2)
		first, second := held(t, b, 1), held(t, b, 2)
		if b.Run(3, func(func()) { t.Error("a third function ran") }) {
			t.Error("room for a third function")
		}
		first()
		third := held(t, b, 3)
		second()
		third()
	})
}

// TestFunctionThatIsFoundLeavesItsKey has two functions of a key, of which the first ends last.
func TestFunctionThatIsFoundLeavesItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stop := limit.NewBackground(10), make(chan struct{})
		b.Run("k", func(found func()) { found(); <-stop })
		synctest.Wait()
		second := held(t, b, "k")
		close(stop)
		synctest.Wait() // the end of the first function does not remove the mark of the second one
		if !b.Run("k", func(func()) { t.Error("a third function ran beside the second one") }) {
			t.Error("no room")
		}
		second()
	})
}

func TestCloseStartsNothingAndWaitWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := limit.NewBackground(10)
		end := held(t, b, "k")
		b.Close()
		if b.Run("other", func(func()) { t.Error("a function ran after Close") }) {
			t.Error("room after Close")
		}
		var waited atomic.Bool
		go func() { b.Wait(); waited.Store(true) }()
		if synctest.Wait(); waited.Load() {
			t.Error("Wait did not wait")
		}
		if end(); !waited.Load() {
			t.Error("Wait did not end")
		}
	})
}
