package strata

import (
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/strata-cache/strata/internal/cache/l2"
	"github.com/strata-cache/strata/internal/observe/histogram"
	"github.com/strata-cache/strata/internal/observe/program"
)

// Parts describe the make of a cache. They do not change.
type Parts struct {
	// Service is Options.Service.
	Service string
	// Version is the version of this module in the program, or "unknown".
	Version string
	// Schema is the name of the codec, with the fingerprint of the type of values in
	// hexadecimal digits: instances with another schema do not share values. Empty without a
	// Tier.
	Schema string
	// L2 and Bus are the Go types of the Tier and the Bus, or empty.
	L2, Bus string
	// L2Server is the address of the server of L2, or of all its servers; empty without a Tier
	// that tells it.
	L2Server string
	// Partition is "available" or "strict"; see [Partition].
	Partition string
	// Instance is the name of this instance: the host, the number of the process, and a
	// random number in hexadecimal digits.
	Instance string
}

// Histogram counts durations in buckets of doubling width, in units of 2⁻²⁰ seconds
// (0.954 µs). The bounds of its buckets are those of a native histogram of Prometheus with
// schema 0 and of an exponential histogram of OpenTelemetry with scale 0, so that both hold
// the same counts. The zero Histogram is empty.
type Histogram struct {
	// Buckets[i] counts durations of Bound(i) at most that no lower bucket counts. The last
	// one counts all that are longer.
	Buckets [histogram.DurationBuckets]uint64
	// Sum is the sum of all durations.
	Sum time.Duration
}

// Bound returns the upper bound of bucket i of a Histogram, which belongs to the bucket:
// 2^(i-20) seconds, rounded down to a nanosecond; the longest duration for the last bucket.
// i must be an index of Buckets.
func (h Histogram) Bound(i int) time.Duration {
	if i == len(h.Buckets)-1 {
		return math.MaxInt64
	}
	return histogram.Bound(i)
}

// Count is the number of durations.
func (h Histogram) Count() (n uint64) {
	for _, b := range h.Buckets {
		n += b
	}
	return n
}

// Quantile returns a duration that a share q (0 to 1) of all durations does
// not exceed: the upper end of its bucket, so up to twice the exact one. It is
// zero for an empty histogram.
func (h Histogram) Quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(min(max(q, 0), 1) * float64(h.Count())))
	var seen uint64
	for i, b := range h.Buckets {
		if seen += b; b > 0 && seen >= rank {
			return h.Bound(i)
		}
	}
	return 0
}

// durations returns the counts of d; none for nil.
func durations(d *histogram.Durations) (h Histogram) {
	if d != nil {
		h.Buckets, h.Sum = d.Read()
	}
	return h
}

// SizeHistogram counts sizes in bytes in buckets of doubling width. The zero SizeHistogram is
// empty.
type SizeHistogram struct {
	// Buckets[i] counts sizes of 2^i bytes at most that no lower bucket counts. The last
	// one counts all that are larger.
	Buckets [histogram.SizeBuckets]uint64
	// Sum is the sum of all sizes.
	Sum uint64
}

// OperationStats are the numbers of one operation on L2 with one result.
type OperationStats struct {
	// Operation is "get", "tags", "acquire", "put", "extend", "renew", "release", "drop",
	// "drop_tags" or "drop_all".
	Operation string
	// Result is "ok", "error", "timeout" or "cancelled" (the caller has left).
	Result string
	// Latency is the duration of these operations.
	Latency Histogram
}

// addOperations adds the durations and sizes of operations on L2 to s, and the counts of the
// codec if it compresses.
func (c *core) addOperations(s *Stats, encoding any) {
	m := c.l2.Meter()
	if m == nil {
		return
	}
	if e, ok := encoding.(interface {
		Counts() (shortened, raw uint64)
	}); ok {
		s.Compressed, s.StoredRaw = e.Counts()
	}
	for op := range l2.Operations {
		for r := range l2.Results {
			if h := durations(&m.Took[op][r]); h.Count() > 0 {
				s.Operations = append(s.Operations, OperationStats{op.String(), r.String(), h})
			}
		}
	}
	s.ReadBytes.Buckets, s.ReadBytes.Sum = m.Read.Read()
	s.WrittenBytes.Buckets, s.WrittenBytes.Sum = m.Written.Read()
}

// answered is the number of reads that ran no load.
func answered(s *Stats) uint64 {
	loads := s.Loads.Total()
	return s.Reads - min(s.Reads, loads-min(loads, s.Refreshes))
}

// describe returns the parts of the cache. encoding is the name of its codec.
func (c *core) describe(encoding string) Parts {
	r := &c.settings.Remote
	i := Parts{Service: c.settings.Service, Version: program.Version(), Partition: r.Partition.String(), Instance: c.l2.InstanceName(), L2Server: c.l2.Server()}
	if r.Tier != nil {
		i.L2, i.Schema = reflect.TypeOf(r.Tier).String(), fmt.Sprintf("%s %016x", encoding, c.l2.Schema())
	}
	if r.Bus != nil {
		i.Bus = reflect.TypeOf(r.Bus).String()
	}
	return i
}
