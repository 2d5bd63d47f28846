// Histograms: durations and sizes in buckets of doubling width, without locks.
//
// Durations are counted in units of 2⁻²⁰ seconds, 0.954 µs, so that the upper bound of each
// bucket is a power of two of seconds. These are the bounds of a native histogram of
// Prometheus with schema 0 and of an exponential histogram of OpenTelemetry with scale 0:
// the conversion to either moves nothing from one bucket to another.

package observe

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DurationBuckets is the number of buckets of a [Durations]: the bound of the last but one is
	// 2²² s, 48 days.
	DurationBuckets = 44
	// UnitBits says that a unit is 2^-UnitBits seconds.
	UnitBits = 20
	// SizeBuckets is the number of buckets of a [Sizes]: the bound of the last but one is
	// 1 GiB.
	SizeBuckets = 32
)

// DurationBound returns the upper bound of bucket i of a [Durations], which belongs to it: 2^i units,
// rounded down to a nanosecond. The last bucket has none: its durations are longer than
// DurationBound(DurationBuckets - 2).
func DurationBound(i int) time.Duration {
	if i >= UnitBits {
		return time.Second << (i - UnitBits)
	}
	return time.Second << i >> UnitBits
}

// bucket returns the lowest bucket with a bound that d does not exceed.
func bucket(d time.Duration) int {
	hi, lo := bits.Mul64(uint64(max(d, 0)), 1<<UnitBits)
	if hi >= uint64(time.Second) {
		return DurationBuckets - 1
	}
	units, rest := bits.Div64(hi, lo, uint64(time.Second))
	if rest > 0 {
		units++
	}
	return min(bits.Len64(max(units, 1)-1), DurationBuckets-1)
}

// Durations counts durations. The zero Durations is empty, and takes 16 bytes until the first
// duration. It is safe for concurrent use, and must not be copied.
type Durations struct {
	made atomic.Pointer[buckets] // nil while no duration was added
	sum  atomic.Int64
}

type buckets [DurationBuckets]atomic.Uint64

// buckets returns the buckets, which it makes at the first call.
func (h *Durations) buckets() *buckets {
	if b := h.made.Load(); b != nil {
		return b
	}
	h.made.CompareAndSwap(nil, new(buckets))
	return h.made.Load()
}

// Add counts d. A negative d counts as zero.
func (h *Durations) Add(d time.Duration) {
	d = max(d, 0)
	h.buckets()[bucket(d)].Add(1)
	h.sum.Add(int64(d))
}

// Read returns the number of durations in each bucket and their sum. Durations added
// meanwhile may be in one and not in the other.
func (h *Durations) Read() (n [DurationBuckets]uint64, sum time.Duration) {
	if b := h.made.Load(); b != nil {
		for i := range b {
			n[i] = b[i].Load()
		}
	}
	return n, time.Duration(h.sum.Load())
}

// Mean returns the mean of all durations, zero if there are none.
func (h *Durations) Mean() time.Duration {
	buckets, sum := h.Read()
	n := SumOf(buckets[:])
	if n == 0 {
		return 0
	}
	return sum / time.Duration(n)
}

// Sizes counts sizes in bytes. The zero Sizes is empty. It is safe for concurrent use, and
// must not be copied.
type Sizes struct {
	buckets [SizeBuckets]atomic.Uint64
	sum     atomic.Uint64
}

// Add counts a size. Bucket i has the sizes of up to 2^i bytes that no lower bucket has, the
// last one all larger sizes.
func (h *Sizes) Add(n int) {
	n = max(n, 0)
	h.buckets[min(bits.Len(uint(max(n, 1)-1)), SizeBuckets-1)].Add(1)
	h.sum.Add(uint64(n))
}

// Read returns the number of sizes in each bucket and their sum, as [Durations.Read] does.
func (h *Sizes) Read() (n [SizeBuckets]uint64, sum uint64) {
	for i := range h.buckets {
		n[i] = h.buckets[i].Load()
	}
	return n, h.sum.Load()
}

// SumOf is the sum of all buckets.
func SumOf(buckets []uint64) (n uint64) {
	for _, b := range buckets {
		n += b
	}
	return n
}

// Quantile returns the index of the bucket in which the sum reaches a share q (0 to 1) of all
// counts; -1 if the buckets are empty.
func Quantile(buckets []uint64, q float64) int {
	rank := uint64(math.Ceil(min(max(q, 0), 1) * float64(SumOf(buckets))))
	var seen uint64
	for i, b := range buckets {
		if seen += b; b > 0 && seen >= rank {
			return i
		}
	}
	return -1
}

// RaiseTo makes n at least v.
func RaiseTo(n *atomic.Uint64, v uint64) {
	for {
		old := n.Load()
		if v <= old || n.CompareAndSwap(old, v) {
			return
		}
	}
}

// RoundDuration returns d in three digits: 3.01 s for 3.012364119 s. A minute or more is in seconds, an hour
// or more in minutes.
func RoundDuration(d time.Duration) time.Duration {
	switch a := d.Abs(); {
	case a >= time.Hour:
		return d.Round(time.Minute)
	case a >= time.Minute:
		return d.Round(time.Second)
	default:
		digit := time.Duration(1)
		for ; a/digit >= 1000; digit *= 10 {
		}
		return d.Round(digit)
	}
}

// Disjoint splits misses into misses with a foreign value and others: a foreign value counts
// as a miss, too. A Tier counts a foreign value before its cache counts the miss, so the
// difference of the two numbers might fall. The parts here never do.
type Disjoint struct {
	mu              sync.Mutex
	misses, foreign uint64 // so far; foreign is a part of misses
}

// Split returns the number of misses without a foreign value, and the number of misses with one.
func (d *Disjoint) Split(misses, foreign uint64) (rest, counted uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	misses, foreign = max(misses, d.misses), max(foreign, d.foreign)
	d.foreign += min(foreign-d.foreign, misses-d.misses)
	d.misses = misses
	return misses - d.foreign, d.foreign
}

// SavedTime is the time that callers did not wait for the origin. Its zero value is none. It is
// safe for concurrent use.
type SavedTime struct {
	mu    sync.Mutex
	reads uint64 // counted in sum
	sum   time.Duration
}

// UpTo returns the time saved so far. reads is the number of reads since the cache was
// made, mean the mean duration of loads. Reads since the last call count with this mean.
// While no load has ended, mean is zero, and reads are left for later. The sum never
// falls.
func (s *SavedTime) UpTo(reads uint64, mean time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mean > 0 && reads > s.reads {
		s.sum += time.Duration(min(float64(reads-s.reads)*float64(mean), math.MaxInt64/2-float64(s.sum)))
		s.reads = reads
	}
	return s.sum
}
