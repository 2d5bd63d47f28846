package wire

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/strata-cache/strata/bench/internal/rig"
)

// table is printed in one piece: cases side by side, subjects below each other.
type table struct {
	path       string // of its benchmark, below the network
	title      string
	goroutines int
	context    contextKind
	pinned     bool
	growth     bool // the growth of the process is measured, too
	cases      []scenario
}

// scenario is a column.
type scenario struct {
	name   string
	op     func(subject) op
	stores bool // it writes and does not read
	each   int  // keys of each goroutine
	size   int  // of a value in bytes
	per    int  // operations in a call, 1 unless a call counts as many
	rate   bool // the bytes of values that move in a second are a row, too
}

// Operations, as a scenario names them.
func get(s subject) op     { return s.get }
func set(s subject) op     { return s.set }
func getAll(s subject) op  { return s.getAll }
func setAll(s subject) op  { return s.setAll }
func mget(s subject) op    { return s.mget }
func getTo(s subject) op   { return s.getTo }
func setFrom(s subject) op { return s.setFrom }
func setGet(s subject) op  { return s.setGet }

// redisTables returns all tables of Redis. depths are the lengths of redjet's pipelines.
func redisTables(depths ...int) []table {
	all := []table{{
		path: "sequential", title: "one goroutine, server and client on a processor each",
		goroutines: 1, pinned: true,
		cases: []scenario{
			read(64), write(64), read(1 << 10), write(1 << 10), read(16 << 10), write(16 << 10),
		},
	}}
	for _, n := range []int{8, maxGoroutines} {
		for _, c := range []contextKind{background, fresh, held} {
			all = append(all, table{
				path:       "parallel/" + strconv.Itoa(n) + "/" + c.name(),
				title:      strconv.Itoa(n) + " goroutines, " + c.title(),
				goroutines: n, context: c,
				cases: []scenario{read(64), write(64), read(1 << 10), write(1 << 10), read(16 << 10)},
			})
		}
	}
	const hundred = 100
	all = append(all, table{
		path: "pipeline", title: "pipelines and MGET of 100, a call being all of it", goroutines: 1,
		cases: []scenario{
			{name: "GETx100-", op: getAll, each: hundred, size: 64},
			{name: "GETx100-", op: getAll, each: hundred, size: 1 << 10},
			{name: "SETx100-", op: setAll, stores: true, each: hundred, size: 64},
			{name: "SETx100-", op: setAll, stores: true, each: hundred, size: 1 << 10},
			{name: "SETx100-", op: setAll, stores: true, each: hundred, size: 16 << 10},
			{name: "MGET100-", op: mget, each: hundred, size: 64},
			{name: "MGET100-", op: mget, each: hundred, size: 1 << 10},
			{name: "MGET100-", op: mget, each: hundred, size: 16 << 10},
		},
	}, table{
		path: "stream", title: "values to an io.Writer and from an io.Reader", goroutines: 1, growth: true,
		cases: []scenario{
			{name: "GET-", op: getTo, each: 1, size: 256 << 10},
			{name: "GET-", op: getTo, each: 1, size: 4 << 20},
			{name: "SET-", op: setFrom, stores: true, each: 1, size: 256 << 10},
			{name: "SET-", op: setFrom, stores: true, each: 1, size: 4 << 20},
		},
	})
	redjet := table{
		path: "redjet", title: "redjet's published method, one pipeline of N GETs with its values discarded, for each GET",
		goroutines: 1,
	}
	for _, n := range depths {
		name := "N" + strconv.Itoa(n) + "-"
		redjet.cases = append(redjet.cases, scenario{name: name, op: getAll, each: n, size: 1 << 10, per: n, rate: true})
	}
	return complete(append(all, redjet))
}

// complete names the cases of tables by the size of their values.
func complete(all []table) []table {
	for _, t := range all {
		for i := range t.cases {
			t.cases[i].name += sizeName(t.cases[i].size)
			t.cases[i].per = max(t.cases[i].per, 1)
		}
	}
	return all
}

// keysEach is the number of keys of each goroutine where it has one command at
// a time.
const keysEach = stored / maxGoroutines

func read(size int) scenario { return scenario{name: "GET-", op: get, each: keysEach, size: size} }

func write(size int) scenario {
	return scenario{name: "SET-", op: set, stores: true, each: keysEach, size: size}
}

func sizeName(n int) string {
	switch {
	case n >= 1<<20:
		return strconv.Itoa(n>>20) + "MiB"
	case n >= 1<<10:
		return strconv.Itoa(n>>10) + "KiB"
	}
	return strconv.Itoa(n) + "B"
}

// contextKind is a kind of contexts that calls are made with.
type contextKind int

const (
	background contextKind = iota
	fresh
	held
)

func (k contextKind) name() string { return [...]string{"background", "fresh", "held"}[k] }

func (k contextKind) title() string {
	return [...]string{
		"context.Background",
		"a context.WithTimeout of its own for each call, which counts",
		"a context.WithTimeout for each goroutine, made before",
	}[k]
}

// patience is a timeout that no call reaches, so that no subject gains by giving up.
const patience = time.Minute

// with returns c with contexts of the kind, and a function that ends these contexts.
func (k contextKind) with(c call, goroutines int) (f func(g, i int) error, end func()) {
	switch k {
	case fresh:
		return func(g, i int) error {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			return c(ctx, g, i)
		}, func() {}
	case held:
		contexts := make([]context.Context, goroutines)
		cancels := make([]func(), goroutines)
		for g := range contexts {
			contexts[g], cancels[g] = context.WithTimeout(context.Background(), 24*time.Hour)
		}
		return func(g, i int) error { return c(contexts[g], g, i) }, func() { each(cancels) }
	}
	return func(g, i int) error { return c(context.Background(), g, i) }, func() {}
}

// job returns the work of the table's goroutines in a scenario.
func (t table) job(s scenario) *job { return newJob(t.goroutines, s.each, s.size) }

// ways returns the subjects that take part in a scenario, and the way of each.
// The caller calls end after the last call.
func (t table) ways(s scenario, j *job, subjects []subject) (part []subject, ways []rig.Way, end func()) {
	var ends []func()
	for _, one := range subjects {
		prepare := s.op(one)
		if prepare == nil {
			continue
		}
		f, stop := t.context.with(prepare(j), t.goroutines)
		part, ends = append(part, one), append(ends, stop)
		ways = append(ways, rig.Way{Name: one.name, Call: f})
	}
	return part, ways, func() { each(ends) }
}

// openAll opens every subject of a system.
func (s *system) openAll(at endpoint) (subjects []subject, end func(), err error) {
	var ends []func()
	end = func() { each(ends) }
	for _, open := range s.openers {
		f, err := open(at)
		if err != nil {
			end()
			return nil, nil, fmt.Errorf("wire: opening: %w", err)
		}
		subjects, ends = append(subjects, f.subjects...), append(ends, f.close)
	}
	return subjects, end, nil
}

func each(fs []func()) {
	for _, f := range fs {
		f()
	}
}
