package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/cmd/strata/hello"
	"github.com/strata-cache/strata/cmd/strata/origin"
	"github.com/strata-cache/strata/redis"
)

// The defaults of Options.
const (
	// DefaultTTL is short, so that a person sees greetings become stale.
	DefaultTTL  = 30 * time.Second
	DefaultRate = 500
	// DefaultLatency is the latency of an origin in the same data centre, over a few hops.
	DefaultLatency = 20 * time.Millisecond
	// DefaultMemoryLimit is small, so that a person sees the guard at work.
	DefaultMemoryLimit = 256 << 20
)

// Options configure a Stage.
type Options struct {
	// TTL is the time for which greetings are fresh. 0 means DefaultTTL.
	TTL time.Duration
	// Rate is the number of requests per second at the begin, from 1 to 5000. 0 means
	// DefaultRate.
	Rate int
	// Latency is added to each query of the origin at the begin. 0 means DefaultLatency, a negative
	// value none.
	Latency time.Duration
	// MemoryLimit is the limit of the guard of all caches, in bytes. 0 means DefaultMemoryLimit.
	MemoryLimit int64
	// Redis are the options of a Redis, of which connections are neither encrypted nor to a unix
	// socket. Without an Addr it is a redis-server that New starts, or, if the machine has none,
	// one inside this process.
	Redis redis.Options
	// Tracer is told of the work of the caches as spans. Nil means no traces.
	Tracer strata.Tracer
	// Token is the secret that requests for the page and for snapshots must have. Empty means that there are no answers.
	Token string
	// Origin is the URL of the database. Empty means SQLite in a temporary file.
	Origin string
}

// Stage is the whole of the demo. Its methods are safe for concurrent use. Create it with [New].
type Stage struct {
	o         Options
	db        *origin.Origin
	origin    *moody
	store     *store
	l2, bus   *proxy
	clients   []*redis.Client
	instances []*hello.Service
	load      *generator
	reports   *hello.Reports

	end  context.CancelFunc
	runs sync.WaitGroup
	one  sync.Mutex // one action at a time

	history
}

// instanceNames are the names of the instances.
var instanceNames = []string{"A", "B"} // read-only

// New opens all parts and begins the load. The caller closes the Stage.
func New(ctx context.Context, o Options) (s *Stage, err error) {
	o.TTL, o.Rate, o.Latency = cmp.Or(o.TTL, DefaultTTL), cmp.Or(o.Rate, DefaultRate), cmp.Or(o.Latency, DefaultLatency)
	if o.Rate < 1 || o.Rate > maxRate || o.TTL < time.Millisecond {
		return nil, fmt.Errorf("stage: the rate must be from 1 to %d, and the TTL 1ms or more", maxRate)
	}
	o.MemoryLimit = cmp.Or(o.MemoryLimit, DefaultMemoryLimit)
	s = &Stage{o: o, load: newGenerator(int64(o.Rate))}
	// ctx is for the start alone: the stage runs until Close.
	running, end := context.WithCancel(context.Background())
	s.end = end
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := s.open(ctx); err != nil {
		return s, err
	}
	if s.reports, err = hello.NewReports(o.MemoryLimit); err != nil {
		return s, err
	}
	if err := s.openInstances(); err != nil {
		return s, err
	}
	s.quiet = quietFor // so that failures at the start have a mark
	s.add(Mark{Text: "start", Said: "Both instances begin with an empty memory: the first requests wait for the origin."})
	s.runs.Go(func() { s.load.run(running, s.instances) })
	s.runs.Go(func() { s.sampleUntil(running) })
	return s, nil
}

// open opens the origin, L2, and the ways to it.
func (s *Stage) open(ctx context.Context) (err error) {
	if s.db, err = origin.Open(ctx, origin.Options{URL: s.o.Origin}); err != nil {
		return err
	}
	s.origin = &moody{Origin: s.db}
	s.origin.latency.Store(int64(max(0, s.o.Latency)))
	// The name of the first rank is the one that the load asks for most.
	s.origin.watch(hello.Key{Name: nameOf(0), Locale: locale})
	if s.store, err = openStore(ctx, s.o.Redis.Addr); err != nil {
		return err
	}
	if s.l2, err = newProxy(ctx, s.store.addr); err != nil {
		return err
	}
	// L2 and the bus have a proxy each, though they are one server, so that one can be broken
	// without the other.
	s.bus, err = newProxy(ctx, s.store.addr)
	return err
}

// openInstances makes the instances, each with clients of its own.
func (s *Stage) openInstances() error {
	for range instanceNames {
		o := s.o.Redis
		o.Addr = s.l2.addr()
		tier, err := redis.New(o)
		if err != nil {
			return err
		}
		s.clients = append(s.clients, tier)
		o.Addr = s.bus.addr()
		bus, err := redis.New(o)
		if err != nil {
			return err
		}
		s.clients = append(s.clients, bus)
		i, err := hello.New(hello.Options{Origin: s.origin, TTL: s.o.TTL, Guard: s.reports.Guard(), Tier: redis.NewTier(tier), Bus: redis.NewBus(bus), ShowKeys: true, Tracer: s.o.Tracer, Token: s.o.Token})
		if err != nil {
			return err
		}
		s.instances = append(s.instances, i)
	}
	return nil
}

// Close ends the load and closes all parts.
func (s *Stage) Close() error {
	s.end()
	// The load ends first: requests to closed instances would be counted as failures.
	s.runs.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var errs []error
	for _, i := range s.instances {
		_ = i.Close(ctx) // drops that a broken L2 has not confirmed are lost
	}
	errs = append(errs, s.reports.Close(ctx))
	for _, c := range s.clients {
		errs = append(errs, c.Close())
	}
	for _, p := range []*proxy{s.l2, s.bus} {
		if p != nil {
			p.close()
		}
	}
	if s.store != nil {
		s.store.close()
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	return errors.Join(errs...)
}

// Facts describe the origin and L2.
func (s *Stage) Facts() (origin, l2 string) { return s.db.String(), s.store.name }

// Reports is the cache that the action fill fills.
func (s *Stage) Reports() *hello.Reports { return s.reports }

// Instances are the services of the stage, in the order of their names.
func (s *Stage) Instances() (names []string, services []*hello.Service) {
	return instanceNames, s.instances
}
