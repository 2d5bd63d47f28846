package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/mattn/go-isatty"

	"github.com/strata-cache/strata/cmd/strata/load"
)

// liveLine is the last line of a terminal, overwritten by each text. Without a terminal
// it writes nothing.
type liveLine struct {
	w  io.Writer
	on bool

	mu    sync.Mutex // guards dirty
	dirty bool
}

func newLiveLine(w io.Writer) *liveLine {
	return &liveLine{w: w, on: isTerminal(w) && os.Getenv("TERM") != "dumb"}
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// show replaces the line.
func (l *liveLine) show(text string) {
	if !l.on {
		return
	}
	l.mu.Lock()
	l.dirty = true
	l.mu.Unlock()
	fmt.Fprint(l.w, "\r\x1b[K"+text)
}

// clear empties the line.
func (l *liveLine) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Without a line there is nothing to clear, and perhaps no terminal.
	if l.dirty {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
	l.dirty = false
}

// follower turns the states of a running load into lines. The answers of a line, and their latencies,
// are those since the line before. Its zero value is at the start of a load.
type follower struct {
	// short leaves out all but the share of errors, for a line of a terminal.
	short bool

	done     int64
	status   map[int]int64
	failures map[load.Kind]int64
}

// maxAnswers is the number of status codes and errors that a line names.
const maxAnswers = 4

// line is the text for a state.
func (f *follower) line(p load.Progress) string {
	text := fmt.Sprintf("%4.1f s  %s requests/s  p50 %s  p99 %s", p.Elapsed.Seconds(), rate(p.Rate), duration(p.Recent.P50), duration(p.Recent.P99))
	if answers := f.answers(p); answers != "" {
		text += "  " + answers
	}
	f.done, f.status, f.failures = p.Done, p.Status, p.Failures
	return text
}

// answers counts the answers since the line before, the most frequent first, such as
// "200 × 480, 503 × 20: 4.00 % are errors".
func (f *follower) answers(p load.Progress) string {
	type answer struct {
		text string
		n    int64
	}
	var all []answer
	bad := int64(0)
	for _, code := range slices.Sorted(maps.Keys(p.Status)) {
		n := p.Status[code] - f.status[code]
		if all = append(all, answer{fmt.Sprint(code), n}); code >= firstError {
			bad += n
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(p.Failures)) {
		n := p.Failures[kind] - f.failures[kind]
		all = append(all, answer{string(kind), n})
		bad += n
	}
	all = slices.DeleteFunc(all, func(a answer) bool { return a.n == 0 })
	// Equal counts keep the order of codes, so that a line does not change its order each second.
	slices.SortStableFunc(all, func(a, b answer) int { return cmp.Compare(b.n, a.n) })
	if f.short {
		return shortShare(bad, p.Done-f.done)
	}
	rest := int64(0)
	for _, a := range all[min(len(all), maxAnswers):] {
		rest += a.n
	}
	if all = all[:min(len(all), maxAnswers)]; rest > 0 {
		all = append(all, answer{"others", rest})
	}
	var texts []string
	for _, a := range all {
		texts = append(texts, a.text+" × "+count(a.n))
	}
	text := strings.Join(texts, ", ")
	if bad > 0 {
		text += ": " + errorShare(bad, p.Done-f.done)
	}
	return text
}

// firstError is the first status code of an error.
const firstError = 400

// errorShare says which part of some requests are errors.
func errorShare(bad, of int64) string {
	if bad >= of {
		return "all are errors"
	}
	return share(bad, of) + " are errors"
}

// shortShare is errorShare without a verb, and empty without errors.
func shortShare(bad, of int64) string {
	if bad == 0 {
		return ""
	}
	return strings.Replace(errorShare(bad, of), " are", "", 1)
}
