package load

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/strata-cache/strata/internal/wire"
)

// Bounds of Options.
const (
	MaxConcurrency = 10_000
	MaxCardinality = 1_000_000_000
	MaxGroup       = 1_000_000
	MaxRate        = 1_000_000
	MaxSteps       = 100
)

// DefaultTimeout is the default of Options.Timeout.
const DefaultTimeout = 10 * time.Second

// Options configure a run. URL, Concurrency and Duration are required.
type Options struct {
	// Method of the requests. Empty means GET, or POST with a Body.
	Method string
	// URL of the requests, absolute, http or https. It may contain {i}.
	URL string
	// Header of the requests. Values may contain {i}; Host sets the host. A name without
	// values suppresses a default field of that name.
	Header http.Header
	// Body of the requests. It may contain {i}. Empty means none.
	Body string

	// Cardinality is the number of keys. 0 means 1.
	Cardinality int
	// Group is the number of requests for the same key that start at once. 0
	// means 1.
	Group int
	// Rate is the number of requests per second over all keys. 0 means no
	// limit: each answer starts the next request. Running.Set changes it.
	Rate float64
	// Concurrency is the largest number of running requests, and the number of
	// goroutines that send them. Running.Set changes it.
	Concurrency int
	// Duration is the time during which requests are started.
	Duration time.Duration
	// Timeout ends a request. 0 means DefaultTimeout.
	Timeout time.Duration

	// Steps, if positive, divides Duration into so many equal parts. The Result then has latencies
	// for each part: of the requests with an intended start in it.
	Steps int

	// Transport sends the requests. Nil means a new transport with one connection per
	// running request, which the run closes at its end.
	Transport http.RoundTripper
	// Insecure makes a new transport believe every certificate.
	Insecure bool
	// Follow makes a request include the redirects that follow it, ten at most. Without it a
	// 302 is an answer.
	Follow bool

	// Progress, if not nil, is called every Every (0 means 500 ms) during the
	// run, one call at a time. It delays no request.
	Progress func(Progress)
	Every    time.Duration
}

// withDefaults returns o with defaults for all zero fields, and the joined
// errors of all invalid fields.
func (o Options) withDefaults() (Options, error) {
	orDefault(&o.Cardinality, 1)
	orDefault(&o.Group, 1)
	orDefault(&o.Timeout, DefaultTimeout)
	orDefault(&o.Every, 500*time.Millisecond)
	if o.Method == "" {
		o.Method = http.MethodGet
		if o.Body != "" {
			o.Method = http.MethodPost
		}
	}
	return o, errors.Join(
		within("cardinality", o.Cardinality, MaxCardinality),
		within("group", o.Group, MaxGroup),
		within("concurrency", o.Concurrency, MaxConcurrency),
		within("steps", o.Steps+1, MaxSteps+1),
		positive("duration", o.Duration),
		positive("timeout", o.Timeout),
		positive("progress interval", o.Every),
		checkRate(o.Rate),
	)
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// within returns an error that names the bounds, for a person who has typed the number.
func within(name string, v, most int) error {
	if v < 1 || v > most {
		return fmt.Errorf("load: %s: %d is not between 1 and %d", name, v, most)
	}
	return nil
}

func positive(name string, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("load: %s: %v is not positive", name, d)
	}
	return nil
}

func checkRate(r float64) error {
	if math.IsNaN(r) || r < 0 || r > MaxRate {
		return fmt.Errorf("load: rate: %v is not between 0 (unlimited) and %d", r, MaxRate)
	}
	return nil
}

// ParseURL returns the target of a run with this URL.
func ParseURL(raw string) (*url.URL, error) {
	u, err := wire.ParseHTTP(raw)
	if err != nil {
		return nil, fmt.Errorf("load: url: %w", err)
	}
	return u, nil
}

// Validate returns the error that Run would return for o.
func (o Options) Validate() error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	// The template finds what no number shows: a URL, a method, or a header that cannot be sent.
	_, err = newTemplate(o)
	return err
}
