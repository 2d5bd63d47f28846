package hello

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/cmd/strata/origin"
)

// Key is the key of a greeting.
type Key struct{ Name, Locale string }

// Counts are the counters of one mode since the service was made.
type Counts struct {
	// L1Hits counts answers from the memory of this process, L2Hits answers
	// from the shared store.
	L1Hits int64 `json:"l1_hits"`
	L2Hits int64 `json:"l2_hits"`
	// Shared is the number of requests that joined the load of another.
	Shared int64 `json:"shared_loads"`
	// Entries is the number of greetings in memory now.
	Entries int64 `json:"entries"`
}

// cache is the cache between the service and its origin in one mode.
type cache interface {
	get(ctx context.Context, key Key) (origin.Greeting, error)
	clear(ctx context.Context) error
	look(ctx context.Context, key Key) Sight
	drop(ctx context.Context, key Key, all bool) error
	counts() Counts
	close(ctx context.Context) error
}

// loader loads a greeting from the origin.
type loader func(ctx context.Context, key Key) (origin.Greeting, error)

// direct works without a cache: it asks the origin each time.
type direct struct{ load loader }

func (d direct) get(ctx context.Context, key Key) (origin.Greeting, error) { return d.load(ctx, key) }
func (direct) clear(context.Context) error                                 { return nil }
func (direct) counts() Counts                                              { return Counts{} }
func (direct) close(context.Context) error                                 { return nil }

// naive is a simple cache: a map, a mutex and a deadline per entry. Each of
// several concurrent misses of a key asks the origin, expired entries stay in
// memory, and the map has no bound.
type naive struct {
	load loader
	ttl  time.Duration
	hits atomic.Int64

	mu      sync.Mutex // guards entries
	entries map[Key]naiveEntry
}

type naiveEntry struct {
	value    origin.Greeting
	deadline time.Time
}

func newNaive(load loader, ttl time.Duration) *naive {
	return &naive{load: load, ttl: ttl, entries: map[Key]naiveEntry{}}
}

func (n *naive) get(ctx context.Context, key Key) (origin.Greeting, error) {
	n.mu.Lock()
	e, ok := n.entries[key]
	n.mu.Unlock()
	if ok && time.Now().Before(e.deadline) {
		n.hits.Add(1)
		return e.value, nil
	}
	// The mutex is free while the origin is asked. Several requests may load the same key: that is
	// what this mode shows.
	v, err := n.load(ctx, key)
	if err != nil {
		return v, err
	}
	n.mu.Lock()
	n.entries[key] = naiveEntry{value: v, deadline: time.Now().Add(n.ttl)}
	n.mu.Unlock()
	return v, nil
}

func (n *naive) clear(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.entries)
	return nil
}

func (n *naive) counts() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return Counts{L1Hits: n.hits.Load(), Entries: int64(len(n.entries))}
}

func (*naive) close(context.Context) error { return nil }

// String returns the name of the key in L2. A locale has no slash.
func (k Key) String() string { return k.Locale + "/" + k.Name }

// parseKey is the inverse of Key.String.
func parseKey(s string) (Key, error) {
	locale, name, ok := strings.Cut(s, "/")
	if !ok {
		return Key{}, errors.New("hello: key without a locale")
	}
	return Key{Name: name, Locale: locale}, nil
}
