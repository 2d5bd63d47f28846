//go:build !unix

package rig

import "time"

// cpuTime is zero: the system is not asked.
func cpuTime() time.Duration { return 0 }
