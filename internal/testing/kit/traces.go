package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/strata-cache/strata/remote"
)

// Traces are the commands of which a Trace was told, one in a line. It is safe for
// concurrent use.
type Traces struct {
	// Text is the beginning of a line.
	Text func(remote.Command) string

	mu    sync.Mutex
	lines []string
}

// Trace is for the Options.Trace of a client.
func (r *Traces) Trace(_ context.Context, c remote.Command) func(remote.CommandEnd) {
	line := r.Text(c)
	if c.Script != "" {
		line += ", script " + c.Script
	}
	if c.Batch > 0 {
		line += fmt.Sprintf(", %d together", c.Batch)
	}
	return func(e remote.CommandEnd) {
		if e.Status != "" {
			line += ", " + e.Status
		}
		if e.Err != nil {
			line += ", error"
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lines = append(r.lines, line)
	}
}

// Expect compares all lines, and forgets them.
func (r *Traces) Expect(t *testing.T, want ...string) {
	t.Helper()
	if lines := r.Take(); !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// Take returns all lines, and forgets them.
func (r *Traces) Take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}
