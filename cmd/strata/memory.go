package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/strata-cache/strata/cmd/strata/hello"
	"github.com/strata-cache/strata/memory"
)

const (
	// leastMemory is what the demo needs without its caches.
	leastMemory = 64 << 20
	// mostFill is the most that the mode fill stores in a second: more would take the processors from the service.
	mostFill = 128 << 20
	// lookEvery is the time between two looks at the memory of the process.
	lookEvery = 20 * time.Millisecond
)

// memoryLimit parses --memory-limit. usual is the limit without the flag.
func (f *stageFlags) memoryLimit(usual int64) (int64, error) {
	if f.Memory == "" {
		return usual, nil
	}
	n, err := humanize.ParseBytes(f.Memory)
	if err != nil || n > 1<<50 {
		return 0, fmt.Errorf("--memory-limit: %q is no size such as 256MiB", f.Memory)
	}
	if n < leastMemory {
		return 0, fmt.Errorf("--memory-limit: %s are less than %s", humanize.IBytes(n), humanize.IBytes(leastMemory))
	}
	return int64(n), nil
}

// limitMemory sets the limit of the memory of the process for the collector, unless it is 0. The limit ends with undo.
func limitMemory(limit int64) (undo func()) {
	if limit == 0 {
		return func() {}
	}
	before := debug.SetMemoryLimit(limit)
	return func() { debug.SetMemoryLimit(before) }
}

// limited is the memory of a demo: a guard, and the reports that fill it. Without --memory-limit it has neither.
type limited struct {
	guard   *memory.Guard
	reports *hello.Reports
	undo    func()
}

// openMemory limits the memory of the process, unless the limit is 0.
func openMemory(limit int64) (l *limited, err error) {
	l = &limited{undo: limitMemory(limit)}
	if limit == 0 {
		return l, nil
	}
	if l.guard, err = memory.NewGuard(memory.GuardOptions{Limit: limit}); err == nil {
		l.reports, err = hello.NewReports(l.guard)
	}
	if err != nil {
		l.close()
	}
	return l, err
}

func (l *limited) close() {
	l.guard.Close()
	if l.reports != nil {
		_ = l.reports.Close(context.Background()) // it has no L2 and no load that could keep it
	}
	l.undo()
}

// fill begins to fill the memory in the phase fill: with twice its limit in the given time, or with less if that
// is more than mostFill a second. filled ends that, and returns what became of it.
func (l *limited) fill(p phase, within time.Duration) (filled func() hello.Memory) {
	if p != fill {
		return func() hello.Memory { return hello.Memory{} }
	}
	before := l.reports.Memory()
	rate := min(mostFill, int64(2*float64(before.Limit)/within.Seconds()))
	ctx, end := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = l.reports.Fill(ctx, rate) }) // it stores in memory alone, which cannot fail
	most := before
	work.Go(func() {
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		for {
			m := l.reports.Memory()
			most.Used, most.Heap, most.Ceiling = max(most.Used, m.Used), max(most.Heap, m.Heap), m.Ceiling
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
		}
	})
	return func() hello.Memory {
		end()
		work.Wait()
		after := l.reports.Memory()
		most.Evicted, most.Reports, most.Stored = after.Evicted-before.Evicted, after.Reports-before.Reports, after.Stored-before.Stored
		_ = l.reports.Clear(context.Background()) // as above
		return most
	}
}

// facts are a line about the phase fill.
func (l *limited) facts(phases []phase) facts {
	if !slices.Contains(phases, fill) {
		return nil
	}
	return facts{{string(fill), "the mode strata, while reports of 1 to 64 KiB that nothing reads fill a memory of " + humanize.IBytes(uint64(max(0, l.reports.Memory().Limit)))}}
}

// describeFill says what became of the memory.
func describeFill(m hello.Memory) string {
	size := func(n int64) string { return humanize.IBytes(uint64(max(0, n))) }
	return fmt.Sprintf("%s: %s of reports were stored; the process had %s of %s at most, and a live heap of %s at most, of which the guard evicts from %s on; it has evicted %s and %s",
		fill, size(m.Stored), size(m.Used), size(m.Limit), size(m.Heap), size(m.Ceiling), plural(m.Reports, "report", "reports"), plural(m.Evicted-m.Reports, "greeting", "greetings"))
}
