//go:build unix

package rig

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the user and system time of this process.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
