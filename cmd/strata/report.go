package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strata-cache/strata/cmd/strata/load"
	"github.com/strata-cache/strata/internal/wire"
)

// describeLoad describes the options of a load in one line.
func describeLoad(o load.Options) string {
	text := describeRate(o) + " for " + seconds(o.Duration)
	if o.Cardinality > 1 || o.Group > 1 {
		text += ", " + plural(int64(o.Cardinality), "URL", "URLs")
	}
	if o.Group > 1 {
		text += " in groups of " + count(int64(o.Group))
	}
	return text + ", up to " + count(int64(o.Concurrency)) + " at once"
}

// describeChanges describes the changes of a running load in one line.
func describeChanges(r *load.Result) string {
	o := load.Options{Rate: r.Settings.Rate, Concurrency: r.Settings.Concurrency}
	text := plural(int64(r.Changes), "time", "times") + " while it ran, to " + describeRate(o) + ", up to " + count(int64(o.Concurrency)) + " at once"
	if r.Settings.Paused {
		text += ", paused"
	}
	return text
}

// describeRate describes a rate.
func describeRate(o load.Options) string {
	if o.Rate > 0 {
		return rate(o.Rate) + " requests/s"
	}
	return "unlimited requests/s"
}

// describeErrors lists the errors in one line, the most frequent first.
func describeErrors(r *load.Result) string {
	type failure struct {
		n    int64
		text string
	}
	var all []failure
	for code, n := range r.Status {
		if code >= firstError {
			all = append(all, failure{n, fmt.Sprintf("%s × %s", count(n), status(code))})
		}
	}
	for kind, n := range r.Errors {
		text := fmt.Sprintf("%s × %s", count(n), kind)
		// Other errors have no text of their own: one of them stands for all.
		if kind == load.OtherError && r.ErrorExample != "" {
			text += " (" + r.ErrorExample + ")"
		}
		all = append(all, failure{n, text})
	}
	slices.SortFunc(all, func(a, b failure) int {
		if a.n != b.n {
			return int(b.n - a.n)
		}
		return strings.Compare(a.text, b.text)
	})
	var texts []string
	for _, f := range all {
		texts = append(texts, f.text)
	}
	return strings.Join(texts, ", ")
}

// status returns a status code with its name.
func status(code int) string {
	return strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
}

// target returns the URL without secrets, as text without commands to a terminal.
func target(o load.Options) string { return graphic(wire.CleanURL(o.URL)) }

// writeReport writes a result for people.
func writeReport(w io.Writer, o load.Options, r *load.Result) error {
	ended := ""
	if r.Interrupted {
		ended = " (interrupted)"
	}
	f := facts{
		{"target", target(o)},
		{"load", describeLoad(o)},
		{"done", fmt.Sprintf("%s in %s%s: %s requests/s", plural(r.Done, "request", "requests"), duration(r.Elapsed), ended, rate(r.Rate()))},
		{"received", bytes(r.Bytes)},
	}
	if bad := r.Failed() + r.Refused(); bad > 0 {
		f = append(f, [2]string{"errors", plural(bad, "request", "requests") + ": " + errorShare(bad, r.Done)})
	}
	if r.Changes > 0 {
		f = append(f, [2]string{"changed", describeChanges(r)})
	}
	if r.Unsent > 0 {
		f = append(f, [2]string{"unsent", plural(r.Unsent, "request", "requests") + " of the schedule: the target could not keep up"})
	}
	if err := f.write(w); err != nil {
		return err
	}
	// Errors and codes are listed apart: an answer with a code has a latency, an error may have
	// none.
	for _, t := range []*table{latencyTable(o, r), statusTable(r), errorTable(r)} {
		if len(t.rows) == 0 {
			continue
		}
		fmt.Fprintln(w)
		if err := t.write(w); err != nil {
			return err
		}
	}
	return nil
}

// latencyTable has the latencies from the intended start, and from the sending: the difference is
// the time for which requests waited for the target.
func latencyTable(o load.Options, r *load.Result) *table {
	t := &table{head: []string{"latency from", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"}}
	add := func(name string, l load.Latencies) {
		t.add(name, duration(l.Mean), duration(l.P50), duration(l.P90), duration(l.P95), duration(l.P99), duration(l.P999), duration(l.Max))
	}
	if r.Latency.Count == 0 {
		return t
	}
	// Without a rate the two lines would be the same.
	if o.Rate > 0 || r.Latency != r.Service { // the rate may have been set while it ran
		add("intended start", r.Latency)
	}
	add("sending", r.Service)
	return t
}

func statusTable(r *load.Result) *table {
	t := &table{head: []string{"status", "answers", "share"}}
	for _, code := range slices.Sorted(maps.Keys(r.Status)) {
		t.add(status(code), count(r.Status[code]), share(r.Status[code], r.Done))
	}
	return t
}

func errorTable(r *load.Result) *table {
	t := &table{head: []string{"error", "requests", "share"}}
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		t.add(string(kind), count(r.Errors[kind]), share(r.Errors[kind], r.Done))
	}
	if r.ErrorExample != "" {
		t.add("other, for example: " + r.ErrorExample)
	}
	return t
}

// share is a part in percent. of is not zero in a table, which has a row only for requests that
// there were.
func share(n, of int64) string {
	return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(of))
}

// report is a result for programs. Times are in milliseconds unless the name
// says otherwise.
type report struct {
	Target          string              `json:"target"`
	ElapsedSeconds  float64             `json:"elapsed_seconds"`
	Interrupted     bool                `json:"interrupted"`
	Requests        int64               `json:"requests"`
	RequestsPerSec  float64             `json:"requests_per_second"`
	Unsent          int64               `json:"unsent"`
	ReceivedBytes   int64               `json:"received_bytes"`
	Changes         int                 `json:"changes_while_running,omitempty"`
	Status          map[int]int64       `json:"status"`
	Errors          map[load.Kind]int64 `json:"errors"`
	ErrorExample    string              `json:"error_example,omitempty"`
	IntendedLatency latencyReport       `json:"latency_from_intended_start_ms"`
	ServiceLatency  latencyReport       `json:"latency_from_sending_ms"`
}

type latencyReport struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
}

func newReport(o load.Options, r *load.Result) report {
	latency := func(l load.Latencies) latencyReport {
		return latencyReport{ms(l.Mean), ms(l.P50), ms(l.P90), ms(l.P95), ms(l.P99), ms(l.P999), ms(l.Max)}
	}
	return report{
		Target:          target(o),
		ElapsedSeconds:  r.Elapsed.Seconds(),
		Interrupted:     r.Interrupted,
		Requests:        r.Done,
		RequestsPerSec:  r.Rate(),
		Unsent:          r.Unsent,
		ReceivedBytes:   r.Bytes,
		Changes:         r.Changes,
		Status:          r.Status,
		Errors:          r.Errors,
		ErrorExample:    r.ErrorExample,
		IntendedLatency: latency(r.Latency),
		ServiceLatency:  latency(r.Service),
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
