//go:build !unix

package rig

import "time"

// cpuTime is zero on systems without getrusage.
func cpuTime() time.Duration { return 0 }
