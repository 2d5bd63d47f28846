package inproc

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/strata-cache/strata/bench/internal/rig"
)

// Options decide the amount of measuring and the place of the tables. Out is required.
type Options struct {
	// Rounds is the number of turns of each peer that count.
	Rounds int
	// Slice is the length of a turn.
	Slice time.Duration
	// Scale divides numbers of keys and operations, and makes turns of two batches;
	// 0 means 1. Only a test of the tables themselves has another.
	Scale int
	// Short makes the largest caches smaller by a factor of ten.
	Short bool
	// Traces is the folder of the traces.
	Traces string
	// TTL of the caches of the mix; zero means none.
	TTL time.Duration
	Out io.Writer
	// Rounded gets a line for each peer and round that benchstat can read. Nil
	// means none.
	Rounded io.Writer
}

// Validate returns an error for each field that cannot be used.
func (o Options) Validate() error {
	var errs []error
	if o.Rounds < 1 {
		errs = append(errs, fmt.Errorf("rounds: %d is less than 1", o.Rounds))
	}
	if o.Slice <= 0 {
		errs = append(errs, fmt.Errorf("slice: %v is not above 0", o.Slice))
	}
	if o.TTL != 0 && o.TTL < time.Minute {
		errs = append(errs, fmt.Errorf("ttl: entries would expire after %v while the table is measured", o.TTL))
	}
	return errors.Join(errs...)
}

// scaled returns n, or the part of it that a test has.
func (o Options) scaled(n int) int { return max(n/max(o.Scale, 1), 1) }

// quick returns n, or a tenth for a quick look.
func (o Options) quick(n int) int {
	if o.Short {
		return max(n/10, 1)
	}
	return n
}

func (o Options) printf(format string, args ...any) { fmt.Fprintf(o.Out, format, args...) }

func (o Options) header(title string, what ...string) {
	o.printf("# %s\n%s; medians of %d rounds of %v.\n", title, rig.Machine(), o.Rounds, o.Slice)
	for _, line := range what {
		o.printf("%s\n", line)
	}
}

// samples are the measurements of one peer, one from each round, for an operation.
type samples struct {
	wall, cpu []float64 // ns
	hits      float64   // share of reads
}

func (s *samples) ns() float64    { return rig.Median(s.wall) }
func (s *samples) cpuNs() float64 { return rig.Median(s.cpu) }

// spread is half the width of the middle half of the wall times, divided by their median.
func (s *samples) spread() float64 {
	low, high := rig.Ratios(s.wall).Quartiles()
	return (high - low) / 2 / s.ns()
}

// cell is the measurements of all peers under one load.
type cell struct {
	name   string
	rows   map[string]*samples
	labels []string // of the rows, in order
}

// contestant is a peer in a cell. call makes one batch of operations.
type contestant struct {
	name string
	call func(g, i int) error
	hits func() float64 // share of reads since the last call of it
	// before prepares a turn. It may be nil.
	before func()
}

// play gives all contestants their turns: a round to warm up, which it forgets,
// and the counted ones.
func (o Options) play(name string, goroutines, batch int, all []contestant) (cell, error) {
	// Only the first call of a goroutine is timed: the rows need the time of the whole
	// turn alone.
	c := rig.Contest{Load: rig.Load{Goroutines: goroutines, For: o.Slice, Every: math.MaxInt, CPU: true}}
	if o.Scale > 1 {
		c.Load.Calls = 2
	}
	for _, one := range all {
		w := rig.Way{Name: one.name, Call: one.call}
		if one.before != nil {
			w.Before = func() error { one.before(); return nil }
		}
		c.Ways = append(c.Ways, w)
	}
	if err := c.Round(); err != nil {
		return cell{}, fmt.Errorf("%s: %w", name, err)
	}
	c.Forget()
	for _, one := range all {
		one.hits()
	}
	for range o.Rounds {
		if err := c.Round(); err != nil {
			return cell{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	done := cell{name: name, rows: map[string]*samples{}}
	for i, one := range all {
		s := &samples{wall: each(c.Nanos(i), batch), cpu: each(c.CPU(i), batch), hits: one.hits()}
		done.rows[one.name], done.labels = s, append(done.labels, one.name)
	}
	return done, done.write(o.Rounded)
}

// each divides all of xs by n.
func each(xs []float64, n int) []float64 {
	for i := range xs {
		xs[i] /= float64(n)
	}
	return xs
}

// write writes the rounds in the form of package testing.
func (c cell) write(w io.Writer) error {
	if w == nil {
		return nil
	}
	plain := strings.NewReplacer(" ", "-", ",", "")
	for _, label := range c.labels {
		s := c.rows[label]
		name := plain.Replace(label)
		for i := range s.wall {
			if _, err := fmt.Fprintf(w, "Benchmark%s/lib=%s 1 %.2f ns/op %.2f cpu-ns/op %.2f hit-%%\n",
				plain.Replace(c.name), name, s.wall[i], s.cpu[min(i, len(s.cpu)-1)], 100*s.hits); err != nil {
				return err
			}
		}
	}
	return nil
}

// wall and cpu choose the measurement that a ratio compares, in nanoseconds.
func wall(s *samples) float64 { return s.ns() }
func cpu(s *samples) float64  { return s.cpuNs() }

// ratio returns the quotient of the medians of two rows, and false if one of
// them is not there.
func (c cell) ratio(of func(*samples) float64, a, b string) (float64, bool) {
	x, y := c.rows[a], c.rows[b]
	if x == nil || y == nil || of(y) == 0 {
		return 0, false
	}
	return of(x) / of(y), true
}

// geomean returns the geometric mean of the ratios of two rows over all cells with both.
func geomean(cells []cell, of func(*samples) float64, a, b string) float64 {
	var xs []float64
	for _, c := range cells {
		if x, ok := c.ratio(of, a, b); ok {
			xs = append(xs, x)
		}
	}
	return rig.Geomean(xs)
}

// digits writes a time with three digits or a little more.
func digits(x float64) string {
	if x < 100 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// union returns the labels of all cells: the longest list, in its order, and
// then the labels that it lacks.
func union(cells []cell) []string {
	longest := slices.MaxFunc(cells, func(a, b cell) int { return cmp.Compare(len(a.labels), len(b.labels)) })
	all := slices.Clone(longest.labels)
	for _, c := range cells {
		for _, label := range c.labels {
			if !slices.Contains(all, label) {
				all = append(all, label)
			}
		}
	}
	return all
}

// mean writes a geometric mean, if there is one.
func mean(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", x)
}
