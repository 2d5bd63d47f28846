package stage

import (
	"context"
	"fmt"
	"sync"

	"github.com/dustin/go-humanize"

	"github.com/strata-cache/strata/cmd/strata/hello"
	"github.com/strata-cache/strata/memory"
)

// fillRate is how many bytes of reports the action fill stores in a second: the limit of
// DefaultMemoryLimit in eight seconds.
const fillRate = 32 << 20

// filler fills the memory of the process with reports, beside the greetings. Both have one guard.
type filler struct {
	guard   *memory.Guard
	reports *hello.Reports

	mu  sync.Mutex // guards below
	end func()     // ends the filling, and waits for its end; nil while nothing is filled
}

func (f *filler) open(limit int64) (err error) {
	if f.guard, err = memory.NewGuard(memory.GuardOptions{Limit: limit}); err != nil {
		return err
	}
	f.reports, err = hello.NewReports(f.guard)
	return err
}

// close ends the filling, the guard and the cache of reports. It may be called after an open that has failed, or
// without one.
func (f *filler) close(ctx context.Context) (err error) {
	f.off()
	f.guard.Close()
	if f.reports != nil {
		err = f.reports.Close(ctx)
	}
	return err
}

// fills reports whether the memory is being filled.
func (f *filler) fills() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end != nil
}

// on begins to fill, unless that has begun already.
func (f *filler) on() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var filling sync.WaitGroup
	filling.Go(func() { _ = f.reports.Fill(ctx, fillRate) }) // it stores in memory alone, which cannot fail
	f.end = func() { cancel(); filling.Wait() }
}

// off ends the filling.
func (f *filler) off() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end != nil {
		f.end()
		f.end = nil
	}
}

func (s *Stage) changeFill(ctx context.Context, args []string) (string, error) {
	f := &s.filler
	if args[0] == "on" {
		f.on()
		return fmt.Sprintf("Reports are stored, %s a second, and nothing reads them. Greetings and reports have one guard.", humanize.IBytes(fillRate)), nil
	}
	f.off()
	m := f.reports.Memory()
	if err := f.reports.Clear(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("The reports are dropped. %s of them were stored so far, and the guard has evicted %d reports and %d greetings.",
		humanize.IBytes(uint64(max(0, m.Stored))), m.Reports, m.Evicted-m.Reports), nil
}
