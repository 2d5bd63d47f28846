package stage

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/strata-cache/strata/cmd/strata/hello"
)

const (
	// kept is the number of kept samples, one a second: five minutes.
	kept = 300
	// keptMarks is the number of kept marks.
	keptMarks = 100
)

// Sample has the numbers of one second, of both instances together.
type Sample struct {
	At int64 `json:"at"` // its end, in milliseconds of Unix time
	// Requests were answered. Errors are requests that failed or found no worker.
	Requests int64 `json:"requests"`
	Errors   int64 `json:"errors"`
	// Why is the most frequent reason of those.
	Why string `json:"why,omitempty"`
	// Memory counts answers of L1, or of the map of the mode naive; Stale stale values of L1;
	// L2 values of L2, also values that refreshed a stale one; Shared requests that joined a load
	// of another.
	Memory int64 `json:"memory"`
	Stale  int64 `json:"stale"`
	L2     int64 `json:"l2"`
	Shared int64 `json:"shared"`
	// Queries counts queries of the origin.
	Queries int64 `json:"queries"`
	// P50 and P99 are latencies of requests, in nanoseconds.
	P50 int64 `json:"p50"`
	P99 int64 `json:"p99"`
	// Heap is the live heap as the guard has seen it last, in bytes. Reports and Greetings count entries that it
	// has evicted.
	Heap      int64 `json:"heap"`
	Reports   int64 `json:"reports"`
	Greetings int64 `json:"greetings"`
}

// Mark is an event in the charts: an action, or an event without one.
type Mark struct {
	Number int64  `json:"number"`
	At     int64  `json:"at"`
	Text   string `json:"text"`
	// Action counts the actions; it is 0 for another mark.
	Action int64 `json:"action"`
	// Said is the result.
	Said string `json:"said"`
}

// Seen is the watched greeting on one instance.
type Seen struct {
	Instance string `json:"instance"`
	// State is "fresh", "stale", "old" (another instance has a newer one) or "absent".
	State string `json:"state"`
	Text  string `json:"text"`
	// Number counts the queries for the greeting: a newer value has a higher one.
	Number int64 `json:"number"`
	Age    int64 `json:"age"`   // in nanoseconds
	Fresh  int64 `json:"fresh"` // for how long, in nanoseconds
}

// Instance is the state of one instance.
type Instance struct {
	Name      string `json:"name"`
	Entries   int64  `json:"entries"`
	Connected bool   `json:"connected"`
	LeftAlone bool   `json:"leftAlone"`
	Pending   int    `json:"pending"`
}

// State is the stage at one moment.
type State struct {
	At        int64           `json:"at"`
	Mode      hello.Mode      `json:"mode"`
	Rate      int64           `json:"rate"`
	Latency   int64           `json:"latency"` // of the origin, in nanoseconds
	Jitter    float64         `json:"jitter"`  // the share by which lives are shortened at most
	Broken    map[string]bool `json:"broken"`  // by "l2", "bus" and "origin"
	Watched   string          `json:"watched"`
	Newest    int64           `json:"newest"` // the number of the newest value of the watched greeting
	Seen      []Seen          `json:"seen"`
	Instances []Instance      `json:"instances"`
	Memory    hello.Memory    `json:"memory"`
	Filling   bool            `json:"filling"`
	Samples   []Sample        `json:"samples"`
	Marks     []Mark          `json:"marks"`
}

// history has the samples and marks.
type history struct {
	mu      sync.Mutex // guards below
	samples []Sample
	marks   []Mark
	marked  int64 // marks so far, and actions among them
	acted   int64
	last    hello.Answers // of all instances, at the last sample
	memory  hello.Memory  // at the last sample
	queries int64
	quiet   int // samples without failures
}

// quietFor is the number of samples without failures after which the first failure is marked, so
// that each trouble has one mark.
const quietFor = 10

// mark notes an action.
func (h *history) mark(text, said string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acted++
	h.add(Mark{Action: h.acted, Text: text, Said: said})
}

// add adds a mark. The mutex is held.
func (h *history) add(m Mark) {
	h.marked++
	m.Number, m.At = h.marked, time.Now().UnixMilli()
	h.marks = append(h.marks, m)
	h.marks = h.marks[max(0, len(h.marks)-keptMarks):]
}

// sampleUntil takes a sample each second.
func (s *Stage) sampleUntil(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.sample()
		}
	}
}

// sample takes the numbers of the last second, and marks the begin of a trouble.
func (s *Stage) sample() {
	done, failed, why, latency := s.load.second()
	x := Sample{
		At: time.Now().UnixMilli(), Requests: done, Errors: failed, Why: why,
		P50: latency.ValueAtQuantile(50) * int64(time.Microsecond), P99: latency.ValueAtQuantile(99) * int64(time.Microsecond),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if failed > 0 {
		if s.quiet >= quietFor {
			s.add(Mark{Text: "failures begin", Said: fmt.Sprintf("%d in a second: %s", failed, why)})
		}
		s.quiet = 0
	} else {
		s.quiet++
	}
	var now hello.Answers
	for _, service := range s.instances {
		now.Add(service.Answers())
	}
	// The instances count since they were made. A sample has the difference to the sample before.
	x.Memory, x.Stale = now.Memory-s.last.Memory, now.Stale-s.last.Stale
	x.L2, x.Shared = now.L2-s.last.L2, now.Shared-s.last.Shared
	s.last = now
	queries := s.origin.queries.Load()
	x.Queries, s.queries = queries-s.queries, queries
	memory := s.reports.Memory()
	x.Heap, x.Reports = memory.Heap, memory.Reports-s.memory.Reports
	x.Greetings = max(0, memory.Evicted-s.memory.Evicted-x.Reports) // the counts are read one after the other
	s.memory = memory
	s.samples = append(s.samples, x)
	s.samples = s.samples[max(0, len(s.samples)-kept):]
}

// State returns the present state, with the samples and marks newer than after, in
// milliseconds of Unix time.
func (s *Stage) State(ctx context.Context, after int64) State {
	key, newest := s.origin.watched()
	st := State{
		At: time.Now().UnixMilli(), Mode: s.instances[0].Mode(), Rate: s.load.rate.Load(), Latency: s.origin.latency.Load(), Jitter: s.jitter(),
		Broken:  map[string]bool{"l2": s.l2.isBroken(), "bus": s.bus.isBroken(), "origin": s.origin.broken.Load()},
		Watched: key.Name, Memory: s.reports.Memory(), Filling: s.reports.Fills(),
	}
	for i, service := range s.instances {
		g := service.Look(ctx, key)
		// The newest value is known from the queries, and from the values of instances: the origin
		// forgets which it has seen when another greeting is watched.
		newest = max(newest, g.Value.Asked)
		st.Seen = append(st.Seen, Seen{
			Instance: instanceNames[i], Text: g.Value.Text, Number: g.Value.Asked,
			State: stateOf(g), Age: int64(g.Age), Fresh: int64(g.Fresh),
		})
		n := service.Cache("").Stats()
		x := Instance{Name: instanceNames[i], Entries: service.Stats().Cache.Entries}
		if st.Mode == hello.Strata {
			x.Connected, x.LeftAlone, x.Pending = n.Connected, n.BreakerOpen, n.Pending
		}
		st.Instances = append(st.Instances, x)
	}
	st.Newest = newest
	// A value may be fresh by its life and yet old: another instance has a newer one.
	for i := range st.Seen {
		if x := &st.Seen[i]; x.State == "fresh" && x.Number < newest {
			x.State = "old"
		}
	}
	// The lock is taken after the instances were asked, since that may wait for a server.
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.samples {
		if x.At > after {
			st.Samples = append(st.Samples, x)
		}
	}
	for _, m := range s.marks {
		if m.At > after {
			st.Marks = append(st.Marks, m)
		}
	}
	return st
}

// stateOf is the state of a greeting as one instance sees it. Only State knows whether another one
// has a newer value.
func stateOf(g hello.Sight) string {
	switch {
	case !g.Found:
		return "absent"
	case g.Fresh > 0:
		return "fresh"
	}
	return "stale"
}
