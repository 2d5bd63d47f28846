package flight_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/flight"
)

// together lets the flights of keys begin one after the other, each with a caller, and
// gathers them. Those callers leave at the end of ctx.
func together(ctx context.Context, g *group, load func(*flight.Batch[string, int]), keys ...string) (errs map[string]error) {
	var mu sync.Mutex
	var fs []*keyFlight
	var all sync.WaitGroup
	errs = map[string]error{}
	done := make(chan struct{})
	for i, k := range keys {
		all.Go(func() {
			_, err := get(ctx, g, k, func(f *keyFlight) {
				if fs = append(fs, f); len(fs) == len(keys) {
					b := g.Gather(slices.Clone(fs))
					load(b)
					b.Context().Finish()
					close(done)
				}
				<-done
				g.Land(f, &flight.Result[int]{Value: i, Found: true}, func() {})
			})
			mu.Lock()
			defer mu.Unlock()
			errs[k] = err
		})
		synctest.Wait()
	}
	all.Wait()
	return errs
}

func TestGatheredLoadEndsWithTheLastOfItsFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		g.CancelAbandoned = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		late, cancelLate := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancelLate()
		together(ctx, g, func(b *flight.Batch[string, int]) {
			go get(late, g, "b", nil) // joins
			<-b.Context().Done()
			if took := time.Since(begun); took != 2*time.Second {
				t.Errorf("cancelled after %v, want 2s", took)
			}
		}, "a", "b")
		time.Sleep(2 * time.Second) // the callers have left before
	})
}

func TestGatheredLoadThatWaitsForItsOwnFlightsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		for k, err := range together(t.Context(), g, func(b *flight.Batch[string, int]) {
			for _, k := range []string{"a", "b"} {
				if _, err := get(b.Context(), g, k, nil); !errors.Is(err, flight.ErrRecursive) {
					t.Errorf("%s: %v", k, err)
				}
			}
			_, err := get(b.Context(), g, "inner", func(f *keyFlight) {
				if !f.Inside() {
					t.Error("a flight inside a gathered load is not said to be")
				}
				_, err := get(f.Context(), g, "b", nil)
				g.Land(f, &flight.Result[int]{Err: err}, nil)
			})
			if !errors.Is(err, flight.ErrRecursive) {
				t.Errorf("through another load: %v", err)
			}
		}, "a", "b") {
			if err != nil {
				t.Errorf("%s: %v", k, err)
			}
		}
	})
}

func TestGatheredLoadIsUrgentOnceALoadWaitsForOneOfItsFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		together(t.Context(), g, func(b *flight.Batch[string, int]) {
			select {
			case <-b.Urgent():
				t.Error("urgent before a load waits for it")
			default:
			}
			go get(t.Context(), g, "outer", func(f *keyFlight) {
				get(f.Context(), g, "b", nil)
				g.Land(f, &flight.Result[int]{}, nil)
			})
			<-b.Urgent()
		}, "a", "b")
	})
}

func TestFlightThatIsUrgentMakesItsGatheredLoadUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		outer := make(chan struct{})
		go get(t.Context(), g, "outer", func(f *keyFlight) {
			<-outer
			get(f.Context(), g, "a", nil)
			g.Land(f, &flight.Result[int]{}, nil)
		})
		go get(t.Context(), g, "a", func(f *keyFlight) {
			close(outer)
			time.Sleep(time.Second) // in a bubble
			b := g.Gather([]*keyFlight{f})
			<-b.Urgent()
			b.Context().Finish()
			g.Land(f, &flight.Result[int]{}, nil)
		})
		time.Sleep(2 * time.Second)
		synctest.Wait()
	})
}
