package load_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/cmd/strata/load"
)

// start starts a load on g.
func start(t *testing.T, g *target, o load.Options) *load.Running {
	t.Helper()
	o.Transport, o.URL = g, "http://target/hello?name=World"
	r, err := load.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// set changes the settings of r by edit.
func set(t *testing.T, r *load.Running, edit func(*load.Settings)) {
	t.Helper()
	s := r.Settings()
	edit(&s)
	if err := r.Set(s); err != nil {
		t.Fatal(err)
	}
	if got := r.Settings(); got != s {
		t.Fatalf("settings are %+v; want %+v", got, s)
	}
}

func rateOf(rate float64) func(*load.Settings) { return func(s *load.Settings) { s.Rate = rate } }

func concurrencyOf(n int) func(*load.Settings) { return func(s *load.Settings) { s.Concurrency = n } }

func TestChangeOfTheRateMovesOnlyRequestsNotYetDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &target{}
		r := start(t, g, load.Options{Rate: 100, Concurrency: 10, Duration: 2 * time.Second})
		time.Sleep(1005 * time.Millisecond)
		set(t, r, rateOf(200))
		time.Sleep(500 * time.Millisecond)
		set(t, r, rateOf(50))
		res := r.Wait()
		// Until 1005 ms half of request 101 was due, until 1505 ms half of request 201.
		want := func(n int) time.Duration {
			switch {
			case n <= 100:
				return time.Duration(n) * 10 * time.Millisecond
			case n <= 200:
				return 1007500*time.Microsecond + time.Duration(n-101)*5*time.Millisecond
			}
			return 1515*time.Millisecond + time.Duration(n-201)*20*time.Millisecond
		}
		for n, at := range g.at {
			if at != want(n) {
				t.Fatalf("request %d was sent at %v; want %v", n, at, want(n))
			}
		}
		if res.Done != 226 || res.Unsent != 0 || res.Elapsed != 2*time.Second || res.Changes != 2 || res.Settings.Rate != 50 {
			t.Errorf("result is %+v", res)
		}
		if res.Latency.Max > time.Microsecond {
			t.Errorf("a latency is %v without a wait", res.Latency.Max)
		}
	})
}

func TestFirstRequestOfASlowRateComesSoonerAtAHigherRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &target{}
		r := start(t, g, load.Options{Rate: 0.001, Concurrency: 3, Duration: 2 * time.Second})
		time.Sleep(time.Second)
		set(t, r, rateOf(10))
		if res := r.Wait(); res.Done != 11 { // 1 and 10 in the second second
			t.Errorf("%d done at %v", res.Done, g.at)
		}
	})
}

// A smaller rate must not hide that requests waited while the target stalled.
func TestRequestsDueBeforeAChangeKeepTheirIntendedStart(t *testing.T) {
	for name, to := range map[string]load.Settings{
		"slower":    {Rate: 1, Concurrency: 1},
		"faster":    {Rate: 200, Concurrency: 1},
		"unlimited": {Rate: 0, Concurrency: 1},
		"paused":    {Rate: 100, Concurrency: 1, Paused: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, stalling(), load.Options{Rate: 100, Concurrency: 1, Duration: 2200 * time.Millisecond})
				time.Sleep(1490*time.Millisecond + time.Microsecond)
				if p := r.Progress(); p.Behind != 50 || p.Running != 1 || p.Done != 99 {
					t.Errorf("progress is %+v", p)
				}
				if err := r.Set(to); err != nil {
					t.Fatal(err)
				}
				time.Sleep(550 * time.Millisecond) // the stall and the 50 requests due in it
				late := int64(0)
				for _, b := range r.Progress().Buckets {
					if b.From >= 500*time.Millisecond {
						late += b.Count
					}
				}
				// Waits of 1 s for the stall, of 0.99 s, 0.98 s ... for the others.
				if late < 51 {
					t.Errorf("%d latencies are at least 500 ms; want 51", late)
				}
				r.Wait()
			})
			synctest.Test(t, func(t *testing.T) {
				r := start(t, stalling(), load.Options{Rate: 100, Concurrency: 1, Duration: 1900 * time.Millisecond})
				time.Sleep(1490*time.Millisecond + time.Microsecond)
				if err := r.Set(to); err != nil {
					t.Fatal(err)
				}
				if res := r.Wait(); res.Unsent < 50 { // the target stalls beyond the end
					t.Errorf("%d unsent of the 50 that were due", res.Unsent)
				}
			})
		})
	}
}

// stalling returns a target that answers in a millisecond, except that it stalls for a
// second at request 100.
func stalling() *target {
	var n atomic.Int64
	return &target{answer: func(r *http.Request) (int, error) {
		if n.Add(1) == 100 {
			return after(r, time.Second)
		}
		return after(r, time.Millisecond)
	}}
}

func TestPauseStopsTheSchedule(t *testing.T) {
	for _, rate := range []float64{100, 0} {
		synctest.Test(t, func(t *testing.T) {
			g := &target{answer: func(r *http.Request) (int, error) { return after(r, 10*time.Millisecond) }}
			r := start(t, g, load.Options{Rate: rate, Concurrency: 1, Duration: 3 * time.Second})
			time.Sleep(time.Second + time.Microsecond)
			set(t, r, func(s *load.Settings) { s.Paused = true })
			time.Sleep(500 * time.Millisecond)
			if p := r.Progress(); p.Done < 100 || p.Done > 101 || p.Running != 0 || p.Behind != 0 || !p.Settings.Paused {
				t.Errorf("rate %v: progress is %+v", rate, p)
			}
			set(t, r, func(s *load.Settings) { s.Paused = false })
			res := r.Wait()
			if res.Done < 250 || res.Done > 251 || res.Unsent != 0 || res.Latency.Max > 21*time.Millisecond {
				t.Errorf("rate %v: result is %+v", rate, res)
			}
		})
	}
}

func TestRateIsSetFromUnlimitedAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &target{answer: func(r *http.Request) (int, error) { return after(r, 10*time.Millisecond) }}
		r := start(t, g, load.Options{Concurrency: 2, Group: 3, Duration: 3 * time.Second})
		time.Sleep(time.Second)
		set(t, r, rateOf(30))
		time.Sleep(time.Second)
		set(t, r, rateOf(0))
		// 200 requests, 30 of the schedule, 200 requests, and groups cut by the changes.
		if res := r.Wait(); res.Done < 425 || res.Done > 435 || res.Unsent != 0 {
			t.Errorf("result is %+v", res)
		}
	})
}

// reset returns the largest number of requests at once since the previous call, and the
// number of requests since the start.
func (g *target) reset() (most, requests int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	most, g.most = g.most, g.now
	return most, len(g.at)
}

func TestConcurrencyIsChangedAtOnceAndNeverExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &target{answer: func(r *http.Request) (int, error) { return after(r, 10*time.Millisecond) }}
		r := start(t, g, load.Options{Concurrency: 4, Duration: 3 * time.Second})
		time.Sleep(995 * time.Millisecond)
		if most, _ := g.reset(); most != 4 {
			t.Errorf("%d at once; want 4", most)
		}
		set(t, r, concurrencyOf(8))
		time.Sleep(time.Second)
		if most, _ := g.reset(); most != 8 {
			t.Errorf("%d at once; want 8", most)
		}
		set(t, r, concurrencyOf(1))
		time.Sleep(22 * time.Millisecond)
		_, before := g.reset()
		time.Sleep(500 * time.Millisecond)
		if most, n := g.reset(); n-before != 50 || most != 1 {
			t.Errorf("%d requests, %d at once", n-before, most)
		}
		r.Wait()
	})
}

// The workers that a smaller concurrency ends own no request: a request of theirs would be lost, or
// another worker would have to wait for it.
func TestSmallerConcurrencyLosesNoRequestOfTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &target{}
		r := start(t, g, load.Options{Rate: 10, Concurrency: 50, Duration: 10 * time.Second})
		time.Sleep(time.Second + time.Millisecond)
		set(t, r, concurrencyOf(1))
		if res := r.Wait(); res.Done != 100 || res.Unsent != 0 || res.Latency.Max > time.Microsecond {
			t.Errorf("result is %+v", res)
		}
	})
}

func TestBadSettingsChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &target{}, load.Options{Rate: 10, Concurrency: 2, Duration: time.Second})
		before := r.Settings()
		for _, s := range []load.Settings{
			{Rate: -1, Concurrency: 2},
			{Rate: load.MaxRate + 1, Concurrency: 2},
			{Rate: 10, Concurrency: 0},
			{Rate: 10, Concurrency: load.MaxConcurrency + 1},
		} {
			if err := r.Set(s); err == nil || r.Settings() != before {
				t.Errorf("error of %+v is %v, settings are %+v", s, err, r.Settings())
			}
		}
		if res := r.Wait(); res.Done != 10 || res.Changes != 0 {
			t.Errorf("result is %+v", res)
		}
		if err := r.Set(load.Settings{Rate: 1, Concurrency: 50}); err != nil || r.Settings() != before {
			t.Errorf("after the end: error %v, settings %+v", err, r.Settings())
		}
	})
}

func TestChangesWhileRequestsWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &target{answer: func(r *http.Request) (int, error) { return after(r, time.Hour) }}
		ctx, cancel := context.WithCancel(t.Context())
		r, err := load.Start(ctx, load.Options{URL: "http://target/", Transport: g, Rate: 1000, Concurrency: 1, Duration: time.Hour, Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; err == nil && i < 2000; i++ {
			time.Sleep(10 * time.Millisecond)
			err = r.Set(load.Settings{Rate: float64(1000 + i%2), Concurrency: 1})
		}
		if !errors.Is(err, load.ErrTooManyChanges) {
			t.Errorf("error is %v", err)
		}
		set(t, r, concurrencyOf(2)) // moves nothing
		cancel()
		if res := r.Wait(); !res.Interrupted || res.Done != 0 || res.Unsent == 0 {
			t.Errorf("result is %+v", res)
		}
	})
}

func TestErrorTextOfTheTargetIsPrintable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &target{answer: func(*http.Request) (int, error) {
			return 0, errors.New("malformed header: \x1b]0;title\a\u009b2J\u202e\xff")
		}}
		res := run(t, g, load.Options{Rate: 10, Concurrency: 1, Duration: time.Second})
		if want := `malformed header: \x1b]0;title\a\u009b2J\u202e` + "\ufffd"; res.ErrorExample != want {
			t.Errorf("example is %q; want %q", res.ErrorExample, want)
		}
	})
}

func TestProgressDescribesTheRunAndTheTimeSinceThePreviousOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		g := &target{answer: func(r *http.Request) (int, error) {
			if n.Add(1) <= 10 {
				return after(r, 40*time.Millisecond)
			}
			return after(r, 2*time.Millisecond)
		}}
		r := start(t, g, load.Options{Rate: 10, Concurrency: 2, Duration: 3 * time.Second})
		time.Sleep(time.Second)
		first := r.Progress()
		time.Sleep(time.Second)
		second := r.Progress()
		r.Wait()
		if l := first.Recent; l != first.Latency || l.Count != 10 || l.P50 < 40*time.Millisecond {
			t.Errorf("first is %+v", first)
		}
		if second.Recent.Count != 10 || second.Recent.Max > 3*time.Millisecond || second.Latency.Count != 20 || second.Latency.Max < 40*time.Millisecond {
			t.Errorf("second is %+v", second)
		}
		if second.Status[200] != 20 || second.Rate != 10 {
			t.Errorf("second is %+v", second)
		}
		for i, b := range second.Buckets {
			want := int64(0)
			if b.From == 2*time.Millisecond || b.From == 30*time.Millisecond && first.Latency.Max < 50*time.Millisecond {
				want = 10
			}
			if b.Count != want {
				t.Errorf("bucket %d is %+v; want %d", i, b, want)
			}
		}
	})
}
