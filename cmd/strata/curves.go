package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/strata-cache/strata/cmd/strata/expiry"
	"github.com/strata-cache/strata/cmd/strata/hello"
	"github.com/strata-cache/strata/cmd/strata/load"
)

// Defaults of strata.Options.
const (
	usualJitter = 0.1
	refreshAt   = 0.8
)

// steps is the number of parts in which the begin of a new instance is shown.
const steps = 10

// afterStart is the load on a new instance: twice as long as the others, and twice over
// the URLs that these have asked for, so that it ends warm in any case.
func (c *comparison) afterStart(o load.Options) load.Options {
	if c.asked > 0 {
		o.Cardinality = min(o.Cardinality, c.asked)
	}
	o.Duration *= 2
	o.Steps, o.Every = steps, o.Duration/steps
	return o
}

// hitCurve collects the requests that hit L1 in each step of a load.
type hitCurve struct {
	last hello.Stats
	hits []float64 // percent
}

// step ends a step of the curve, unless the curve has its most steps already.
func (h *hitCurve) step(now hello.Stats, most int) {
	if len(h.hits) >= most {
		return
	}
	hits := now.Cache.L1Hits - h.last.Cache.L1Hits
	h.hits = append(h.hits, 100*float64(hits)/float64(max(1, now.Requests-h.last.Requests)))
	h.last = now
}

// startFacts explains the phases with a new instance.
func (c *comparison) startFacts() (f facts) {
	for _, one := range []struct {
		phase phase
		text  string
	}{
		{restarted, "a new instance of strata, for " + seconds(2*c.load.Duration) + ": memory is empty, L2 is not"},
		{warmKeys, "the same, but it has read the keys of the old instance from L2"},
		{warmTransfer, "the same, but it has taken over the entries of the old instance"},
	} {
		if slices.Contains(c.phases, one.phase) {
			f = append(f, [2]string{string(one.phase), one.text})
		}
	}
	return f
}

// writeCurves writes how new instances begin: their hits and latencies in steps, as
// numbers and as a chart.
func writeCurves(w io.Writer, rows []row) error {
	hits, late, step := curveTable(), curveTable(), time.Duration(0)
	slowest := time.Duration(0)
	// All phases share one scale, so that their bars can be compared.
	for _, r := range rows {
		for _, s := range r.result.Steps {
			slowest = max(slowest, s.P99)
		}
	}
	for _, r := range rows {
		// Only the phases with a new instance have steps, and only if they were not cut short.
		if len(r.result.Steps) != steps || len(r.hits) != steps {
			continue
		}
		step = r.result.Elapsed / steps
		ofHits, ofLate := []string{string(r.phase)}, []string{string(r.phase)}
		barsOfHits, barsOfLate := "", ""
		for i, s := range r.result.Steps {
			ofHits = append(ofHits, strconv.Itoa(int(r.hits[i])))
			ofLate = append(ofLate, milliseconds(s.P99))
			barsOfHits += bar(r.hits[i] / 100)
			barsOfLate += bar(float64(s.P99) / float64(max(1, slowest)))
		}
		hits.add(append(ofHits, barsOfHits)...)
		late.add(append(ofLate, barsOfLate)...)
	}
	if step == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nrequests that hit L1 in %%, in steps of %s after the start of an instance\n\n", seconds(step.Round(time.Millisecond)))
	if err := hits.write(w); err != nil {
		return err
	}
	fmt.Fprint(w, "\np99 in ms, in the same steps\n\n")
	return late.write(w)
}

// curveTable is a table with a column for each step and one for the chart.
func curveTable() table {
	t := table{head: make([]string, steps+2)}
	for i := range steps {
		t.head[i+1] = strconv.Itoa(i + 1)
	}
	return t
}

// bar is a column of a chart for a value from 0 to 1.
func bar(v float64) string {
	bars := []rune(" ▁▂▃▄▅▆▇█")
	return string(bars[min(len(bars)-1, max(0, int(v*float64(len(bars)-1)+0.5)))])
}

// milliseconds is d with up to three digits.
func milliseconds(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 9.95 {
		return strconv.FormatFloat(ms, 'f', 1, 64)
	}
	return strconv.FormatFloat(ms, 'f', 0, 64)
}

// startNotes tells the work of new instances before their first request.
func startNotes(rows []row) (lines []string) {
	for _, r := range rows {
		if n := r.start.Entries(); n > 0 {
			lines = append(lines, fmt.Sprintf("%s: %s of %s in %s, before the first request",
				r.phase, count(int64(r.start.Warm())), plural(int64(n), "entry", "entries"), duration(r.start.Took)))
		}
	}
	return lines
}

const (
	// expiringKeys is the number of keys loaded together.
	expiringKeys = 10_000
	// expirySteps is the number of steps in a comparison, and ttlSteps the number of steps in a
	// TTL. ttlSteps is smaller, so that the TTL ends before the comparison.
	expirySteps, ttlSteps = 45, 40
	// leastStep is the shortest step: with a shorter one the reads would disturb the comparison.
	leastStep = 400 * time.Millisecond
	// expiryColumns is the largest number of steps in the printed table.
	expiryColumns = 6
)

// synchrony measures, beside a comparison, how entries loaded together expire.
type synchrony struct {
	options expiry.Options
	curves  []expiry.Curve
}

// newSynchrony returns the measurement that fits beside some phases, or nil if none does: the mode strata
// is not among them, or they are too short.
func newSynchrony(phases []phase, each time.Duration) *synchrony {
	// The measurement must end with the phases: it gets their whole time, of which those with a new
	// instance have twice as much.
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
	return &synchrony{options: expiry.Options{Keys: expiringKeys, TTL: ttlSteps * step, Step: step, Jitters: []float64{0, usualJitter}}}
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
		count(int64(s.options.Keys)), seconds(s.options.TTL), expiry.Reads, seconds(s.options.From()), step, refreshAt)
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

// shown returns the steps to show, from begin to before end: the last ones with queries, at most
// expiryColumns. most is the largest number of queries in a step.
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
