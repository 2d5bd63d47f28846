package hello

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/cmd/strata/origin"
	"github.com/strata-cache/strata/internal/observe/page"
	"github.com/strata-cache/strata/memory"
	"github.com/strata-cache/strata/remote"
)

// Origin is the origin of the service, for instance an *origin.Origin.
type Origin interface {
	// Greet returns a greeting. It may be slow.
	Greet(ctx context.Context, name, locale string) (origin.Greeting, error)
	// Clear deletes all greetings and returns their number.
	Clear(ctx context.Context) (int64, error)
	// Queries and Failures count calls of Greet.
	Queries() int64
	Failures() int64
}

// Mode is the kind of cache between the service and its origin.
type Mode string

// The modes.
const (
	None   Mode = "none"
	Naive  Mode = "naive"
	Strata Mode = "strata"
)

// Modes returns all modes, simplest first.
func Modes() []Mode { return []Mode{None, Naive, Strata} }

// ParseMode returns the mode with a name.
func ParseMode(s string) (Mode, error) {
	for _, m := range Modes() {
		if s == string(m) {
			return m, nil
		}
	}
	return "", fmt.Errorf("mode must be one of %s", modeList())
}

func modeList() string {
	var names []string
	for _, m := range Modes() {
		names = append(names, string(m))
	}
	return strings.Join(names, ", ")
}

// DefaultTTL is the default of Options.TTL.
const DefaultTTL = 3 * time.Minute

// Options configure a Service. Origin is required.
type Options struct {
	Origin Origin
	// TTL is the time for which greetings are fresh. 0 means DefaultTTL.
	TTL time.Duration
	// Jitter is the jitter of lives in the mode strata: 0 means the default of strata, a negative
	// value none.
	Jitter float64
	// MaxEntries bounds the memory of the mode strata; naive has no bound. 0
	// means the default of strata.
	MaxEntries int
	// Guard bounds the memory of the mode strata together with all other caches of this guard. Nil means none.
	Guard *memory.Guard
	// Tier and Bus are the shared tier and bus of the mode strata. The service
	// does not close them. A nil Tier means none.
	Tier remote.Tier
	Bus  remote.Bus
	// MemoryTTL caps the time for which the memory of the mode strata keeps
	// greetings. 0 means the default of strata.
	MemoryTTL time.Duration
	// Mode is the first mode. Empty means strata.
	Mode Mode
	// ShowKeys shows names on pages, in logs and in spans.
	ShowKeys bool
	// Tracer is told of the work of the cache as spans. Nil means no traces.
	Tracer strata.Tracer
	// Logger is the logger of the cache. Nil means no log.
	Logger *slog.Logger
	// Token is the secret that requests for the snapshot, and requests past the caches, must have:
	// ?token= or "Authorization: Bearer". Empty means a new random one, which only this process
	// knows.
	Token string
}

// Service handles requests in one mode at a time. Its methods are safe for
// concurrent use.
type Service struct {
	options Options
	origin  Origin
	direct  direct
	naive   *naive
	layered atomic.Pointer[layered]
	mode    atomic.Pointer[Mode]
	mux     *http.ServeMux

	requests, errors atomic.Int64

	mu      sync.Mutex // guards retired
	retired Answers    // of caches before the present one
}

// New returns a service.
func New(o Options) (*Service, error) {
	if o.Origin == nil {
		return nil, errors.New("hello: options: Origin is required")
	}
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.Mode == "" {
		o.Mode = Strata
	}
	o.Token = cmp.Or(o.Token, page.NewToken())
	s := &Service{options: o, origin: o.Origin}
	// A wrong mode is found before a cache is made, which would have to be closed again.
	if err := s.SetMode(o.Mode); err != nil {
		return nil, err
	}
	l, err := newLayered(s.load, o)
	if err != nil {
		return nil, err
	}
	s.direct, s.naive = direct{s.load}, newNaive(s.load, o.TTL)
	s.layered.Store(l)
	s.mux = s.routes()
	return s, nil
}

// load is the loader of all caches: they differ in when they call it.
func (s *Service) load(ctx context.Context, key Key) (origin.Greeting, error) {
	return s.origin.Greet(ctx, key.Name, key.Locale)
}

// Mode returns the present mode.
func (s *Service) Mode() Mode { return *s.mode.Load() }

// SetMode changes the mode. Running requests end in the mode in which they
// began. The other modes keep their caches.
func (s *Service) SetMode(m Mode) error {
	if _, err := ParseMode(string(m)); err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	s.mode.Store(&m)
	return nil
}

func (s *Service) cache(m Mode) cache {
	switch m {
	case None:
		return s.direct
	case Naive:
		return s.naive
	}
	return s.layered.Load()
}

// Clear deletes all greetings: first in the origin, then in the cache of every mode, so
// that no cache loads a deleted greeting again.
func (s *Service) Clear(ctx context.Context) (int64, error) {
	n, err := s.origin.Clear(ctx)
	for _, m := range Modes() {
		err = errors.Join(err, s.cache(m).clear(ctx))
	}
	return n, err
}

// Stats are the counters of a Service.
type Stats struct {
	Mode Mode `json:"mode"`
	// Requests counts well-formed GETs of greetings in all modes, and Errors
	// the failed ones among them.
	Requests int64 `json:"requests"`
	Errors   int64 `json:"errors"`
	// Queries counts the queries of the origin in all modes, and Failures the
	// failed ones among them.
	Queries  int64 `json:"origin_queries"`
	Failures int64 `json:"origin_failures"`
	// Cache has the counters of the present mode.
	Cache Counts `json:"cache"`
}

// Stats returns the counters of the service and its present mode.
func (s *Service) Stats() Stats {
	m := s.Mode()
	return Stats{
		Mode: m, Requests: s.requests.Load(), Errors: s.errors.Load(),
		Queries: s.origin.Queries(), Failures: s.origin.Failures(), Cache: s.cache(m).counts(),
	}
}

// Close closes the caches. The origin, Tier and Bus stay open.
func (s *Service) Close(ctx context.Context) error {
	var err error
	for _, m := range Modes() {
		err = errors.Join(err, s.cache(m).close(ctx))
	}
	return err
}
