package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/cmd/strata/hello"
	"github.com/strata-cache/strata/cmd/strata/load"
	"github.com/strata-cache/strata/snapshot"
)

// comparison runs the same load on one service in several phases.
type comparison struct {
	token   string // of the service
	load    load.Options
	phases  []phase
	service *hello.Service
	facts   facts
	reports *hello.Reports // nil without --memory-limit
	asked   int            // the number of URLs that the phase strata has asked for
	beside  *synchrony
}

// phase is one row of the comparison: a mode with empty caches and an empty
// database, or restarted.
type phase string

// Phases with the mode strata in a new instance. Database and L2 keep the data of the
// phase before.
const (
	restarted    phase = "restarted"
	warmKeys     phase = "warm-keys"
	warmTransfer phase = "warm-transfer"
)

// fill is the mode strata beside a cache of reports that fills the memory of the process.
const fill phase = "fill"

// starts are the starts of instances in such phases.
var starts = map[phase]hello.Start{ // read-only
	restarted: hello.Cold, warmKeys: hello.ByKeys, warmTransfer: hello.ByTransfer,
}

// parsePhase returns the phase with a name.
func parsePhase(s string) (phase, error) {
	if _, ok := starts[phase(s)]; ok {
		return phase(s), nil
	}
	if phase(s) == fill {
		return fill, nil
	}
	m, err := hello.ParseMode(s)
	if err != nil {
		return "", fmt.Errorf("%w, %s, %s, %s, %s", err, restarted, warmKeys, warmTransfer, fill)
	}
	return phase(m), nil
}

// mode is the mode of the service in this phase.
func (p phase) mode() hello.Mode {
	if _, ok := starts[p]; ok || p == fill {
		return hello.Strata
	}
	return hello.Mode(p)
}

// row is the result of one phase.
type row struct {
	phase   phase
	result  *load.Result
	queries int64
	cache   hello.Counts
	// start is the report about the beginning of a new instance, before the load. hits is the share
	// of requests that hit L1 in each step of the load, in percent.
	start snapshot.Report
	hits  []float64
	// memory is of the phase fill: the most that the process had at once, and the evictions of the guard.
	memory hello.Memory
}

// run measures all phases and writes the table. After an interruption the table
// has the completed phases.
func (c *comparison) run(e *environment) error {
	line := newLiveLine(e.stderr)
	defer line.clear()
	ctx, end := context.WithCancel(e.ctx)
	expired := c.beside.start(ctx)
	defer expired() //nolint:errcheck // a comparison without an error has looked at it
	// Deferred calls run in reverse order: first the measurement is ended, then its end is awaited.
	defer end()
	var rows []row
	for _, p := range c.phases {
		r, err := c.measure(e, p, line)
		// A phase that was cut short would have wrong numbers: it is left out.
		if e.ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	line.clear()
	if len(rows) == 0 {
		return nil
	}
	if err := expired(); err != nil && e.ctx.Err() == nil {
		return err
	}
	return c.write(e.stdout, rows)
}

// measure runs one phase.
func (c *comparison) measure(e *environment, p phase, line *liveLine) (row, error) {
	line.show(fmt.Sprintf("%-9s", p))
	start, err := c.prepare(e, p)
	if err != nil {
		return row{}, err
	}
	before := c.service.Stats()
	o := c.load
	var curve hitCurve
	if _, ok := starts[p]; ok {
		o = c.afterStart(o)
		curve.last = before
	}
	f := follower{short: true}
	o.Progress = func(now load.Progress) {
		line.show(fmt.Sprintf("%-9s  %s", p, f.line(now)))
		// Progress comes once for each step, since afterStart has set both.
		curve.step(c.service.Stats(), o.Steps)
	}
	peak := c.fill(p)
	result, err := load.Run(e.ctx, o)
	memory := peak()
	if err != nil {
		return row{}, err
	}
	after := c.service.Stats()
	if p == phase(hello.Strata) {
		// Each group of requests asks for one URL. The last group may be incomplete.
		c.asked = int((result.Done + int64(o.Group) - 1) / int64(o.Group))
	}
	curve.step(after, o.Steps)
	return row{phase: p, memory: memory, result: result, start: start, hits: curve.hits, queries: after.Queries - before.Queries, cache: hello.Counts{
		L1Hits: after.Cache.L1Hits - before.Cache.L1Hits,
		L2Hits: after.Cache.L2Hits - before.Cache.L2Hits,
		Shared: after.Cache.Shared - before.Cache.Shared,
	}}, nil
}

// prepare puts the service into the state for the beginning of a phase. The report is
// about the start of a new instance.
func (c *comparison) prepare(e *environment, p phase) (r snapshot.Report, err error) {
	if err := c.service.SetMode(p.mode()); err != nil {
		return r, err
	}
	if start, ok := starts[p]; ok {
		if r, err = c.service.Restart(e.ctx, start); err != nil {
			err = fmt.Errorf("%s: %w", p, err)
		}
		return r, err
	}
	// Each mode begins with nothing cached and nothing recorded, so that the order of the modes
	// does not matter.
	err = untilConfirmed(e.ctx, func() error {
		_, err := c.service.Clear(e.ctx)
		return err
	})
	if err != nil {
		return r, fmt.Errorf("clear: %w", err)
	}
	return r, nil
}

// untilConfirmed calls drop until L2 has confirmed it, 50 times at most. L2 has a tenth of a second for it, which a
// busy machine may exceed. Any other error is returned at once.
func untilConfirmed(ctx context.Context, drop func() error) (err error) {
	for range 50 {
		if err = drop(); err == nil {
			return nil
		}
		if _, late := errors.AsType[*strata.RemoteError](err); !late {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
	return err
}

// write writes the facts about the measurement and the table.
func (c *comparison) write(w io.Writer, rows []row) error {
	f := append(slices.Clone(c.facts),
		[2]string{"load", "each mode: " + describeLoad(c.load)},
		[2]string{"", c.conditions()},
		[2]string{"shared", "requests that joined the load of another"},
	)
	f = append(append(f, c.startFacts()...), c.fillFacts()...)
	if err := f.write(w); err != nil {
		return err
	}
	t := table{head: []string{"\nmode", "requests\nper s", "\np50", "\np99", "origin\nqueries", "L1\nhits", "L2\nhits", "\nshared", "\nerrors"}}
	for _, r := range rows {
		l := r.result.Latency
		t.add(string(r.phase), rate(r.result.Rate()), duration(l.P50), duration(l.P99),
			short(r.queries), short(r.cache.L1Hits), short(r.cache.L2Hits), short(r.cache.Shared),
			short(r.result.Failed()+r.result.Refused()))
	}
	fmt.Fprintln(w)
	if err := t.write(w); err != nil {
		return err
	}
	if err := writeCurves(w, rows); err != nil {
		return err
	}
	if err := c.beside.write(w); err != nil {
		return err
	}
	return writeNotes(w, slices.Concat(c.factor(rows), startNotes(rows), notes(rows)))
}

// conditions returns the text on how to read the latencies.
func (c *comparison) conditions() string {
	from := "the sending"
	if c.load.Rate > 0 {
		from = "the intended start"
	}
	return fmt.Sprintf("latency from %s; client and service share %s",
		from, plural(int64(runtime.GOMAXPROCS(0)), "CPU", "CPUs"))
}

// mostFill is the most that the phase fill stores in a second: more would take the processors from the service.
const mostFill = 128 << 20

// fill begins to fill the memory in the phase fill: with twice its limit while the load lasts, or with less if that is
// more than mostFill a second. peak ends that, and returns the memory at its fullest.
func (c *comparison) fill(p phase) (peak func() hello.Memory) {
	if p != fill {
		return func() hello.Memory { return hello.Memory{} }
	}
	watched := c.reports.Watch()
	c.reports.Fill(min(mostFill, int64(2*float64(c.reports.Memory().Limit)/c.load.Duration.Seconds())))
	return func() hello.Memory {
		m := watched()
		_ = c.reports.Clear(context.Background()) // they are in this memory alone
		return m
	}
}

// fillFacts explains the phase fill.
func (c *comparison) fillFacts() facts {
	if !slices.Contains(c.phases, fill) {
		return nil
	}
	return facts{{string(fill), "the mode strata, while reports of 1 to 64 KiB that nothing reads fill a memory of " + humanize.IBytes(uint64(c.reports.Memory().Limit))}}
}

// describeFill is a sentence about the memory in the phase fill.
func describeFill(m hello.Memory) string {
	size := func(n int64) string { return humanize.IBytes(uint64(n)) }
	return fmt.Sprintf("%s: %s of reports were stored; the process had %s of %s at most, and a live heap of %s at most, of which the guard evicts from %s on; it has evicted %s and %s",
		fill, size(m.Stored), size(m.Used), size(m.Limit), size(m.Heap), size(m.Ceiling), plural(m.Reports, "report", "reports"), plural(m.Evicted-m.Reports, "greeting", "greetings"))
}

// factor compares the modes strata and none, if no rate has bounded them.
func (c *comparison) factor(rows []row) []string {
	rates := map[phase]float64{}
	for _, r := range rows {
		rates[r.phase] = r.result.Rate()
	}
	with, without := rates[phase(hello.Strata)], rates[phase(hello.None)]
	if c.load.Rate > 0 || with == 0 || without == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s answered %s times as many requests/s as %s", hello.Strata, digits(with/without), hello.None)}
}

// notes explains the rows that need it.
func notes(rows []row) (lines []string) {
	for _, r := range rows {
		// Late timers cause a few.
		if n := r.result.Unsent; n > r.result.Done/1000 {
			lines = append(lines, fmt.Sprintf("%s could not keep up: %s of the schedule not sent", r.phase, plural(n, "request", "requests")))
		}
		if r.phase == fill {
			lines = append(lines, describeFill(r.memory))
		}
		if text := describeErrors(r.result); text != "" {
			lines = append(lines, fmt.Sprintf("%s: %s", r.phase, text))
		}
	}
	return lines
}

// writeNotes writes lines below a table.
func writeNotes(w io.Writer, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("\n" + strings.Join(wrap(l, screen), "\n"))
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}
