// Package sized simulates eviction policies on requests for objects of different sizes. A
// cache of a bound in bytes is judged by three shares: of objects found, of bytes found, and of
// the time of the origin that was saved.
package sized

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/cache/evict"
)

// Request asks for an object.
type Request struct {
	Key  uint64
	Size int64         // at least 1
	Load time.Duration // that the origin takes for it
}

// Policy is a cache with a bound in bytes. Policies are for one goroutine.
type Policy interface {
	// Access asks for an object, reports whether the cache held it, and offers it if not.
	Access(r Request) (hit bool)
}

// Trace is a sequence of requests with a name. A key has one size.
type Trace struct {
	Name      string
	Requests  []Request
	Footprint int64 // the sum of the sizes of all objects
}

// NewTrace returns a trace of the requests, which it keeps. The first size of a key, at least
// 1, counts for all its requests: load returns the time of the origin, which must depend on key and
// size alone.
func NewTrace(name string, requests []Request, load func(Request) time.Duration) *Trace {
	t := &Trace{Name: name, Requests: requests}
	first := map[uint64]int64{}
	for i := range requests {
		r := &requests[i]
		size, ok := first[r.Key]
		if !ok {
			size = max(1, r.Size)
			first[r.Key] = size
			t.Footprint += size
		}
		r.Size = size
		r.Load = load(*r)
	}
	return t
}

// Origin is the time that a usual origin takes for an object: 5 ms, and 100 MB a second.
func Origin(r Request) time.Duration { return 5*time.Millisecond + time.Duration(r.Size)*10 }

// Queries is the time of an origin that computes what it returns: it has nothing to do with the size.
// The times of keys are log-normal, with a median of 5 ms and a mean of 15.
func Queries(r Request) time.Duration {
	return time.Duration(float64(5*time.Millisecond) * math.Exp(1.5*of(mix(r.Key)).NormFloat64()))
}

// Bounds returns the bounds at which to compare policies on the trace: 0.1, 1, 5 and 15 %
// of its footprint.
func (t *Trace) Bounds() (all []int64) {
	for _, perMille := range []int64{1, 10, 50, 150} {
		if b := t.Footprint * perMille / 1000; b >= 1 {
			all = append(all, b)
		}
	}
	return all
}

// Saved is what a cache has saved, in percent of all that was asked for.
type Saved struct{ Objects, Bytes, Seconds float64 }

// Sub returns the difference of two results, in points.
func (s Saved) Sub(o Saved) Saved {
	return Saved{s.Objects - o.Objects, s.Bytes - o.Bytes, s.Seconds - o.Seconds}
}

// String returns the three numbers with one digit.
func (s Saved) String() string {
	return fmt.Sprintf("objects %.1f, bytes %.1f, seconds %.1f", s.Objects, s.Bytes, s.Seconds)
}

// Run asks p for each object in order.
func Run(p Policy, t *Trace) Saved {
	var hits, hitBytes, hitTime, bytes, load float64
	for _, r := range t.Requests {
		bytes += float64(r.Size)
		load += float64(r.Load)
		if p.Access(r) {
			hits++
			hitBytes += float64(r.Size)
			hitTime += float64(r.Load)
		}
	}
	n := max(1, float64(len(t.Requests)))
	return Saved{100 * hits / n, 100 * hitBytes / max(1, bytes), 100 * hitTime / max(1, load)}
}

// makers make policies by name, in the order of tables. The optimum needs the trace.
var makers = []struct { // read-only
	name string
	make func(bound int64, t *Trace) Policy
}{
	{"lru", func(b int64, _ *Trace) Policy { return NewEngine(evict.LRU, b) }},
	{"cachelfu", func(b int64, _ *Trace) Policy { return NewEngine(evict.LFU, b) }},
	{"fifo", func(b int64, _ *Trace) Policy { return NewEngine(evict.FIFO, b) }},
	{"gdsf", func(b int64, _ *Trace) Policy { return NewGDSF(b, same) }},
	{"gdsfcost", func(b int64, _ *Trace) Policy { return NewGDSF(b, cost) }},
	{"a3fifo", func(b int64, _ *Trace) Policy { return NewEngine(evict.A3FIFO, b) }},
	{"belady", func(b int64, t *Trace) Policy { return NewBelady(b, t) }},
}

// Names returns the names of all policies, in the order of tables.
func Names() (all []string) {
	for _, m := range makers {
		all = append(all, m.name)
	}
	return all
}

var (
	errUnknown = errors.New("sized: unknown policy")
	errBound   = errors.New("sized: a bound is at least 1")
)

// New returns an empty cache with the named policy and a bound in bytes. Only "belady" looks at
// the trace. A name missing from Names and a bound below 1 are errors.
func New(name string, bound int64, t *Trace) (Policy, error) {
	if bound < 1 {
		return nil, fmt.Errorf("%w: %d", errBound, bound)
	}
	for _, m := range makers {
		if m.name == name {
			return m.make(bound, t), nil
		}
	}
	return nil, fmt.Errorf("%w %q: there are %s", errUnknown, name, strings.Join(Names(), ", "))
}

// Of returns the trace of keys with a size for each.
func Of(name string, keys []uint64, size func(key uint64) int64) *Trace {
	requests := make([]Request, len(keys))
	for i, key := range keys {
		requests[i] = Request{Key: key, Size: size(key)}
	}
	return NewTrace(name, requests, Origin)
}
