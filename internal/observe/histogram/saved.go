package histogram

import (
	"math"
	"sync"
	"time"
)

// Saved is the time that callers did not wait for the origin. Its zero value is none. It is
// safe for concurrent use.
type Saved struct {
	mu    sync.Mutex
	reads uint64 // counted in sum
	sum   time.Duration
}

// UpTo returns the time saved so far. reads is the number of reads since the cache was
// made, mean the mean duration of loads. Reads since the last call count with this mean.
// While no load has ended, mean is zero, and reads are left for later. The sum never
// falls.
func (s *Saved) UpTo(reads uint64, mean time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mean > 0 && reads > s.reads {
		s.sum += time.Duration(min(float64(reads-s.reads)*float64(mean), math.MaxInt64/2-float64(s.sum)))
		s.reads = reads
	}
	return s.sum
}
