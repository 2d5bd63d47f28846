package l1

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"
)

const (
	// stripeKinds is the number of counters in a Striped; they fill one cache
	// line.
	stripeKinds = 8
	// stripeWords makes a stripe two cache lines long, because processors fetch
	// them in pairs.
	stripeWords = 2 * stripeKinds
)

// Striped is a set of eight counters. Goroutines add to it without sharing a
// cache line, as long as there are not many more of them than processors. Make
// it with [NewStriped].
//
// The stripe is picked by the address of the goroutine's stack: each goroutine
// has its own stack and keeps it for long. A random stripe costs more to pick,
// and its line was usually written last by another processor.
type Striped struct {
	stripes []stripe
	shift   uint8
}

type stripe [stripeWords]atomic.Uint64

// NewStriped makes a set of counters that are all zero.
func NewStriped() *Striped {
	n := bits.Len(uint(4*runtime.GOMAXPROCS(0) - 1))
	return &Striped{stripes: make([]stripe, 1<<n), shift: uint8(64 - n)}
}

// Add adds one to the counter kind, 0 to 7, and returns the count of one
// stripe. The caller can use that only as a trigger for periodic work.
func (s *Striped) Add(kind int) uint64 { return s.AddN(kind, 1) }

// AddN adds n to a counter, as Add does.
func (s *Striped) AddN(kind int, n uint64) uint64 {
	var here byte
	// The low 11 bits differ within one stack, and the other bits spread
	// poorly. So the low bits are cut off and the rest is mixed by Knuth's
	// multiplicative hash.
	at := uint64(uintptr(unsafe.Pointer(&here))>>11) * 0x9e3779b97f4a7c15 >> s.shift
	return s.stripes[at][kind&(stripeKinds-1)].Add(n)
}

// Sum returns the value of a counter. Concurrent additions may be missing.
func (s *Striped) Sum(kind int) uint64 {
	var n uint64
	for i := range s.stripes {
		n += s.stripes[i][kind&(stripeKinds-1)].Load()
	}
	return n
}
