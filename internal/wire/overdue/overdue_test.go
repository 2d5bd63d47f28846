package overdue_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/wire/overdue"
)

// unpunctual is a context with a timer that has not run yet.
type unpunctual struct {
	context.Context
	deadline time.Time
}

func (u unpunctual) Deadline() (time.Time, bool) { return u.deadline, true }

func TestPassedDeadlineIsTheReasonBeforeTheTimerHasRun(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx       context.Context
		err, want error
	}{
		"no deadline":          {t.Context(), io.EOF, io.EOF},
		"time left":            {unpunctual{t.Context(), time.Now().Add(time.Hour)}, io.EOF, io.EOF},
		"passed":               {unpunctual{t.Context(), time.Now()}, io.EOF, context.DeadlineExceeded},
		"passed and cancelled": {unpunctual{cancelled, time.Now()}, io.EOF, context.Canceled},
		"well, time left":      {t.Context(), nil, nil},
		"passed, no error":     {unpunctual{t.Context(), time.Now()}, nil, context.DeadlineExceeded},
	} {
		if got := overdue.Reason(c.ctx, c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if err := overdue.Err(unpunctual{t.Context(), time.Now()}); err != context.DeadlineExceeded {
		t.Errorf("Err: %v", err)
	}
}
