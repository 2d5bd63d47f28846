package observe_test

import (
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/observe"
)

func TestEachStateIsLoggedOnceInTenSecondsAndTheLastIsTrue(t *testing.T) {
	var r observe.Health
	var failing, well int
	toldBad := false
	at := func(d time.Duration) int64 { return int64(d) }
	tell := func(now time.Duration, bad bool) {
		switch {
		case bad && r.Failed(at(now)):
			failing++
			toldBad = true
		case !bad && r.Well(at(now), 0):
			well++
			toldBad = false
		}
	}
	var now time.Duration
	for range 600 { // a minute with ten failures and recoveries per second
		tell(now, true)
		tell(now+50*time.Millisecond, false)
		now += 100 * time.Millisecond
	}
	if failing != 6 || well != 6 {
		t.Errorf("%d failures and %d recoveries logged in a minute, want 6 each", failing, well)
	}
	now += time.Minute
	tell(now, false)
	now += time.Minute
	tell(now, true)
	tell(now+50*time.Millisecond, false)
	for _, bad := range []bool{true, false} { // at first there is no room to tell it
		for range 11 {
			now += time.Second
			tell(now, bad)
		}
		if toldBad != bad {
			t.Errorf("failing is %v for 11 s, and the opposite is logged", bad)
		}
		if r.Quiet() == bad {
			t.Errorf("quiet %v while failing is %v", r.Quiet(), bad)
		}
	}
}

func TestItIsWellWhenNothingHasFailedForSomeTime(t *testing.T) {
	var r observe.Health
	if !r.Failed(0) || r.Failed(1) {
		t.Error("the first failure, and no other, must be logged")
	}
	if r.Well(int64(time.Second), time.Second) {
		t.Error("well 1 ns too early")
	}
	if !r.Well(int64(time.Second)+1, time.Second) || r.Well(int64(time.Hour), 0) {
		t.Error("recovery must be logged once")
	}
}

func TestLimitCountsSuppressedLines(t *testing.T) {
	var l observe.LogLimit
	if ok, n := l.Allow(5); !ok || n != 0 {
		t.Error("the first call is not logged")
	}
	for range 3 {
		if ok, _ := l.Allow(6); ok {
			t.Error("logged twice at once")
		}
	}
	if ok, n := l.Allow(5 + int64(observe.LogEvery)); !ok || n != 3 {
		t.Errorf("logged %v, %d skipped; want true, 3", ok, n)
	}
}
