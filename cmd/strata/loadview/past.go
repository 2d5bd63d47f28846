package loadview

import (
	"cmp"
	"maps"
	"slices"

	"github.com/strata-cache/strata/cmd/strata/load"
)

const (
	window     = 20  // looks in the histogram
	rateWindow = 4   // looks in the rate of now
	maxColumns = 300 // of a chart
	perColumn  = 2   // looks in a column
)

// failures is the code for requests without an answer in a chart. others is the code for
// all codes without a line of their own.
const (
	failures = -1
	others   = -2
)

// past is the part of the past that the view shows.
type past struct {
	looks   []load.Progress // the last ones
	columns []column        // of the last seconds
	looked  int             // looks since the start
	before  load.Progress   // at the end of the last column
}

// column has the answers per second by status code, and the failures, of one second.
type column map[int]float64

// add adds a look.
func (h *past) add(p load.Progress) {
	// One look more than the window: the oldest is the base from which the window counts.
	h.looks = append(h.looks, p)
	h.looks = h.looks[max(0, len(h.looks)-window-1):]
	if h.looked++; h.looked%perColumn != 0 {
		return
	}
	seconds := max((p.Elapsed - h.before.Elapsed).Seconds(), 1e-3)
	c := column{}
	for code, n := range p.Status {
		c[code] = float64(n-h.before.Status[code]) / seconds
	}
	if p.Errors > 0 {
		c[failures] = float64(p.Errors-h.before.Errors) / seconds
	}
	h.before = p
	h.columns = append(h.columns, c)
	h.columns = h.columns[max(0, len(h.columns)-maxColumns):]
}

// full reports whether the histogram leaves out the begin of the run.
func (h *past) full() bool { return len(h.looks) > window }

// histogram returns the counts of the last looks.
func (h *past) histogram() []load.Bucket {
	if len(h.looks) == 0 {
		return nil
	}
	counts := slices.Clone(h.looks[len(h.looks)-1].Buckets)
	// The counts of a look are those since the start.
	if !h.full() {
		return counts // since the start
	}
	for i, b := range h.looks[0].Buckets {
		counts[i].Count -= b.Count
	}
	return counts
}

// rate returns the requests per second over the last few looks. One look is too short to measure a
// small rate.
func (h *past) rate() float64 {
	n := len(h.looks)
	if n == 0 {
		return 0
	}
	last, first := &h.looks[n-1], load.Progress{}
	if n > rateWindow {
		first = h.looks[n-1-rateWindow]
	}
	seconds := (last.Elapsed - first.Elapsed).Seconds()
	if seconds <= 0 {
		return 0
	}
	return float64(last.Done-first.Done) / seconds
}

// series is one line of a chart.
type series struct {
	code   int
	values []float64 // the last columns
	now    float64
	total  int64
}

// chart returns at most most series of width columns: the most frequent codes in order, then
// all others together, then the failures.
func (h *past) chart(p load.Progress, width, most int) []series {
	codes := slices.Sorted(maps.Keys(p.Status))
	room := most
	if p.Errors > 0 {
		room--
	}
	var rest []int
	// The most frequent codes are kept. The others share one line, for which one of the kept has to
	// go.
	if len(codes) > room {
		slices.SortStableFunc(codes, func(a, b int) int { return cmp.Compare(p.Status[b], p.Status[a]) })
		kept := max(0, room-1)
		rest, codes = codes[kept:], codes[:kept]
		slices.Sort(codes)
	}
	var all []series
	for _, code := range codes {
		all = append(all, h.series(p, width, code, code))
	}
	if len(rest) > 0 {
		all = append(all, h.series(p, width, others, rest...))
	}
	if p.Errors > 0 {
		all = append(all, h.series(p, width, failures, failures))
	}
	return all[:min(len(all), max(0, most))]
}

// series returns the sum of codes under the name code.
func (h *past) series(p load.Progress, width, code int, codes ...int) series {
	s := series{code: code}
	for _, c := range h.columns[max(0, len(h.columns)-max(0, width)):] {
		sum := 0.0
		for _, code := range codes {
			sum += c[code]
		}
		s.values = append(s.values, sum)
	}
	if n := len(h.columns); n > 0 {
		for _, code := range codes {
			s.now += h.columns[n-1][code]
		}
	}
	for _, code := range codes {
		if code == failures {
			s.total += p.Errors
		} else {
			s.total += p.Status[code]
		}
	}
	return s
}
