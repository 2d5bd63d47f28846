package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/cmd/strata/expiry"
	"github.com/strata-cache/strata/cmd/strata/hello"
)

const (
	// expiringKeys is the number of keys that are loaded together.
	expiringKeys = 10_000
	// expirySteps is the number of steps in a comparison, and ttlSteps that of a TTL, which so ends
	// before the comparison.
	expirySteps, ttlSteps = 45, 40
	// leastStep is the shortest step: with a shorter one the reads would disturb the comparison.
	leastStep = 400 * time.Millisecond
	// expiryColumns is the number of steps that are shown.
	expiryColumns = 6
)

// synchrony measures beside a comparison how entries that were loaded together expire.
type synchrony struct {
	options expiry.Options
	curves  []expiry.Curve
}

// newSynchrony returns the measurement that fits beside some phases, or nil if none does: the mode strata
// is not among them, or they are too short.
func newSynchrony(phases []phase, each time.Duration) *synchrony {
	total := time.Duration(0)
	for _, p := range phases {
		total += each
		if _, ok := starts[p]; ok {
			total += each
		}
	}
	step := min(time.Second, total/expirySteps)
	if step < leastStep || !slices.Contains(phases, phase(hello.Strata)) {
		return nil
	}
	return &synchrony{options: expiry.Options{Keys: expiringKeys, TTL: ttlSteps * step, Step: step, Jitters: []float64{0, strata.DefaultJitter}}}
}

// start begins the measurement, which ctx ends. The function that it returns waits for the end.
func (s *synchrony) start(ctx context.Context) (wait func() error) {
	if s == nil {
		return func() error { return nil }
	}
	err := error(nil)
	var running sync.WaitGroup
	running.Go(func() { s.curves, err = expiry.Run(ctx, s.options) })
	return func() error {
		if running.Wait(); err != nil {
			s.curves = nil
		}
		return err
	}
}

// write writes the curves, as numbers and as a chart.
func (s *synchrony) write(w io.Writer) error {
	if s == nil || len(s.curves) == 0 {
		return nil
	}
	begin, end, most := s.shown()
	step := seconds(s.options.Step)
	text := fmt.Sprintf("%s keys are loaded together with a TTL of %s, and each is read %d times a step from %s on: origin queries in steps of %s, by the time since the load. The origin only counts. A read refreshes an entry after %v of its life.",
		count(int64(s.options.Keys)), seconds(s.options.TTL), expiry.Reads, seconds(s.options.From()), step, strata.DefaultRefreshAt)
	if s.options.Step == time.Second {
		step = "second"
	}
	if _, err := fmt.Fprintf(w, "\n%s\n\n", strings.Join(wrap(text, screen), "\n")); err != nil {
		return err
	}
	t := table{head: []string{"\nJitter", "worst\n" + step}}
	for i := begin; i < end; i++ {
		t.head = append(t.head, seconds(time.Duration(i)*s.options.Step))
	}
	t.head = append(t.head, "")
	for _, c := range s.curves {
		cells, bars := []string{fmt.Sprint(c.Jitter), short(c.Worst())}, ""
		for i := begin; i < end; i++ {
			n := int64(0)
			if i < len(c.Queries) {
				n = c.Queries[i]
			}
			cells = append(cells, short(n))
			bars += bar(float64(n) / float64(max(1, most)))
		}
		t.add(append(cells, bars)...)
	}
	return t.write(w)
}

// shown returns the steps to show, the last that have any queries, and the largest number in a step.
func (s *synchrony) shown() (begin, end int, most int64) {
	begin = len(s.curves[0].Queries)
	for _, c := range s.curves {
		end = max(end, len(c.Queries))
		most = max(most, c.Worst())
		if i := slices.IndexFunc(c.Queries, func(n int64) bool { return n > 0 }); i >= 0 {
			begin = min(begin, i)
		}
	}
	return max(begin, end-expiryColumns), end, most
}
