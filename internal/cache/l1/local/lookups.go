package local

import (
	"sync"
	"sync/atomic"

	"github.com/strata-cache/strata/internal/cache/l1"
)

// Lookups splits the look-ups of a store into reads that L1 has answered with a fresh value, and
// the others. Its zero value has counted nothing. It is safe for concurrent use.
type Lookups struct {
	asMisses atomic.Uint64

	mu           sync.Mutex // guards below
	hits, misses uint64     // as Read last told them
}

// AsMiss counts, if found is set, a look-up that found an entry which the cache must not serve,
// or which it serves although it is stale.
func (l *Lookups) AsMiss(found bool) {
	if found {
		l.asMisses.Add(1)
	}
}

// Read returns the counters of the store, which look reads, with the reads as its hits and misses.
// Neither of them falls, although a read is a hit of the store before AsMiss says more, and
// although a store may lose a few hits.
func (l *Lookups) Read(look func() l1.Stats) l1.Stats {
	asMisses := l.asMisses.Load() // before the store's: it is part of them
	s := look()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hits = max(l.hits, s.Hits-min(s.Hits, asMisses))
	l.misses = max(l.misses, s.Misses+asMisses)
	s.Hits, s.Misses = l.hits, l.misses
	return s
}
