package load_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/cmd/strata/load"
)

// target is a RoundTripper that records the requests.
type target struct {
	// answer waits and returns the status of a request.
	answer func(*http.Request) (int, error)

	mu      sync.Mutex // guards below
	began   time.Time
	at      []time.Duration // since the first request
	queries []string
	now     int
	most    int // at the same time
}

func (g *target) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	if g.began.IsZero() {
		g.began = time.Now()
	}
	g.at = append(g.at, time.Since(g.began))
	g.queries = append(g.queries, r.URL.RawQuery)
	g.now++
	g.most = max(g.most, g.now)
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.now--
		g.mu.Unlock()
	}()
	status, err := http.StatusOK, error(nil)
	if g.answer != nil {
		status, err = g.answer(r)
	}
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("hello"))}, nil
}

// after waits for d like a slow server, or until the client gives up.
func after(r *http.Request, d time.Duration) (int, error) {
	select {
	case <-time.After(d):
		return http.StatusOK, nil
	case <-r.Context().Done():
		return 0, r.Context().Err()
	}
}

func run(t *testing.T, g *target, o load.Options) *load.Result {
	t.Helper()
	o.Transport = g
	if o.URL == "" {
		o.URL = "http://target/hello?name=World"
	}
	res, err := load.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestRateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &target{}
		res := run(t, g, load.Options{Rate: 100, Concurrency: 10, Duration: 2 * time.Second})
		if res.Done != 200 || res.Unsent != 0 || res.Elapsed != 2*time.Second || res.Rate() != 100 {
			t.Errorf("%d done, %d unsent in %v: %v/s", res.Done, res.Unsent, res.Elapsed, res.Rate())
		}
		for n, at := range g.at {
			if want := time.Duration(n) * 10 * time.Millisecond; at != want {
				t.Fatalf("request %d was sent at %v; want %v", n, at, want)
			}
		}
		if res.Bytes != 200*5 || res.Status[200] != 200 {
			t.Errorf("%d bytes, statuses %v", res.Bytes, res.Status)
		}
	})
}

// A stall of the server for a third of the run must show in the 99th
// percentile, although nearly all requests are fast after the sending.
func TestStallIsChargedToEveryRequestThatHadToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		g := &target{answer: func(r *http.Request) (int, error) {
			if n.Add(1) == 100 {
				return after(r, time.Second)
			}
			return after(r, time.Millisecond)
		}}
		res := run(t, g, load.Options{Rate: 100, Concurrency: 1, Duration: 3 * time.Second})
		if res.Done != 300 || res.Unsent != 0 {
			t.Fatalf("%d done, %d unsent", res.Done, res.Unsent)
		}
		// One request in 300 was slow to answer.
		if got := res.Service.P99; got > 2*time.Millisecond {
			t.Errorf("p99 from the sending is %v", got)
		}
		// The 100 requests of the stall waited 1 s, 0.99 s, 0.98 s ...
		if got := res.Latency.P99; got < 900*time.Millisecond {
			t.Errorf("p99 from the intended start is %v; the stall is missing", got)
		}
		if got := res.Latency.P90; got < 600*time.Millisecond {
			t.Errorf("p90 from the intended start is %v", got)
		}
		if got := res.Latency.P50; got > 2*time.Millisecond {
			t.Errorf("p50 from the intended start is %v", got)
		}
	})
}

func TestRequestsBeyondTheTargetAreReportedAsUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &target{answer: func(r *http.Request) (int, error) { return after(r, 100*time.Millisecond) }}
		res := run(t, g, load.Options{Rate: 100, Concurrency: 2, Duration: 10 * time.Second})
		// Two connections do 20 requests per second.
		if res.Done != 200 {
			t.Errorf("%d done", res.Done)
		}
		if res.Done+res.Unsent != 1000 {
			t.Errorf("%d done and %d unsent are not the 1000 of the schedule", res.Done, res.Unsent)
		}
		if g.most != 2 {
			t.Errorf("%d under way at once; want 2", g.most)
		}
	})
}

func TestGroupStartsAtOnceAndKeysTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &target{answer: func(r *http.Request) (int, error) { return after(r, time.Millisecond) }}
		res := run(t, g, load.Options{Rate: 50, Group: 5, Cardinality: 3, Concurrency: 20, Duration: time.Second})
		if res.Done != 50 {
			t.Fatalf("%d done", res.Done)
		}
		for n := range g.at {
			group := n / 5
			wantAt := time.Duration(group) * 100 * time.Millisecond
			wantQuery := fmt.Sprintf("name=World%d", group%3)
			if g.at[n] != wantAt || g.queries[n] != wantQuery {
				t.Fatalf("request %d was %s at %v; want %s at %v", n, g.queries[n], g.at[n], wantQuery, wantAt)
			}
		}
		if g.most != 5 {
			t.Errorf("%d under way at once; want the group of 5", g.most)
		}
	})
}

func TestWithoutARateConnectionsAreKeptBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &target{answer: func(r *http.Request) (int, error) { return after(r, 10*time.Millisecond) }}
		res := run(t, g, load.Options{Concurrency: 4, Duration: time.Second, Cardinality: 10, Group: 2})
		if res.Done != 400 || g.most != 4 || res.Unsent != 0 {
			t.Errorf("%d done, %d at once, %d unsent", res.Done, g.most, res.Unsent)
		}
		keys := map[string]int{}
		for _, q := range g.queries {
			keys[q]++
		}
		if len(keys) != 10 {
			t.Errorf("%d keys: %v", len(keys), keys)
		}
		for q, n := range keys {
			if n != 40 {
				t.Errorf("%s was asked for %d times; want 40", q, n)
			}
		}
		if res.Latency != res.Service {
			t.Errorf("latencies differ without a schedule: %+v, %+v", res.Latency, res.Service)
		}
	})
}

func TestErrorsAreCountedByKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		g := &target{answer: func(r *http.Request) (int, error) {
			switch n.Add(1) % 5 {
			case 0:
				return 0, fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
			case 1:
				return after(r, time.Hour)
			case 2:
				return 0, errors.New("something else")
			case 3:
				return http.StatusServiceUnavailable, nil
			}
			return http.StatusOK, nil
		}}
		res := run(t, g, load.Options{Rate: 100, Concurrency: 100, Duration: time.Second, Timeout: 200 * time.Millisecond})
		want := map[load.Kind]int64{load.ConnectionRefused: 20, load.Timeout: 20, load.OtherError: 20}
		if !maps.Equal(res.Errors, want) || res.ErrorExample != "something else" {
			t.Errorf("errors are %v, for example %q", res.Errors, res.ErrorExample)
		}
		if res.Status[503] != 20 || res.Status[200] != 20 || res.Failed() != 60 || res.Refused() != 20 {
			t.Errorf("statuses are %v; %d failed, %d refused", res.Status, res.Failed(), res.Refused())
		}
		// Timeouts are latencies, other errors are not.
		if res.Latency.Count != 60 || res.Latency.Max < 200*time.Millisecond {
			t.Errorf("%d latencies, at most %v", res.Latency.Count, res.Latency.Max)
		}
	})
}

func TestDeadTargetIsNotHammered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &target{answer: func(*http.Request) (int, error) { return 0, syscall.ECONNREFUSED }}
		res := run(t, g, load.Options{Concurrency: 2, Duration: time.Second})
		if res.Done != 200 {
			t.Errorf("%d attempts in a second", res.Done)
		}
	})
}

func TestInterruptionReturnsTheMeasurements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1050*time.Millisecond)
		defer cancel()
		g := &target{answer: func(r *http.Request) (int, error) { return after(r, 100*time.Millisecond) }}
		res, err := load.Run(ctx, load.Options{URL: "http://target/", Transport: g, Concurrency: 1, Duration: time.Hour})
		if err != nil || !res.Interrupted {
			t.Fatalf("interrupted is %v, error %v", res.Interrupted, err)
		}
		if res.Done != 10 || res.Failed() != 0 || res.Elapsed != 1050*time.Millisecond {
			t.Errorf("%d done, %d failed in %v", res.Done, res.Failed(), res.Elapsed)
		}
	})
}

func TestProgressAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []load.Progress
		run(t, &target{}, load.Options{
			Rate: 100, Concurrency: 5, Duration: 2 * time.Second, Every: 503 * time.Millisecond,
			Progress: func(p load.Progress) { seen = append(seen, p) },
		})
		if len(seen) != 3 {
			t.Fatalf("%d calls", len(seen))
		}
		if p := seen[1]; p.Elapsed != 1006*time.Millisecond || p.Done != 101 || p.Rate < 99 || p.Rate > 101 {
			t.Errorf("second call is %+v", p)
		}
	})
}
