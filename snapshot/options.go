package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
)

// Cache is a cache of strata: a *strata.Cache with any types of keys and values.
type Cache interface {
	Inside() strata.Inside
}

const (
	defaultWithin  = time.Minute
	defaultStall   = 10 * time.Second
	defaultStreams = 2
	// maxStreams is the greatest number of streams of one Pull.
	maxStreams = 16
)

// Options configure the functions of this package. The zero Options are good for all of
// them. Fields that a function has no use for are ignored.
type Options struct {
	// Within is the time after which a function that fills caches ends, with the entries
	// so far in use. Zero means a minute, a negative Within no limit.
	Within time.Duration
	// BytesPerSecond limits the rate at which a snapshot is written or read, over all its
	// streams. Zero means no limit.
	BytesPerSecond int64
	// KeysPerSecond limits the rate of keys read from L2, for each cache. Zero
	// means no limit: one batch of up to 500 keys after the other.
	KeysPerSecond int
	// MaxEntries is the largest number of entries written of each cache, the
	// hottest ones. Zero means all.
	MaxEntries int
	// Alias lets values refer to the memory of the snapshot, if their codec can
	// (codec.Aliaser). Reading then copies nothing, but a piece of 64 KiB stays in memory
	// as long as any of its values: for caches of small values that change often, this
	// is many times the memory of the values.
	Alias bool
	// Progress, if set, is called about ten times a second and at the end, by one
	// goroutine at a time. One that does not return holds nothing up.
	Progress func(Progress)
	// Logger gets one line about each call, and one about each refused cache. Nil
	// means the Logger of the first cache.
	Logger *slog.Logger

	// Streams is the number of connections of Pull, from 1 to 16, each of which carries a
	// share of the entries. Zero means 2.
	Streams int
	// Stall is how long Pull waits for the next bytes. Zero means 10 seconds.
	Stall time.Duration
	// Header is added to the requests of Pull, for example to authorise them.
	Header http.Header
	// Client sends the requests of Pull. Nil means a client of its own, which follows no
	// redirects.
	Client *http.Client
}

// Progress tells how far a snapshot is.
type Progress struct {
	// Entries and Bytes are the numbers so far.
	Entries, Bytes int64
	// TotalEntries is about the number of all entries, and TotalBytes about the number
	// of all bytes. Zero means that it is not known.
	TotalEntries, TotalBytes int64
	// Elapsed is the time since the begin.
	Elapsed time.Duration
}

// check returns the error of wrong options.
func (o *Options) check() error {
	for _, x := range []struct {
		name  string
		value int64
	}{
		{"BytesPerSecond", o.BytesPerSecond},
		{"KeysPerSecond", int64(o.KeysPerSecond)},
		{"MaxEntries", int64(o.MaxEntries)},
		{"Streams", int64(o.Streams)},
		{"Stall", int64(o.Stall)},
	} {
		if x.value < 0 {
			return fmt.Errorf("snapshot: Options.%s is negative: %d", x.name, x.value)
		}
	}
	if o.Streams > maxStreams {
		return fmt.Errorf("snapshot: Options.Streams is %d, more than %d", o.Streams, maxStreams)
	}
	return nil
}

// within returns a context that ends when the time of o is over.
func (o *Options) within(ctx context.Context) (context.Context, context.CancelFunc) {
	d := cmp.Or(o.Within, defaultWithin)
	if d < 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%w: %v", ErrTime, d))
}

// logger is the logger of a call for sources.
func (o *Options) logger(all []transfer.Source) *slog.Logger {
	switch {
	case o.Logger != nil:
		return slog.New(observe.NewRunner().Handler(o.Logger.Handler()))
	case len(all) == 0:
		return nil
	}
	return all[0].Logger()
}

var (
	errNoCache = errors.New("snapshot: no cache is given")
	errNoName  = errors.New("snapshot: a cache has no name: set Options.Name")
)

// sources are the sources of caches with different names, which can be in a snapshot.
func sources(caches []Cache) ([]transfer.Source, error) {
	if len(caches) == 0 {
		return nil, errNoCache
	}
	all, named := make([]transfer.Source, len(caches)), make(map[string]bool)
	for i, c := range caches {
		s := transfer.Parts(c.Inside()).Source()
		if s == nil {
			return nil, errNoCache
		}
		switch name := s.Name(); {
		case name == "":
			return nil, errNoName
		case named[name]:
			return nil, fmt.Errorf("snapshot: two caches have the name %q", name)
		default:
			named[name] = true
		}
		if err := s.CheckKeys(); err != nil {
			return nil, fmt.Errorf("snapshot: cache %q: %w", s.Name(), err)
		}
		all[i] = s
	}
	return all, nil
}
