package stage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/strata-cache/strata/cmd/strata/hello"
)

// The load: so many requests a second for names of which few are asked for often, as in a
// Zipf distribution, in turns to both instances.
const (
	names      = 300
	zipf       = 1.1
	workers    = 256
	tick       = 10 * time.Millisecond
	maxRate    = 5000
	patience   = 2 * time.Second // of a request
	maxLatency = 10 * time.Second
)

// locale is that of all greetings of the stage.
const locale = "en-GB"

// nameOf is the name of a greeting by its rank.
func nameOf(rank uint64) string { return fmt.Sprint("World", rank) }

// generator sends the load to the instances.
type generator struct {
	rate    atomic.Int64
	jobs    chan job
	crowd   crowd
	refused atomic.Int64 // requests for which no worker was free

	mu      sync.Mutex // guards below
	latency *hdrhistogram.Histogram
	done    int64
	failed  map[string]int64 // by the reason
}

// The reasons of failures that are no error of a greeting.
const (
	tooMany = "no worker was free: the machine is too slow for the load"
	tooSlow = "no answer within 2 s"
)

// maxReasons is the number of reasons that are told apart in a second.
const maxReasons = 20

// job is one request.
type job struct {
	to    *hello.Service
	key   hello.Key
	begun time.Time // as intended
}

func newGenerator(rate int64) *generator {
	g := &generator{jobs: make(chan job, workers), latency: newHistogram(), failed: map[string]int64{}}
	g.rate.Store(rate)
	return g
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(maxLatency/time.Microsecond), 2)
}

// run sends requests until ctx ends.
func (g *generator) run(ctx context.Context, to []*hello.Service) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { g.work(ctx) })
	}
	defer all.Wait()
	defer close(g.jobs)
	r := rand.New(rand.NewPCG(1, 2))
	ranks := rand.NewZipf(r, zipf, 1, names-1)
	t := time.NewTicker(tick)
	defer t.Stop()
	last, owed, n := time.Now(), 0.0, 0
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			g.crowd.ask(now, to, g.send)
			owed = min(owed+float64(g.rate.Load())*now.Sub(last).Seconds(), maxRate)
			for last = now; owed >= 1; owed-- {
				n++
				g.send(job{to[n%len(to)], hello.Key{Name: nameOf(ranks.Uint64()), Locale: locale}, now})
			}
		}
	}
}

func (g *generator) send(j job) {
	select {
	case g.jobs <- j:
	default:
		g.refused.Add(1)
	}
}

// work answers jobs until there are no more.
func (g *generator) work(ctx context.Context) {
	for j := range g.jobs {
		c, cancel := context.WithTimeout(ctx, patience)
		_, err := j.to.Greet(c, j.key)
		cancel()
		if ctx.Err() == nil {
			g.record(j.begun, err)
		}
	}
}

// record counts an answer.
func (g *generator) record(begun time.Time, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done++
	if err != nil {
		g.fail(err)
	}
	_ = g.latency.RecordValue(int64(min(time.Since(begun), maxLatency) / time.Microsecond)) // within the bounds
}

// fail counts a failure by its reason. The mutex is held.
func (g *generator) fail(err error) {
	why := reasonOf(err)
	if _, known := g.failed[why]; known || len(g.failed) < maxReasons {
		g.failed[why]++
	} else {
		g.failed["other errors"]++
	}
}

// reasonOf is the text of an error for a mark.
func reasonOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return tooSlow
	}
	if r := []rune(oneLine(err.Error())); len(r) > maxAction {
		return string(r[:maxAction]) + " …"
	}
	return oneLine(err.Error())
}

// second returns the numbers since the last call. why is the most frequent reason of failures.
func (g *generator) second() (done, failed int64, why string, latency *hdrhistogram.Histogram) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.refused.Swap(0); n > 0 {
		g.failed[tooMany] += n
	}
	for reason, n := range g.failed {
		failed += n
		if most := g.failed[why]; n > most || n == most && reason < why {
			why = reason
		}
	}
	done, latency = g.done, g.latency
	g.done, g.failed, g.latency = 0, map[string]int64{}, newHistogram()
	return done, failed, why, latency
}
