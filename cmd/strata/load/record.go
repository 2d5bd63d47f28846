package load

import (
	"maps"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// slowest is the longest latency of the histogram. Longer ones count as
// slowest.
const slowest = time.Hour

// recorder counts the results of requests. Its size does not depend on their
// number.
type recorder struct {
	mu      sync.Mutex // guards below
	latency *hdrhistogram.Histogram
	service *hdrhistogram.Histogram
	steps   []*hdrhistogram.Histogram
	status  map[int]int64
	errors  map[Kind]int64
	example string
	bytes   int64
	done    int64
	last    time.Time
}

// outcome is the result of one request.
type outcome struct {
	intended, sent, end time.Time
	step                int // of the run, by the intended start
	status              int
	bytes               int64
	err                 error
}

func newRecorder(steps int) *recorder {
	h := func() *hdrhistogram.Histogram {
		return hdrhistogram.New(1, slowest.Microseconds(), 3)
	}
	r := &recorder{latency: h(), service: h(), status: map[int]int64{}, errors: map[Kind]int64{}}
	for range steps {
		r.steps = append(r.steps, h())
	}
	return r
}

// add counts one request. The time until a timeout is a lower bound of the
// latency, so it is recorded as one. Other errors say nothing about the latency
// and are not recorded as latencies.
func (r *recorder) add(o outcome) {
	kind := Kind("")
	if o.err != nil {
		kind = kindOf(o.err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	r.bytes += o.bytes
	if o.end.After(r.last) {
		r.last = o.end
	}
	if o.err == nil {
		r.status[o.status]++
	} else {
		r.errors[kind]++
		if kind == OtherError && r.example == "" {
			r.example = clip(o.err.Error())
		}
	}
	if o.err == nil || kind == Timeout {
		record(r.latency, o.end.Sub(o.intended))
		record(r.service, o.end.Sub(o.sent))
		if o.step < len(r.steps) {
			record(r.steps[o.step], o.end.Sub(o.intended))
		}
	}
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	// RecordValue returns no error within the bounds of the histogram.
	_ = h.RecordValue(min(max(d, time.Microsecond), slowest).Microseconds())
}

// clip bounds the text of an error.
func clip(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// progress returns the state after elapsed. before is the previous state.
func (r *recorder) progress(elapsed time.Duration, before Progress) Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := Progress{Elapsed: elapsed, Done: r.done, Errors: total(r.errors), P50: at(r.latency, 50), P99: at(r.latency, 99)}
	if d := elapsed - before.Elapsed; d > 0 {
		p.Rate = float64(r.done-before.Done) / d.Seconds()
	}
	return p
}

// result returns the counts, without the fields that only the run knows.
func (r *recorder) result() *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	res := &Result{
		Done:         r.done,
		Bytes:        r.bytes,
		Status:       maps.Clone(r.status),
		Errors:       maps.Clone(r.errors),
		ErrorExample: r.example,
		Latency:      latencies(r.latency),
		Service:      latencies(r.service),
	}
	for _, h := range r.steps {
		res.Steps = append(res.Steps, latencies(h))
	}
	return res
}

func latencies(h *hdrhistogram.Histogram) Latencies {
	return Latencies{
		Count: h.TotalCount(),
		Mean:  time.Duration(h.Mean() * float64(time.Microsecond)),
		P50:   at(h, 50),
		P90:   at(h, 90),
		P95:   at(h, 95),
		P99:   at(h, 99),
		P999:  at(h, 99.9),
		Max:   time.Duration(h.Max()) * time.Microsecond,
	}
}

func at(h *hdrhistogram.Histogram, percentile float64) time.Duration {
	return time.Duration(h.ValueAtPercentile(percentile)) * time.Microsecond
}

func total[K comparable](counts map[K]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}
