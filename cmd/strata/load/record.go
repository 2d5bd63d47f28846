package load

import (
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/strata-cache/strata/internal/wire"
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
	recent  *hdrhistogram.Histogram // of latencies since the previous progress
	buckets []int64                 // as bounds
	steps   []*hdrhistogram.Histogram
	status  map[int]int64
	errors  map[Kind]int64
	example string
	bytes   int64
	done    int64
	last    time.Time
	before  moment // of the previous progress
}

// moment is a number of requests at a time since the start.
type moment struct {
	elapsed time.Duration
	done    int64
}

// outcome is the result of one request.
type outcome struct {
	intended, sent, end time.Time
	step                int // of the run, by the intended start
	status              int
	bytes               int64
	err                 error
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, slowest.Microseconds(), 3)
}

func newRecorder(steps int) *recorder {
	h := newHistogram
	r := &recorder{latency: h(), service: h(), recent: h(), buckets: make([]int64, len(bounds)+1), status: map[int]int64{}, errors: map[Kind]int64{}}
	for range steps {
		r.steps = append(r.steps, h())
	}
	return r
}

// add counts one request. The time until a timeout is a lower bound of the
// latency, so it is recorded as one. Other errors say nothing about the latency
// and are not recorded as latencies.
func (r *recorder) add(o outcome) {
	// The kind is found before the lock is taken: all requests of the load share it.
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
			r.example = clip(wire.CleanError(o.err).Error())
		}
	}
	// Without the time-outs, the slowest requests would be missing, and a target that stalls would
	// look fast.
	if o.err == nil || kind == Timeout {
		record(r.latency, o.end.Sub(o.intended))
		record(r.recent, o.end.Sub(o.intended))
		r.buckets[bucketOf(o.end.Sub(o.intended))]++
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

// clip bounds the text of an error. Some texts come from other machines. Therefore
// characters that may control a terminal are escaped.
func clip(s string) string {
	const most = 200
	var b strings.Builder
	for _, r := range s {
		if b.Len() >= most {
			b.WriteString("...")
			break
		}
		if unicode.IsGraphic(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// progress returns the state after elapsed. The histograms
// are read after the lock is free, so that no request waits for that.
func (r *recorder) progress(elapsed time.Duration) Progress {
	// The memory for the next histogram is made before the lock is taken.
	empty := newHistogram()
	r.mu.Lock()
	all, recent := r.latency.Export(), r.recent
	r.recent = empty
	p := Progress{
		Elapsed:  elapsed,
		Done:     r.done,
		Errors:   total(r.errors),
		Buckets:  filled(r.buckets),
		Status:   maps.Clone(r.status),
		Failures: maps.Clone(r.errors),
	}
	since, done := elapsed-r.before.elapsed, r.done-r.before.done
	r.before = moment{elapsed, r.done}
	r.mu.Unlock()
	p.Latency, p.Recent = latencies(hdrhistogram.Import(all)), latencies(recent)
	if since > 0 {
		p.Rate = float64(done) / since.Seconds()
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

// at is a percentile of a histogram, which counts in microseconds.
func at(h *hdrhistogram.Histogram, percentile float64) time.Duration {
	return time.Duration(h.ValueAtPercentile(percentile)) * time.Microsecond
}

func total[K comparable](counts map[K]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}
