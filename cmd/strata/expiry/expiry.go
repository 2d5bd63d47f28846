// Package expiry measures the expiry of keys loaded together: for each step of time after the load,
// how many of them the origin is asked for again.
package expiry

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/cmd/strata/hello"
	"github.com/strata-cache/strata/cmd/strata/origin"
)

const (
	// Reads is the number of reads of each key in a step.
	Reads = 5
	// chunk is the number of keys read in a row. It is less than the number of refreshes that a
	// cache runs at once, so that no refresh is put off.
	chunk = 200
	// locale is the locale of all greetings.
	locale = "en-GB"
)

// Options configure Run. All fields are required.
type Options struct {
	Keys int
	TTL  time.Duration
	// Step is the time for which queries are counted together.
	Step time.Duration
	// Jitters has one jitter for each compared cache; 0 is none.
	Jitters []float64
}

// From is the time after the load from which the keys are read. Earlier reads would find fresh values, and
// cost the processor time of others.
func (o Options) From() time.Duration { return o.TTL * 65 / 100 }

// Curve is the result of one cache.
type Curve struct {
	Jitter float64
	// Queries are the numbers of queries for keys loaded before, one number for each step since the
	// begin of the load.
	Queries []int64
}

// Worst is the largest number of queries in a step.
func (c Curve) Worst() int64 { return slices.Max(c.Queries) }

// Run loads all keys into a cache for each jitter within half a step, and then reads them again and again
// until each was loaded a second time, or until the TTL is over. The caches run at the same time.
// They are caches of the mode strata, without L2.
func Run(ctx context.Context, o Options) ([]Curve, error) {
	curves, errs := make([]Curve, len(o.Jitters)), make([]error, len(o.Jitters))
	var all sync.WaitGroup
	for i, jitter := range o.Jitters {
		all.Go(func() { curves[i], errs[i] = run(ctx, o, jitter) })
	}
	all.Wait()
	return curves, errors.Join(errs...)
}

// run measures one cache.
func run(ctx context.Context, o Options, jitter float64) (c Curve, err error) {
	counts := newCounter(o)
	of := jitter
	if of == 0 {
		of = -1 // 0 is the default of the cache
	}
	service, err := hello.New(hello.Options{
		Origin: counts, TTL: o.TTL, Jitter: of, Mode: hello.Strata,
		MaxEntries: 4 * o.Keys, // so that none is evicted
	})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, service.Close(context.WithoutCancel(ctx))) }()
	keys := make([]hello.Key, o.Keys)
	for i := range keys {
		keys[i] = hello.Key{Name: strconv.Itoa(i), Locale: locale}
	}
	if err := sweep(ctx, service, keys, o.Step/2); err != nil {
		return c, err
	}
	// From here on, each query is for a key that has been loaded before.
	counts.again.Store(true)
	rest := time.NewTimer(time.Until(counts.begun.Add(o.From())))
	defer rest.Stop()
	select {
	case <-ctx.Done():
		return c, ctx.Err()
	case <-rest.C:
	}
	// After the TTL the first read of each key loads it: two more steps are enough for all of them.
	for end := counts.begun.Add(o.TTL + 2*o.Step); counts.Queries() < int64(o.Keys) && time.Now().Before(end); {
		if err := sweep(ctx, service, keys, o.Step/Reads); err != nil {
			return c, err
		}
	}
	return Curve{Jitter: jitter, Queries: counts.queries()}, nil
}

// sweep reads each key once, with pauses, so that it takes so long and leaves the processor to others.
func sweep(ctx context.Context, service *hello.Service, keys []hello.Key, d time.Duration) error {
	tick := time.NewTicker(max(1, d*chunk/time.Duration(len(keys))))
	defer tick.Stop()
	for part := range slices.Chunk(keys, chunk) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		for _, k := range part {
			if _, err := service.Greet(ctx, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// counter is an origin that answers at once, and counts.
type counter struct {
	begun time.Time
	step  time.Duration
	again atomic.Bool // every key was loaded once
	steps []atomic.Int64
}

func newCounter(o Options) *counter {
	// A load, a TTL, and steps of reads that come late.
	return &counter{begun: time.Now(), step: o.Step, steps: make([]atomic.Int64, int(2*o.TTL/o.Step)+4)}
}

// Greet counts a query.
func (c *counter) Greet(_ context.Context, name, locale string) (origin.Greeting, error) {
	if c.again.Load() {
		c.steps[min(len(c.steps)-1, int(time.Since(c.begun)/c.step))].Add(1)
	}
	return origin.Greeting{Name: name, Locale: locale}, nil
}

// queries returns the counts up to the last step with any.
func (c *counter) queries() (all []int64) {
	last := 0
	for i := range c.steps {
		n := c.steps[i].Load()
		all = append(all, n)
		if n > 0 {
			last = i
		}
	}
	return all[:last+1]
}

// Queries is the sum of the counts.
func (c *counter) Queries() (sum int64) {
	for i := range c.steps {
		sum += c.steps[i].Load()
	}
	return sum
}

// Clear has nothing to delete.
func (*counter) Clear(context.Context) (int64, error) { return 0, nil }

// Failures is 0.
func (*counter) Failures() int64 { return 0 }
