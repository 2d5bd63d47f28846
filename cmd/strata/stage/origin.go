package stage

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/cmd/strata/hello"
	"github.com/strata-cache/strata/cmd/strata/origin"
)

// moody is an origin that can be slow or broken.
type moody struct {
	hello.Origin
	latency atomic.Int64 // added to each query
	broken  atomic.Bool
	queries atomic.Int64 // also queries that this type fails

	mu     sync.Mutex // guards below
	key    hello.Key  // the watched greeting
	newest int64      // the number of its last query
}

// Greet returns a greeting of the database, after the latency, unless the origin is broken.
func (m *moody) Greet(ctx context.Context, name, locale string) (g origin.Greeting, err error) {
	m.queries.Add(1)
	// The latency comes first: a broken origin that is also slow keeps its callers waiting, as real
	// ones do.
	if d := time.Duration(m.latency.Load()); d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return g, ctx.Err()
		}
	}
	if m.broken.Load() {
		return g, origin.ErrUnavailable
	}
	g, err = m.Origin.Greet(ctx, name, locale)
	m.mu.Lock()
	defer m.mu.Unlock()
	// Answers of parallel queries come in any order, so the highest number is kept.
	if err == nil && m.key == (hello.Key{Name: name, Locale: locale}) {
		m.newest = max(m.newest, g.Asked)
	}
	return g, err
}

// watch makes key the watched greeting.
func (m *moody) watch(key hello.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.key != key {
		m.key, m.newest = key, 0
	}
}

// watched returns the watched greeting and the number of its last query, as far as it is known.
func (m *moody) watched() (key hello.Key, newest int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.key, m.newest
}
