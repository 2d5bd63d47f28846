package admin

import (
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/admin/api"
	"github.com/strata-cache/strata/internal/observe"
)

// Marks are the ends of recent histograms: one each markEvery samples, so many that the oldest is as
// old as api.Recent or a little older.
const (
	markEvery = 10
	maxMarks  = 1 + int(api.Recent/(markEvery*api.Interval))
)

// history takes samples of all caches of a page from its begin, so that they are there when the
// page is opened for the first time. Between two samples no goroutine runs. There is only a timer,
// which has a weak pointer to the page, so that a page that the program has forgotten ends without
// Close.
type history struct {
	mu     sync.Mutex
	caches []*record
	timer  *time.Timer
	n      int // samples so far
	closed bool
	all    sync.WaitGroup // the running sample
}

// record has the samples of one cache, the oldest first. The next sample is the difference to
// base, and a recent histogram the difference to the first mark.
type record struct {
	cache   Cache
	panel   observe.Panel
	base    strata.Stats
	at      time.Time
	samples []api.Sample
	marks   []durations
}

// durations are the histograms of a cache.
type durations struct{ loads, echo, l2Reads strata.Histogram }

func durationsOf(s *strata.Stats) durations {
	d := durations{loads: s.Loads.Latency, echo: s.BusEcho}
	for i := range s.Operations {
		if o := &s.Operations[i]; o.Operation == "get" && o.Result == "ok" {
			d.l2Reads = o.Latency
		}
	}
	return d
}

// start takes the first sample, which only sets the base of the second.
func (h *history) start(caches []*shown) {
	for _, c := range caches {
		h.caches = append(h.caches, &record{
			cache: c.cache, panel: c.panel, samples: make([]api.Sample, 0, api.MaxSamples), marks: make([]durations, 0, maxMarks),
		})
	}
	if len(caches) == 0 {
		return
	}
	h.sample()
	forgotten := weak.Make(h)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(api.Interval, func() {
		if h := forgotten.Value(); h != nil {
			h.tick()
		}
	})
}

// tick takes a sample, and is called again after an interval.
func (h *history) tick() {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return
	}
	// Under the lock: close sees either the sample, for which it waits, or no sample any more.
	h.all.Add(1)
	h.mu.Unlock()
	defer h.all.Done()
	h.sample()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.timer.Reset(api.Interval)
	}
}

func (h *history) close() {
	h.mu.Lock()
	h.closed = true
	if h.timer != nil {
		h.timer.Stop()
	}
	h.mu.Unlock()
	h.all.Wait()
}

// sample takes a sample of each cache, and keeps its hottest keys watched.
func (h *history) sample() {
	now := time.Now()
	// The caches are asked without the lock, so that requests for the page need not wait for them.
	stats := make([]strata.Stats, len(h.caches))
	for i, r := range h.caches {
		stats[i] = r.cache.Stats()
		r.panel.Watch()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, r := range h.caches {
		r.add(&stats[i], now, h.n%markEvery == 0)
	}
	h.n++
}

// add adds the sample of a time, and a mark if one is due.
func (r *record) add(s *strata.Stats, now time.Time, mark bool) {
	if took := now.Sub(r.at); !r.at.IsZero() && took > 0 {
		if len(r.samples) == api.MaxSamples {
			r.samples = slices.Delete(r.samples, 0, 1)
		}
		r.samples = append(r.samples, sampleOf(&r.base, s, now, took))
	}
	// The numbers begin anew with the cache that has taken the place of the old one.
	if fewer(s, &r.base) {
		r.marks = append(r.marks[:0], durations{})
	}
	if mark {
		if len(r.marks) == maxMarks {
			r.marks = slices.Delete(r.marks, 0, 1)
		}
		r.marks = append(r.marks, durationsOf(s))
	}
	r.base, r.at = *s, now
}

// fewer reports whether a cache has had fewer loads than before: then another one has taken its place.
func fewer(now, before *strata.Stats) bool {
	return now.Loads.Latency.Count() < before.Loads.Latency.Count()
}

// recent returns the durations of the last minutes of a cache with these numbers.
func (h *history) recent(cache int, s *strata.Stats) (d durations) {
	to := durationsOf(s)
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.caches[cache]
	// The cache was replaced after the last sample, and all its durations are recent.
	if fewer(s, &r.base) {
		return to
	}
	from := &r.marks[0]
	return durations{between(&from.loads, &to.loads), between(&from.echo, &to.echo), between(&from.l2Reads, &to.l2Reads)}
}

// summary returns the last sample of a cache, if there is one, and its spark.
func (h *history) summary(cache int, now time.Time) (*api.Sample, []*float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.caches[cache].samples
	if len(all) == 0 {
		return nil, spark(nil, now)
	}
	latest := all[len(all)-1]
	return &latest, spark(all, now)
}

// of returns up to most samples of a cache, later than after and younger than ten
// minutes. No older samples are kept.
func (h *history) of(cache, most int, after int64) []api.Sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.caches[cache].samples
	after = max(after, time.Now().Add(-api.MaxSamples*api.Interval).UnixMilli())
	for len(all) > 0 && all[0].At <= after {
		all = all[1:]
	}
	return append([]api.Sample{}, all[max(0, len(all)-most):]...)
}

// spark returns the reads per second of samples up to now, in steps of equal length.
func spark(samples []api.Sample, now time.Time) []*float64 {
	const step = int64(api.MaxSamples*api.Interval/time.Millisecond) / api.SparkPoints
	var sums, n [api.SparkPoints]float64
	for _, s := range samples {
		i := api.SparkPoints - 1 - int((now.UnixMilli()-s.At)/step)
		if i >= 0 && i < api.SparkPoints {
			sums[i] += s.Answers.Total()
			n[i]++
		}
	}
	points := make([]*float64, api.SparkPoints)
	for i := range points {
		if n[i] > 0 {
			mean := round(sums[i] / n[i])
			points[i] = &mean
		}
	}
	return points
}

// sampleOf returns the difference of the numbers of a cache. A busy machine takes some samples late: so
// each number is divided by the time that has passed.
func sampleOf(from, to *strata.Stats, now time.Time, took time.Duration) api.Sample {
	rate := func(before, after uint64) float64 { return round(float64(less(after, before)) / took.Seconds()) }
	return api.Sample{
		At:          now.UnixMilli(),
		Answers:     answersOf(from, to, took),
		LoadP99:     between(&from.Loads.Latency, &to.Loads.Latency).Quantile(0.99),
		EchoP99:     between(&from.BusEcho, &to.BusEcho).Quantile(0.99),
		Saved:       time.Duration(float64(max(0, to.Saved-from.Saved)) * api.Interval.Seconds() / took.Seconds()),
		Errors:      rate(from.Loads.Errors+from.Loads.Panics, to.Loads.Errors+to.Loads.Panics),
		L2Errors:    rate(from.L2.Errors, to.L2.Errors),
		Running:     to.Loads.Running,
		Entries:     to.Entries,
		Weight:      to.Weight,
		Heap:        to.Guard.Heap,
		Pending:     to.Pending,
		Silence:     to.BusSilence,
		BreakerOpen: to.BreakerOpen,
		Connected:   to.Connected,
	}
}

// answersOf returns the answers to reads by their source. A stale value, or a remembered
// error, is one of Remembered or of Throttled in the numbers of a cache. Refreshes and
// warming up have flights without a read: these are taken from loads first, then from L2.
func answersOf(from, to *strata.Stats, took time.Duration) api.Answers {
	d := func(get func(*strata.Stats) uint64) uint64 { return less(get(to), get(from)) }
	loads := d(func(s *strata.Stats) uint64 { return s.Loads.Total() })
	apart := d(func(s *strata.Stats) uint64 { return s.Refreshes + s.Warmed })
	kept := d(func(s *strata.Stats) uint64 { return s.Remembered + s.Throttled })
	stale := min(kept, d(func(s *strata.Stats) uint64 { return s.StaleRevalidating + s.StaleOnError + s.StaleAllowed }))
	rate := func(n uint64) float64 { return round(float64(n) / took.Seconds()) }
	return api.Answers{
		L1:         rate(d(func(s *strata.Stats) uint64 { return s.L1.Hits + s.Rechecked })),
		L2:         rate(less(d(func(s *strata.Stats) uint64 { return s.L2.Hits }), less(apart, loads))),
		Loaded:     rate(less(loads, apart)),
		Joined:     rate(d(func(s *strata.Stats) uint64 { return s.Joins })),
		Stale:      rate(stale),
		Remembered: rate(kept - stale),
		None:       rate(d(func(s *strata.Stats) uint64 { return s.TurnedAway + s.Absent + s.Abandoned })),
	}
}

// less returns a - b, or 0 if b is larger: the numbers of a cache are read one after the
// other.
func less(a, b uint64) uint64 { return a - min(a, b) }

// between returns the durations that a histogram has got since from.
func between(from, to *strata.Histogram) (h strata.Histogram) {
	for i := range to.Buckets {
		h.Buckets[i] = less(to.Buckets[i], from.Buckets[i])
	}
	return h
}

// round leaves two digits behind the point.
func round(x float64) float64 { return float64(int64(x*100+0.5)) / 100 }
