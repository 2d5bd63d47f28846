//go:build linux

package cluster

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/strata-cache/strata/internal/testing/checker"
)

// Clock is the beginning of a clock that all processes of the host share, in
// nanoseconds of CLOCK_MONOTONIC. It goes on while a process is stopped.
type Clock int64

// NewClock returns a Clock that begins a second ago, so that the state before
// the first call has a time of its own.
func NewClock() Clock { return Clock(monotonic() - int64(time.Second)) }

// Now is the time since the clock began.
func (c Clock) Now() checker.Time { return checker.Time(monotonic() - int64(c)) }

func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("cluster: no monotonic clock: " + err.Error()) // no Linux is without
	}
	return ts.Nano()
}
