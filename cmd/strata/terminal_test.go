package main

import (
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/cmd/strata/load"
)

// TestLinesHaveTheLatenciesSinceTheLineBefore has a target that was quick for long, and is slow now.
func TestLinesHaveTheLatenciesSinceTheLineBefore(t *testing.T) {
	p := load.Progress{
		Done: 100_010, Status: map[int]int64{200: 100_010},
		Latency: load.Latencies{Count: 100_010, P50: time.Millisecond, P99: 2 * time.Millisecond},
		Recent:  load.Latencies{Count: 10, P50: 3 * time.Second, P99: 4 * time.Second},
	}
	for _, f := range []*follower{{}, {short: true}} {
		if got := f.line(p); !strings.Contains(got, "p50 3.00 s  p99 4.00 s") {
			t.Errorf("the line is %q", got)
		}
	}
}

// TestLinesHaveTheAnswersSinceTheLineBefore, also when all of these are errors although
// earlier ones were not.
func TestLinesHaveTheAnswersSinceTheLineBefore(t *testing.T) {
	steps := []struct {
		p           load.Progress
		plain, live string
	}{
		{load.Progress{}, "p99 -", "p99 -"},
		{load.Progress{Done: 5, Status: map[int]int64{200: 4, 302: 1}}, "200 × 4, 302 × 1", "p99 -"},
		{
			load.Progress{Done: 9, Errors: 1, Status: map[int]int64{200: 6, 302: 1, 503: 1}, Failures: map[load.Kind]int64{load.Timeout: 1}},
			"200 × 2, 503 × 1, timeout × 1: 50.00 % are errors", "50.00 % errors",
		},
		{
			load.Progress{Done: 1012, Errors: 4, Status: map[int]int64{200: 6, 302: 1, 503: 1001}, Failures: map[load.Kind]int64{load.Timeout: 4}},
			"503 × 1,000, timeout × 3: all are errors", "all errors",
		},
		{
			load.Progress{Done: 1027, Errors: 4, Status: map[int]int64{200: 11, 302: 1, 400: 1, 401: 2, 500: 4, 501: 2, 503: 1002}, Failures: map[load.Kind]int64{load.Timeout: 4}},
			"200 × 5, 500 × 4, 401 × 2, 501 × 2, others × 2: 66.67 % are errors", "66.67 % errors",
		},
		{load.Progress{Done: 1027, Errors: 4, Status: map[int]int64{200: 11, 302: 1, 400: 1, 401: 2, 500: 4, 501: 2, 503: 1002}, Failures: map[load.Kind]int64{load.Timeout: 4}}, "p99 -", "p99 -"},
	}
	plain, live := follower{}, follower{short: true}
	for i, s := range steps {
		s.p.Elapsed = time.Duration(i) * time.Second
		if got := plain.line(s.p); !strings.HasSuffix(got, s.plain) || strings.Contains(got, "× 0") {
			t.Errorf("line %d is %q; want %q at its end", i, got, s.plain)
		}
		if got := live.line(s.p); !strings.HasSuffix(got, s.live) {
			t.Errorf("live line %d is %q; want %q at its end", i, got, s.live)
		}
	}
}
