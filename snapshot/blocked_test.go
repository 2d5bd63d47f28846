package snapshot_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/snapshot"
)

// blocked is a handler of a log that does not return before its channel is closed.
type blocked struct{ end chan struct{} }

func (b blocked) Enabled(context.Context, slog.Level) bool  { <-b.end; return true }
func (b blocked) Handle(context.Context, slog.Record) error { return nil }
func (b blocked) WithAttrs([]slog.Attr) slog.Handler        { return b }
func (b blocked) WithGroup(string) slog.Handler             { return b }

// TestLogAndProgressThatBlockHoldNothingUp writes and reads a snapshot with a Logger and a Progress
// that do not return.
func TestLogAndProgressThatBlockHoldNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		defer close(end)
		o := snapshot.Options{Logger: slog.New(blocked{end}), Progress: func(snapshot.Progress) { <-end }, BytesPerSecond: 100_000}
		from, to := alone(t, "users", 5000), alone(t, "users", 0)
		var b bytes.Buffer
		begun := time.Now()
		if _, err := snapshot.Write(t.Context(), &b, o, from); err != nil {
			t.Error(err)
		}
		o.BytesPerSecond = 0
		if r, err := snapshot.Read(t.Context(), &b, o, to); err != nil || r.Entries() != 5000 {
			t.Errorf("%d entries, %v", r.Entries(), err)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
