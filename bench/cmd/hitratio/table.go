package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/strata-cache/strata/internal/testing/sim"
)

// Form of the tables, which fit 80 columns.
const (
	perTable  = 6 // policies
	reference = "tinylfu"
)

// row is a line of a table: hit ratios in percent, one per policy.
type row struct {
	name    string
	entries int // 0 in means
	ratios  []float64
}

// table has the rows of all traces, and their means.
type table struct {
	policies []string
	rows     []row // one per trace and capacity
	traces   []row // one per trace: the mean of its rows
	tooSmall []string
}

// measure runs all policies on all traces.
func measure(traces []*sim.Trace, policies []string) (*table, error) {
	var cells []sim.Cell
	for _, t := range traces {
		for _, capacity := range t.Capacities() {
			for _, p := range policies {
				cells = append(cells, sim.Cell{Trace: t, Capacity: capacity, Policy: p})
			}
		}
	}
	results, err := sim.RunAll(cells)
	if err != nil {
		return nil, err
	}
	t := &table{policies: policies}
	for _, trace := range traces {
		n := len(trace.Capacities())
		t.add(trace, results[:n*len(policies)])
		results = results[n*len(policies):]
	}
	return t, nil
}

// add adds the rows of one trace.
func (t *table) add(trace *sim.Trace, results []sim.Result) {
	capacities := trace.Capacities()
	if len(capacities) == 0 {
		t.tooSmall = append(t.tooSmall, trace.Name)
		return
	}
	var rows []row
	for i, each := range slices.Collect(slices.Chunk(results, len(t.policies))) {
		r := row{name: trace.Name, entries: capacities[i]}
		for _, result := range each {
			r.ratios = append(r.ratios, 100*result.Ratio())
		}
		rows = append(rows, r)
	}
	t.rows = append(t.rows, rows...)
	t.traces = append(t.traces, mean(trace.Name, rows))
}

// mean returns the mean of rows, of which there is at least one.
func mean(name string, rows []row) row {
	m := row{name: name, ratios: make([]float64, len(rows[0].ratios))}
	for _, r := range rows {
		for i, ratio := range r.ratios {
			m.ratios[i] += ratio / float64(len(rows))
		}
	}
	return m
}

// print writes the hit ratios, and the differences to the reference if it was run.
func (t *table) print(out io.Writer) error {
	var text strings.Builder
	if len(t.rows) > 0 {
		t.write(&text, "hit ratio, percent", append(t.rows, mean("mean", t.traces)), "%8.2f")
		if at := slices.Index(t.policies, reference); at >= 0 {
			t.write(&text, "points above "+reference, append(t.differences(at), mean("mean", t.differences(at))), "%+8.2f")
		}
	}
	for _, name := range t.tooSmall {
		fmt.Fprintf(&text, "%s: too few distinct keys for any capacity\n", name)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// differences returns the means of traces, each minus the mean of one policy.
func (t *table) differences(at int) (all []row) {
	for _, r := range t.traces {
		d := row{name: r.name}
		for _, ratio := range r.ratios {
			d.ratios = append(d.ratios, ratio-r.ratios[at])
		}
		all = append(all, d)
	}
	return all
}

// write writes rows as tables of perTable policies each.
func (t *table) write(text *strings.Builder, title string, rows []row, format string) {
	for from := 0; from < len(t.policies); from += perTable {
		to := min(from+perTable, len(t.policies))
		fmt.Fprintf(text, "%-20.20s%8s", title, "entries")
		for _, p := range t.policies[from:to] {
			fmt.Fprintf(text, "%8s", p)
		}
		text.WriteString("\n")
		for _, r := range rows {
			r.write(text, from, to, format)
		}
		text.WriteString("\n")
	}
}

func (r row) write(text *strings.Builder, from, to int, format string) {
	entries := ""
	if r.entries > 0 {
		entries = fmt.Sprint(r.entries)
	}
	fmt.Fprintf(text, "%-20.20s%8s", r.name, entries)
	for _, ratio := range r.ratios[from:to] {
		fmt.Fprintf(text, format, ratio)
	}
	text.WriteString("\n")
}
