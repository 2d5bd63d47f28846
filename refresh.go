package strata

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/remote"
)

// Flags of entries in L1.
const (
	// closely makes every hit look at the entry more closely: it has tags, or
	// the cache has a Clone, a hook for hits and the like.
	closely uint32 = 1 << iota
)

// entry returns an entry for L1 that is fresh for fresh, and kept for left, as
// far as L1 may. Either may be over. stamps are from before the value was read.
func (c *Cache[K, V]) entry(key K, v V, fresh, left time.Duration, s stamps, id remote.ID) *l1.Entry[K, V] {
	now := c.memory.Now()
	longest := l1.After(now, c.memoryTTL())
	e := &l1.Entry[K, V]{
		Key: key, Value: v, Fresh: min(longest, later(now, fresh)), Dead: min(longest, l1.After(now, left)),
		Stamp: s.trust, ID: uint64(id), Flags: c.look,
	}
	e.Soon = e.Fresh
	if e.Tags = newTags(s.tags, s.tagTrust); e.Tags != nil {
		e.Flags |= closely
	}
	return e
}

// newTags are tags as an entry has them, whose stamp is seen; nil if there are
// none.
func newTags(tags []string, seen uint64) *l1.Tags {
	if len(tags) == 0 {
		return nil
	}
	t := &l1.Tags{Names: tags}
	t.Seen.Store(seen)
	return t
}

// later is l1.After for a time that may be past.
func later(now int64, d time.Duration) int64 {
	if d < 0 {
		return max(1, now+int64(d))
	}
	return l1.After(now, d)
}

// refreshSoon sets when a read of e is to start a refresh: after a share of
// ttl, the life of its value, or earlier at random. fresh is what is left of
// that life, which L1 may have cut short. took is how long its load took; zero if
// that is not known.
func (c *Cache[K, V]) refreshSoon(e *l1.Entry[K, V], fresh, ttl, took time.Duration) {
	if c.o.RefreshAt < 0 || ttl == NoExpiry || fresh <= 0 {
		return
	}
	rest := time.Duration(float64(ttl) * (1 - c.o.RefreshAt))
	if c.o.RefreshSpread > 0 {
		if took == 0 {
			took = c.counts.latency.mean()
		}
		early := time.Duration(rand.ExpFloat64() * c.o.RefreshSpread * float64(took))
		rest = max(rest, min(early, ttl/2))
	}
	e.Soon = min(e.Fresh, later(c.memory.Now(), fresh-rest))
}

// revalidates reports whether e, which is not fresh any more, may be served
// while it is refreshed. One that a caller has expired may not.
func (c *Cache[K, V]) revalidates(e *l1.Entry[K, V], now int64) bool {
	return e.Fresh > 0 && now < l1.After(e.Fresh, c.o.Stale.WhileRevalidate)
}

// onErrorUntil is until when e may be served if its load fails.
func (c *Cache[K, V]) onErrorUntil(e *l1.Entry[K, V]) int64 {
	if c.o.Stale.OnError == 0 {
		return 0
	}
	if e.Fresh == 0 {
		return e.Dead
	}
	return min(e.Dead, l1.After(e.Fresh, c.o.Stale.OnError))
}

// refresh loads key in the background, unless that is under way, has failed a
// moment ago, or too much is.
func (c *Cache[K, V]) refresh(ctx context.Context, key K, load Loader[K, V], o call) {
	if load == nil {
		load = c.o.Loader
	}
	if _, running := c.flights.Running(key); running || load == nil || c.throttled(key) != nil {
		return
	}
	o.refresh, o.info = true, nil
	ctx = flight.Apart(context.WithoutCancel(ctx)) // no load waits for it
	fly := func(found func()) {
		// From then on its flight says that it runs, unless that is obsolete.
		o.registered = found
		_, _ = c.fly(ctx, key, flight.Load, load, o)
	}
	if !c.background.run(key, fly) {
		c.counts.refreshesDropped.Add(1)
	}
}

// pool runs a bounded number of functions at once. Functions beyond that are not run.
type pool struct {
	most int // never changed

	mu      sync.Mutex // guards below
	running int
	begun   map[any]*mark
	closed  bool
	runs    sync.WaitGroup
}

// mark says that a function was begun for a key and is not found there yet.
type mark struct{ key any }

// run runs f, unless another function was begun for key, or key does not equal
// itself. It reports false if there is no room. f may call found when others
// find out by themselves that it runs: then run looks for it no more.
func (p *pool) run(key any, f func(found func())) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	same := key
	if p.begun[key] != nil || key != same {
		return true
	}
	if p.closed || p.running >= p.most {
		return false
	}
	if p.begun == nil {
		p.begun = map[any]*mark{}
	}
	m := &mark{key}
	p.begun[key] = m
	p.running++
	p.runs.Go(func() {
		defer p.ended(m)
		f(func() { p.found(m) })
	})
	return true
}

func (p *pool) found(m *mark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(m)
}

func (p *pool) ended(m *mark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.drop(m)
}

// drop removes m, and no later mark of its key. It is called with mu held.
func (p *pool) drop(m *mark) {
	if p.begun[m.key] == m {
		delete(p.begun, m.key)
	}
}

// close keeps further functions from running. wait waits for those that do.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}
