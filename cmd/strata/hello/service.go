package hello

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/cmd/strata/origin"
	"github.com/strata-cache/strata/remote"
)

// Origin is what the service stands in front of; *origin.Origin is one.
type Origin interface {
	// Greet returns a greeting and may be slow.
	Greet(ctx context.Context, name, locale string) (origin.Greeting, error)
	// Clear forgets all greetings and returns how many there were.
	Clear(ctx context.Context) (int64, error)
	// Queries and Failures count calls of Greet.
	Queries() int64
	Failures() int64
}

// Mode says what stands between the service and its origin.
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

// DefaultTTL is how long greetings are fresh unless Options.TTL says otherwise.
const DefaultTTL = 3 * time.Minute

// Options configure a Service. Origin is required.
type Options struct {
	Origin Origin
	// TTL is how long greetings are fresh. 0 means DefaultTTL.
	TTL time.Duration
	// MaxEntries bounds the memory of the mode strata; naive has no bound. 0
	// means strata's default.
	MaxEntries int
	// Tier and Bus are what instances share in the mode strata. They are not
	// closed by the service. A nil Tier means none.
	Tier remote.Tier
	Bus  remote.Bus
	// Mode to begin with. Empty means strata.
	Mode Mode
	// Logger gets what the cache has to say. Nil means nothing.
	Logger *slog.Logger
}

// Service answers requests, in one mode at a time. Its methods are safe for
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
	s := &Service{options: o, origin: o.Origin}
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

func (s *Service) load(ctx context.Context, key Key) (origin.Greeting, error) {
	return s.origin.Greet(ctx, key.Name, key.Locale)
}

// Mode is the present mode.
func (s *Service) Mode() Mode { return *s.mode.Load() }

// SetMode switches. Requests under way end in the mode they began in. What the
// other modes have cached stays.
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

// Restart puts an empty cache in the place of the one that the mode strata
// uses, as a restart of the process would: what instances share stays.
// Requests that wait for a load of the old cache fail.
func (s *Service) Restart(ctx context.Context) error {
	l, err := newLayered(s.load, s.options)
	if err != nil {
		return err
	}
	return s.layered.Swap(l).close(ctx)
}

// Clear forgets all greetings: the origin's first, then, so that none of them
// comes back, those of every mode.
func (s *Service) Clear(ctx context.Context) (int64, error) {
	n, err := s.origin.Clear(ctx)
	for _, m := range Modes() {
		err = errors.Join(err, s.cache(m).clear(ctx))
	}
	return n, err
}

// Stats are the numbers of a Service.
type Stats struct {
	Mode Mode `json:"mode"`
	// Requests counts well-formed GETs of greetings in all modes, Errors those
	// of them that failed.
	Requests int64 `json:"requests"`
	Errors   int64 `json:"errors"`
	// Queries counts what the origin was asked in all modes, Failures how much
	// of it failed.
	Queries  int64 `json:"origin_queries"`
	Failures int64 `json:"origin_failures"`
	// Cache is about the present mode.
	Cache Counts `json:"cache"`
}

// Stats returns the numbers of the service and its present mode.
func (s *Service) Stats() Stats {
	m := s.Mode()
	return Stats{
		Mode:     m,
		Requests: s.requests.Load(),
		Errors:   s.errors.Load(),
		Queries:  s.origin.Queries(),
		Failures: s.origin.Failures(),
		Cache:    s.cache(m).counts(),
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
