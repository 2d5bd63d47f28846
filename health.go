package strata

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/strata-cache/strata/internal/health"
	"github.com/strata-cache/strata/internal/limit"
	"github.com/strata-cache/strata/remote"
)

const (
	// remoteWellAfter is how long no operation of a kind has to fail until the log
	// says that L2 is well: one that fails now and then answers in between.
	remoteWellAfter = time.Second
	// originWellAfter is the same of the origin: an origin that fails one load in
	// a hundred is no news every few seconds.
	originWellAfter = 10 * time.Second
)

// healths are what the log was told of what the cache needs.
type healths struct {
	silent  health.Record             // L2 does not answer
	refuses [operations]health.Record // L2 refuses operations of a kind
	broken  health.Record             // L2 is left alone
	full    health.Record             // nothing is stored in L2
	origin  health.Record             // loads fail
	panics  health.Limit              // of the Loader
}

// quiet reports whether an operation of a kind that L2 has answered is no news.
func (h *healths) quiet(k operation) bool {
	return h.silent.Quiet() && h.refuses[k].Quiet() && h.broken.Quiet() && h.full.Quiet()
}

// operation is a kind of operation on L2. A server may refuse one kind and carry
// out the others: one without memory left refuses to store.
type operation uint8

const (
	reading  operation = iota
	storing            // also leases
	dropping           // also leases that are given back
	operations
)

// operationOf is the kind of the operation with a name.
func operationOf(op string) operation {
	switch op {
	case "get", "tags":
		return reading
	case "acquire", "put", "extend":
		return storing
	}
	return dropping
}

// probes says what an operation decides on: the breaker of L2, and that of what is
// stored there.
type probes struct{ all, stores bool }

// remoteResult counts what an operation on L2 under ctx came to, tells the
// breakers, and logs changes. An operation whose caller has left says nothing
// about L2.
func (c *Cache[K, V]) remoteResult(ctx context.Context, op string, err error, p probes) {
	if errors.Is(err, remote.ErrKeyTooLong) || errors.Is(err, remote.ErrValueTooLarge) {
		return // nothing was sent
	}
	if err != nil && callerLeft(ctx) != nil {
		return
	}
	k := operationOf(op)
	if refused := errors.Is(err, remote.ErrRefused); !refused || k == reading {
		c.reported(err, p.all)
	}
	if k == storing {
		c.reportedStore(err, p.stores)
	}
	if err == nil {
		c.remoteWell(k)
		return
	}
	c.counts.remoteErrors.Add(1)
	c.remoteFailed(op, k, err)
	c.tell(c.o.Hooks.RemoteError, Event{Context: ctx, Tier: "L2", Op: op, Err: err})
}

// remoteFailed logs that L2 fails, in its own words if it has any.
func (c *Cache[K, V]) remoteFailed(op string, k operation, err error) {
	r, what := &c.health.silent, "strata: L2 does not answer"
	if errors.Is(err, remote.ErrRefused) {
		r, what = &c.health.refuses[k], "strata: L2 refuses"
	}
	if r.Failed(c.memory.Now()) {
		c.o.Logger.Warn(what, slog.String("cache", c.o.Name), slog.String("op", op), slog.Any("error", err))
	}
}

// remoteWell logs that L2 is well again, if it was not.
func (c *Cache[K, V]) remoteWell(k operation) {
	if c.health.quiet(k) {
		return
	}
	now := c.memory.Now()
	if c.health.silent.Well(now, remoteWellAfter) {
		c.o.Logger.Info("strata: L2 answers again", slog.String("cache", c.o.Name))
	}
	if c.health.refuses[k].Well(now, remoteWellAfter) {
		name := [operations]string{"reads", "stores", "drops"}[k]
		c.o.Logger.Info("strata: L2 refuses no more", slog.String("cache", c.o.Name), slog.String("kind", name))
	}
}

// reported tells the breaker what an operation on L2 came to. While it is open
// nothing that others drop is certain to be told here.
func (c *Cache[K, V]) reported(err error, probe bool) {
	if err == nil && c.breaker.Calm() && c.health.broken.Quiet() {
		return
	}
	if c.breaker.Report(c.memory.Now(), probe, err != nil) {
		c.breaking.Lock() // so that the link is told last what is true at last
		c.link.Suspend(c.breaker.State() != limit.Closed)
		c.breaking.Unlock()
	}
	c.logBreaker(c.breaker, &c.health.broken, err, "strata: L2 is left alone", "strata: L2 is used again")
}

// reportedStore tells the breaker of what is stored in L2. While it is open loads
// take no leases and store in L1 alone; what is dropped is told here all the same.
func (c *Cache[K, V]) reportedStore(err error, probe bool) {
	if err == nil && c.storing.Calm() && c.health.full.Quiet() {
		return
	}
	c.storing.Report(c.memory.Now(), probe, err != nil)
	c.logBreaker(c.storing, &c.health.full, err, "strata: nothing is stored in L2", "strata: values are stored in L2 again")
}

// logBreaker logs what has become of b.
func (c *Cache[K, V]) logBreaker(b *limit.Breaker, r *health.Record, err error, opened, closed string) {
	now := c.memory.Now()
	switch open := b.State() != limit.Closed; {
	case open && err != nil && r.Failed(now):
		c.o.Logger.Warn(opened, slog.String("cache", c.o.Name), slog.Any("error", err))
	case !open && r.Well(now, 0):
		c.o.Logger.Info(closed, slog.String("cache", c.o.Name))
	}
}

// mayStore reports whether L2 is asked to store, and whether it is to find out if
// it does again.
func (c *Cache[K, V]) mayStore() (ok, probe bool) {
	if c.storing.Calm() {
		return true, false
	}
	return c.storing.Allow(c.memory.Now())
}

// originFailed notes that a load has failed, and logs it if none has lately.
func (c *Cache[K, V]) originFailed(key K, err error) {
	c.failing.Add(1)
	if c.health.origin.Failed(c.memory.Now()) {
		c.o.Logger.Warn("strata: loads fail", c.about(key, slog.Any("error", err))...)
	}
}

// succeeded notes that the origin has answered.
func (c *Cache[K, V]) succeeded() {
	if c.failing.Load() != 0 {
		c.failing.Store(0)
	}
	c.budget.Success()
	if !c.health.origin.Quiet() && c.health.origin.Well(c.memory.Now(), originWellAfter) {
		c.o.Logger.Info("strata: loads succeed again", slog.String("cache", c.o.Name))
	}
}

// maxStack is how many bytes of the stack of a panic are logged.
const maxStack = 8 << 10

// logPanic logs that a Loader has panicked, or has ended its goroutine: of a
// refresh nobody else would ever learn it.
func (c *Cache[K, V]) logPanic(key K, err error) {
	ok, skipped := c.health.panics.Allow(c.memory.Now())
	if !ok {
		return
	}
	about := c.about(key, slog.Any("error", err), slog.Int("more", skipped))
	var p *LoadPanicError
	if errors.As(err, &p) {
		about = append(about, slog.String("stack", string(p.Stack[:min(len(p.Stack), maxStack)])))
	}
	c.o.Logger.Error("strata: loader panicked", about...)
}

// about are the attributes of a line in the log that is about key.
func (c *Cache[K, V]) about(key K, more ...any) []any {
	all := []any{slog.String("cache", c.o.Name)}
	if c.o.ShowKeys {
		all = append(all, slog.Any("key", key))
	}
	return append(all, more...)
}
