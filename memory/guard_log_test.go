package memory_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/strata-cache/strata/memory"
)

// sink is the sink of a log whose function does not return, or panics.
type sink struct {
	slog.Handler
	handle func()
}

func (sink) Enabled(context.Context, slog.Level) bool { return true }

func (s sink) Handle(context.Context, slog.Record) error {
	s.handle()
	return nil
}

// TestLogOfAGuardHoldsUpNothing has sinks that block or panic while an episode begins, and while the guard closes.
func TestLogOfAGuardHoldsUpNothing(t *testing.T) {
	free := make(chan struct{})
	defer close(free)
	for name, handle := range map[string]func(){"blocks": func() { <-free }, "panics": func() { panic("the sink has gone") }} {
		t.Run(name, func(t *testing.T) {
			done := make(chan memory.GuardStats)
			go func() {
				g, err := memory.NewGuard(memory.GuardOptions{Limit: 16 << 20, Logger: slog.New(sink{slog.DiscardHandler, handle})})
				if err != nil {
					t.Error(err)
				}
				c := mustNew(t, memory.Options[int, []byte]{Guard: g, MaxEntries: 1 << 30})
				for key := 0; key < mostFilled && g.Stats().Evicted == 0; key++ {
					c.Set(key, make([]byte, 1<<10))
				}
				c.Close()
				g.Close()
				done <- g.Stats()
			}()
			select {
			case s := <-done:
				if s.Episodes == 0 {
					t.Errorf("no line was logged: %+v", s)
				}
			case <-time.After(time.Minute):
				t.Fatal("the sink holds up the guard")
			}
		})
	}
}
