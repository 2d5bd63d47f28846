package admin

import (
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/adminapi"
)

// idle is for how long samples are taken after the last request.
const idle = time.Minute

// history takes samples of all caches of a page while there are requests.
type history struct {
	mu     sync.Mutex
	caches []*record
	seen   time.Time // the last request
	runs   bool
	closed bool
	stop   chan struct{}
	all    sync.WaitGroup
}

// record has the samples of one cache, the oldest first. The next sample
// is the difference to base.
type record struct {
	cache   Cache
	base    strata.Stats
	at      time.Time
	samples []adminapi.Sample
}

func (h *history) start(caches []*shown) {
	h.stop = make(chan struct{})
	for _, c := range caches {
		h.caches = append(h.caches, &record{cache: c.cache})
	}
}

// touch notes a request.
func (h *history) touch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = time.Now()
	if h.runs || h.closed || len(h.caches) == 0 {
		return
	}
	h.runs = true
	h.all.Go(h.run)
}

func (h *history) close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.stop)
	}
	h.mu.Unlock()
	h.all.Wait()
}

// run takes samples until there has been no request for a while.
func (h *history) run() {
	tick := time.NewTicker(adminapi.Interval)
	defer tick.Stop()
	for h.sample() {
		select {
		case <-tick.C:
		case <-h.stop:
			return
		}
	}
}

// sample takes a sample of each cache, or reports that there are no requests any more.
// The first one after a pause only sets the base of the second.
func (h *history) sample() bool {
	now := time.Now()
	stats := make([]strata.Stats, len(h.caches))
	for i, r := range h.caches {
		stats[i] = r.cache.Stats()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Sub(h.seen) > idle {
		h.runs = false
		for _, r := range h.caches {
			r.at = time.Time{}
		}
		return false
	}
	for i, r := range h.caches {
		if took := now.Sub(r.at); !r.at.IsZero() && took > 0 {
			if len(r.samples) == adminapi.MaxSamples {
				r.samples = slices.Delete(r.samples, 0, 1)
			}
			r.samples = append(r.samples, sampleOf(&r.base, &stats[i], now, took))
		}
		r.base, r.at = stats[i], now
	}
	return true
}

// summary returns the last sample of a cache, if there is one, and its spark.
func (h *history) summary(cache int, now time.Time) (*adminapi.Sample, []*float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.caches[cache].samples
	if len(all) == 0 || now.Sub(time.UnixMilli(all[len(all)-1].At)) > adminapi.MaxSamples*adminapi.Interval {
		return nil, spark(nil, now)
	}
	latest := all[len(all)-1]
	return &latest, spark(all, now)
}

// of returns up to most samples of a cache that are younger than the ten minutes that are
// kept, and later than after.
func (h *history) of(cache, most int, after int64) []adminapi.Sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.caches[cache].samples
	after = max(after, time.Now().Add(-adminapi.MaxSamples*adminapi.Interval).UnixMilli())
	for len(all) > 0 && all[0].At <= after {
		all = all[1:]
	}
	return append([]adminapi.Sample{}, all[max(0, len(all)-most):]...)
}

// spark returns the reads per second of samples up to now, in steps of equal length.
func spark(samples []adminapi.Sample, now time.Time) []*float64 {
	const step = int64(adminapi.MaxSamples*adminapi.Interval/time.Millisecond) / adminapi.SparkPoints
	var sums, n [adminapi.SparkPoints]float64
	for _, s := range samples {
		i := adminapi.SparkPoints - 1 - int((now.UnixMilli()-s.At)/step)
		if i >= 0 && i < adminapi.SparkPoints {
			sums[i] += s.Answers.Total()
			n[i]++
		}
	}
	points := make([]*float64, adminapi.SparkPoints)
	for i := range points {
		if n[i] > 0 {
			mean := round(sums[i] / n[i])
			points[i] = &mean
		}
	}
	return points
}

// sampleOf returns the difference of the numbers of a cache.
func sampleOf(from, to *strata.Stats, now time.Time, took time.Duration) adminapi.Sample {
	rate := func(before, after uint64) float64 { return round(float64(less(after, before)) / took.Seconds()) }
	return adminapi.Sample{
		At:          now.UnixMilli(),
		Answers:     answersOf(from, to, took),
		LoadP99:     between(&from.Loads.Latency, &to.Loads.Latency).Quantile(0.99),
		EchoP99:     between(&from.BusEcho, &to.BusEcho).Quantile(0.99),
		Saved:       max(0, to.Saved-from.Saved),
		Errors:      rate(from.Loads.Errors+from.Loads.Panics, to.Loads.Errors+to.Loads.Panics),
		L2Errors:    rate(from.L2.Errors, to.L2.Errors),
		Running:     to.Loads.Running,
		Entries:     to.Entries,
		Weight:      to.Weight,
		Pending:     to.Pending,
		Silence:     to.BusSilence,
		BreakerOpen: to.BreakerOpen,
		Connected:   to.Connected,
	}
}

// answersOf returns the answers to reads by their source. A stale value, or an error that is
// remembered, is one of Remembered or of Throttled in the numbers of a cache. Refreshes and
// warming up have flights without a read: these are taken from loads first, then from L2.
func answersOf(from, to *strata.Stats, took time.Duration) adminapi.Answers {
	d := func(get func(*strata.Stats) uint64) uint64 { return less(get(to), get(from)) }
	loads := d(func(s *strata.Stats) uint64 { return s.Loads.Total() })
	apart := d(func(s *strata.Stats) uint64 { return s.Refreshes + s.Warmed })
	kept := d(func(s *strata.Stats) uint64 { return s.Remembered + s.Throttled })
	stale := min(kept, d(func(s *strata.Stats) uint64 { return s.StaleRevalidating + s.StaleOnError + s.StaleAllowed }))
	rate := func(n uint64) float64 { return round(float64(n) / took.Seconds()) }
	return adminapi.Answers{
		L1:         rate(d(func(s *strata.Stats) uint64 { return s.L1.Hits + s.Rechecked })),
		L2:         rate(less(d(func(s *strata.Stats) uint64 { return s.L2.Hits }), less(apart, loads))),
		Loaded:     rate(less(loads, apart)),
		Joined:     rate(d(func(s *strata.Stats) uint64 { return s.Joins })),
		Stale:      rate(stale),
		Remembered: rate(kept - stale),
		None:       rate(d(func(s *strata.Stats) uint64 { return s.TurnedAway + s.Absent + s.Abandoned })),
	}
}

// less returns a - b, or 0 if that is negative: the numbers of a cache are read one after the
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
