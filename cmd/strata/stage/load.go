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

// locale is the locale of all greetings of the stage.
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

// The reasons of failures without an error of a greeting.
const (
	tooMany = "no worker was free: the machine is too slow for the load"
	tooSlow = "no answer within 2 s"
)

// maxReasons is the number of reasons counted apart in a second.
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
	// The seed is fixed: every run asks for the same names in the same order.
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
			// After a pause of the whole process, such as the sleep of a laptop, the missed
			// requests are not all sent at once.
			owed = min(owed+float64(g.rate.Load())*now.Sub(last).Seconds(), maxRate)
			for last = now; owed >= 1; owed-- {
				n++
				g.send(job{to[n%len(to)], hello.Key{Name: nameOf(ranks.Uint64()), Locale: locale}, now})
			}
		}
	}
}

// send hands a job to a free worker, and never waits: the load does not slow down with the caches,
// as real users do not.
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
		// Requests that fail because the stage is closed are not failures of a cache.
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
	// Latency counts from the intended begin, with the wait for a worker: a slow cache cannot hide
	// behind requests that were sent late.
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
		// Of reasons with equal counts the first in the alphabet is told, so that it does not
		// depend on the order of a map.
		if most := g.failed[why]; n > most || n == most && reason < why {
			why = reason
		}
	}
	done, latency = g.done, g.latency
	g.done, g.failed, g.latency = 0, map[string]int64{}, newHistogram()
	return done, failed, why, latency
}

const (
	// crowdSize is the number of greetings loaded at once: the greetings of the load, and others.
	crowdSize = 500
	// crowdReads is the number of reads of each of them in a second.
	crowdReads = 4
	// crowdTTLs is the duration of these reads, in TTLs.
	crowdTTLs = 4
	// burstWorkers is the number of loads at the same moment: enough to keep the origin busy, and
	// too few to make L2 miss its time-outs.
	burstWorkers = 100
)

// crowd asks for all greetings loaded at once, so that each is loaded again when it is due. Its
// zero value asks for nothing. ask is for one goroutine.
type crowd struct {
	until atomic.Int64 // in nanoseconds of Unix time; 0 for never

	last time.Time // the call of ask before
	owed float64
	n    int
}

// come makes the crowd send requests until a time.
func (c *crowd) come(until time.Time) { c.until.Store(until.UnixNano()) }

// leave ends the questions.
func (c *crowd) leave() { c.until.Store(0) }

// ask sends the due requests, in turns to all instances.
func (c *crowd) ask(now time.Time, to []*hello.Service, send func(job)) {
	since := now.Sub(c.last)
	if c.last = now; now.UnixNano() >= c.until.Load() {
		c.owed = 0
		return
	}
	c.owed = min(c.owed+crowdSize*crowdReads*since.Seconds(), crowdSize)
	for ; c.owed >= 1; c.owed-- {
		i := c.n % crowdSize
		// Each sweep asks another instance for the same greeting.
		send(job{to[(c.n/crowdSize+i)%len(to)], hello.Key{Name: nameOf(uint64(i)), Locale: locale}, now})
		c.n++
	}
}

// burst loads all greetings of the crowd, and returns the number of loads and of failures. Caches that share L2
// share the work.
func (g *generator) burst(ctx context.Context, to []*hello.Service, shared bool) (loads, failed int64) {
	var jobs []job
	for n, service := range to {
		for i := range crowdSize {
			if !shared || i%len(to) == n {
				jobs = append(jobs, job{to: service, key: hello.Key{Name: nameOf(uint64(i)), Locale: locale}})
			}
		}
	}
	var all sync.WaitGroup
	var next, failures atomic.Int64
	for range burstWorkers {
		all.Go(func() {
			for n := next.Add(1); n <= int64(len(jobs)); n = next.Add(1) {
				begun := time.Now()
				_, err := jobs[n-1].to.Greet(ctx, jobs[n-1].key)
				if g.record(begun, err); err != nil {
					failures.Add(1)
				}
			}
		})
	}
	all.Wait()
	return int64(len(jobs)), failures.Load()
}

// loadAll drops all greetings and loads them at once.
func (s *Stage) loadAll(ctx context.Context, _ []string) (string, error) {
	mode := s.instances[0].Mode()
	if mode == hello.None {
		return "There is no cache to load them into.", nil
	}
	s.load.crowd.leave() // it would wait for the loads, too
	// A cache of strata tells the other instance.
	shared := mode == hello.Strata
	for i, service := range s.instances {
		if i > 0 && shared {
			continue
		}
		if err := service.Forget(ctx); err != nil {
			return "", err
		}
	}
	loads, failed := s.load.burst(ctx, s.instances, shared)
	// If only some loads have failed, the others are worth the rest of the action.
	if failed == loads {
		return "", errors.New("all loads failed")
	}
	ask := crowdTTLs * s.o.TTL
	s.load.crowd.come(time.Now().Add(ask))
	said := fmt.Sprintf("%d greetings were loaded at once, and each is asked for %d times a second, for %v. %s", crowdSize, crowdReads, ask, s.due(mode))
	if failed > 0 {
		said += fmt.Sprintf(" But %d of %d loads failed.", failed, loads)
	}
	return said, nil
}

// due describes when greetings loaded now are loaded again.
func (s *Stage) due(mode hello.Mode) string {
	if mode == hello.Naive {
		return fmt.Sprintf("The maps lose all of them in %v, and the origin is asked for all at once.", s.o.TTL)
	}
	last := time.Duration(float64(s.o.TTL) * refreshAt)
	jitter := s.jitter()
	if jitter == 0 {
		return fmt.Sprintf("All are due for a refresh in %v, at once.", last)
	}
	first := last - time.Duration(float64(last)*jitter)
	return fmt.Sprintf("They are due for a refresh in %v to %v.", first.Round(time.Millisecond), last)
}

// The defaults of Options.
const (
	usualJitter = 0.1
	refreshAt   = 0.8
)

// jitter is the share by which instances shorten lives at most.
func (s *Stage) jitter() float64 {
	j := s.instances[0].Jitter()
	if j == 0 {
		return usualJitter
	}
	return max(0, j)
}

// changeJitter replaces both caches by ones with another jitter, which take over the entries.
func (s *Stage) changeJitter(ctx context.Context, args []string) (string, error) {
	jitter, said := usualJitter, fmt.Sprintf("Lives are shortened at random by up to %v of them.", usualJitter)
	if args[0] == "off" {
		jitter, said = -1, "All lives have the same length."
	}
	for i, service := range s.instances {
		if _, err := service.RestartWith(ctx, hello.ByTransfer, jitter); err != nil {
			return "", fmt.Errorf("instance %s: %w", instanceNames[i], err)
		}
	}
	return said + " Both instances have restarted with their greetings, which live as long as before: load everything anew to see it.", nil
}
