package stage

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/cmd/strata/hello"
)

const (
	// crowdSize is the number of greetings that are loaded at once: those of the load, and others.
	crowdSize = 500
	// crowdReads is how often a second each of them is then asked for.
	crowdReads = 4
	// crowdTTLs is the number of TTLs for which they are asked for.
	crowdTTLs = 4
	// burstWorkers is the number of greetings that are loaded at the same moment: enough to keep the origin busy, and
	// too few to make L2 miss its time-outs.
	burstWorkers = 100
)

// crowd asks for all greetings that were loaded at once, so that each is loaded again when it is due.
// Its zero value asks for nothing. ask is for one goroutine.
type crowd struct {
	until atomic.Int64 // in nanoseconds of Unix time; 0 for never

	last time.Time // the call of ask before
	owed float64
	n    int
}

// come makes the crowd ask until a time.
func (c *crowd) come(until time.Time) { c.until.Store(until.UnixNano()) }

// leave ends the questions.
func (c *crowd) leave() { c.until.Store(0) }

// ask sends the requests that are due, in turns to all instances.
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
	if failed > 0 {
		return "", fmt.Errorf("%d of %d loads failed", failed, loads)
	}
	ask := crowdTTLs * s.o.TTL
	s.load.crowd.come(time.Now().Add(ask))
	return fmt.Sprintf("%d greetings were loaded at once, and each is asked for %d times a second, for %v. %s", crowdSize, crowdReads, ask, s.due(mode)), nil
}

// due tells when greetings that were loaded now are loaded again.
func (s *Stage) due(mode hello.Mode) string {
	if mode == hello.Naive {
		return fmt.Sprintf("The maps lose all of them in %v, and the origin is asked for all at once.", s.o.TTL)
	}
	last := time.Duration(float64(s.o.TTL) * strata.DefaultRefreshAt)
	jitter := s.jitter()
	if jitter == 0 {
		return fmt.Sprintf("All are due for a refresh in %v, at once.", last)
	}
	first := last - time.Duration(float64(last)*jitter)
	return fmt.Sprintf("They are due for a refresh in %v to %v.", first.Round(time.Millisecond), last)
}

// jitter is the share by which instances shorten lives at most.
func (s *Stage) jitter() float64 {
	j := s.instances[0].Jitter()
	if j == 0 {
		return strata.DefaultJitter
	}
	return max(0, j)
}

// changeJitter replaces both caches by ones with another jitter, which take over the entries.
func (s *Stage) changeJitter(ctx context.Context, args []string) (string, error) {
	jitter, said := strata.DefaultJitter, fmt.Sprintf("Lives are shortened at random by up to %v of them.", strata.DefaultJitter)
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
