package flight_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/flight"
)

// TestFlightOffersNothingFromBeforeAHoldThatItLearnsOf has a caller without patience.
func TestFlightOffersNothingFromBeforeAHoldThatItLearnsOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		soft, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		patience := flight.Patience{Soft: soft, Good: func(int64, uint8, []string, uint64) bool { return true }}
		var r flight.Result[int]
		_, err := g.Do(t.Context(), patience, "k", flight.Load, lead{then: func(f *keyFlight) {
			g.Offer(f, flight.Result[int]{Value: 1, Found: true}, 0)
			if !g.Learn("k", time.Minute, func() {}) {
				t.Error("the hold is no news")
			}
			time.Sleep(2 * time.Second)
			g.Land(f, &flight.Result[int]{Value: 2, Found: true}, nil)
		}}, &r)
		if r.Value != 2 || r.Offered || err != nil {
			t.Errorf("got %+v, %v; want the end of the flight", r, err)
		}
	})
}

// TestReloadThatIsRefusedIsLed has a reload inside the load of a, behind a load of b that waits for a.
func TestReloadThatIsRefusedIsLed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		land := func(f *keyFlight, err error) { g.Land(f, &flight.Result[int]{Err: err}, nil) }
		landed := false
		go get(t.Context(), g, "b", func(f *keyFlight) {
			time.Sleep(time.Second) // until a is under way
			_, err := get(f.Context(), g, "a", nil)
			land(f, err)
		})
		_, err := get(t.Context(), g, "a", func(f *keyFlight) {
			time.Sleep(2 * time.Second) // until b waits
			_, p, err := do(f.Context(), g, "b", flight.Reload, lead{then: func(f *keyFlight) {
				landed = true
				land(f, context.Cause(f.Context()))
			}})
			if p != flight.Led || !errors.Is(err, flight.ErrRecursive) {
				t.Errorf("part %v, %v; want the part of a caller whose flight lands, and ErrRecursive", p, err)
			}
			land(f, nil)
		})
		must(t, err)
		if synctest.Wait(); !landed {
			t.Error("the flight has not landed")
		}
	})
}

func TestResultThatHasLostTheRightToBeStoredIsNotFresh(t *testing.T) {
	g := newGroup(t)
	times := flight.Times{Fresh: 60, Born: 1}
	for name, want := range map[string]flight.Times{"stored": times, "fenced": {Born: 1}} {
		r, _, err := do(t.Context(), g, name, flight.Load, lead{then: func(f *keyFlight) {
			g.Fence("fenced", 0, func() {})
			g.Land(f, &flight.Result[int]{Found: true, Times: times}, func() {})
		}})
		if r.Times != want || err != nil {
			t.Errorf("%s: %+v, %v; want %+v", name, r.Times, err, want)
		}
	}
}
