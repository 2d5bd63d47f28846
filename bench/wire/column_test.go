package wire

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/strata-cache/strata/bench/internal/rig"
)

// column is the measurements of a case.
type column struct {
	scenario scenario
	subjects []subject
	contest  rig.Contest
	grown    []uint64 // bytes, by subject; nil if not measured
}

// none stands for a missing subject.
const none = -1

func (c *column) rounds() int { return len(c.contest.Nanos(0)) }

// perOperation turns a measurement of a call into one of an operation.
func (c *column) perOperation(x float64) float64 { return x / float64(c.scenario.per) }

// find returns the number of a subject.
func (c *column) find(name string) int {
	return slices.IndexFunc(c.subjects, func(s subject) bool { return s.name == name })
}

// best returns the number of the subject of a kind with the lowest median.
func (c *column) best(k kind) int {
	at, least := none, 0.0
	for i, s := range c.subjects {
		if n := rig.Median(c.contest.Nanos(i)); s.kind == k && (at == none || n < least) {
			at, least = i, n
		}
	}
	return at
}

// report gives the numbers of our own subjects to the benchmark.
func (c *column) report(b *testing.B) {
	b.ReportMetric(0, "ns/op") // hides the time of a whole round, which says nothing
	for i, s := range c.subjects {
		if s.kind != own {
			continue
		}
		b.ReportMetric(c.perOperation(rig.Median(c.contest.Nanos(i))), "ns/"+s.name)
		for _, base := range bases() {
			if at := c.best(base.kind); at != none {
				r := c.contest.Ratios(i, at)
				low, high := r.Quartiles()
				unit := s.name + "/" + base.name
				b.ReportMetric(rig.Median(r), unit)
				b.ReportMetric(low, unit+"-low")
				b.ReportMetric(high, unit+"-high")
			}
		}
	}
}

// base is a kind of subject that times are compared with.
type base struct {
	kind        kind
	name, title string
}

func bases() []base {
	return []base{
		{floor, "floor", "time, ratio to the floor"},
		{peer, "peer", "time, ratio to the best peer"},
		{whole, "bytes", "time, ratio to the best that has the value in memory"},
	}
}

// printTable writes columns side by side, one block for each kind of
// measurement: medians, and between brackets the quartiles.
func printTable(w io.Writer, columns []*column) {
	for _, k := range bases() {
		if slices.ContainsFunc(columns, func(c *column) bool { return c.best(k.kind) != none }) {
			printBlock(w, k.title, columns, func(c *column, i int) string { return c.ratio(i, k.kind) })
		}
	}
	printBlock(w, "CPU", columns, func(c *column, i int) string {
		return rig.Short(time.Duration(c.perOperation(c.contest.Costs(i).CPU)))
	})
	printBlock(w, "B and allocations", columns, func(c *column, i int) string {
		costs := c.contest.Costs(i)
		return rig.Thousands(c.perOperation(costs.Bytes)) + ", " + few(c.perOperation(costs.Allocs))
	})
	if slices.ContainsFunc(columns, func(c *column) bool { return c.scenario.rate }) {
		printBlock(w, "MB of values in a second", columns, func(c *column, i int) string { return c.rate(i) })
	}
	if slices.ContainsFunc(columns, func(c *column) bool { return c.grown != nil }) {
		printBlock(w, "growth of the process, KiB", columns, func(c *column, i int) string {
			if c.grown == nil {
				return "-"
			}
			return rig.Thousands(float64(c.grown[i]) / 1024)
		})
	}
}

// rate returns the megabytes (10⁶ bytes) of values that one caller of subject i moves in a second.
func (c *column) rate(i int) string {
	if !c.scenario.rate {
		return "-"
	}
	return rig.Thousands(float64(c.scenario.size) * 1e3 / c.perOperation(rig.Median(c.contest.Nanos(i))))
}

// ratio compares subject i with the best of a kind. The cell of the best itself
// has its time in bold.
func (c *column) ratio(i int, k kind) string {
	at := c.best(k)
	if at == none {
		return "-"
	}
	if i == at {
		return "**" + rig.Short(time.Duration(c.perOperation(rig.Median(c.contest.Nanos(i))))) + "**"
	}
	r := c.contest.Ratios(i, at)
	low, high := r.Quartiles()
	return fmt.Sprintf("%.2f (%.2f–%.2f)", rig.Median(r), low, high)
}

// few writes a small number, which is seldom whole.
func few(n float64) string {
	if n >= 10 {
		return rig.Thousands(n)
	}
	return strconv.FormatFloat(float64(int(n*10+0.5))/10, 'f', -1, 64)
}

func printBlock(w io.Writer, title string, columns []*column, cell func(c *column, i int) string) {
	fmt.Fprintf(w, "\n| %s |", title)
	for _, c := range columns {
		fmt.Fprintf(w, " %s |", c.scenario.name)
	}
	fmt.Fprint(w, "\n|---|")
	for range columns {
		fmt.Fprint(w, "---:|")
	}
	fmt.Fprintln(w)
	for _, name := range names(columns) {
		fmt.Fprintf(w, "| %s |", name)
		for _, c := range columns {
			text := "-"
			if i := c.find(name); i != none {
				text = cell(c, i)
			}
			fmt.Fprintf(w, " %s |", text)
		}
		fmt.Fprintln(w)
	}
}

// names returns the subjects of all columns in the order of their families.
func names(columns []*column) []string {
	var all []string
	for _, c := range columns {
		at := 0
		for _, s := range c.subjects {
			if i := slices.Index(all, s.name); i >= 0 {
				at = i + 1
				continue
			}
			all = slices.Insert(all, at, s.name)
			at++
		}
	}
	return all
}
