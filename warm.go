package strata

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/l1/local"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
)

var (
	errWarmAlone   = errors.New("strata: warm: the cache has no Tier to read from; WarmOptions.Load loads keys")
	errWarmOff     = errors.New("strata: warm: the cache has Memory.Off, or is turned off")
	errWarmRefused = errors.New("strata: warm: L2 does not answer")
	errWarmFailed  = errors.New("strata: warm: no load succeeds")
)

// WarmOptions configure [Cache.Warm]. The zero WarmOptions set no limit.
type WarmOptions struct {
	// PerSecond is the largest number of keys read from L2, or loaded, in a second.
	// 0 means as many as L2 and the origin answer. A negative number is an error.
	PerSecond int
	// Load has keys that L2 does not have loaded, by Options.ManyLoader, one batch at a time,
	// or else by Options.Loader, one key after the other. Such loads are like the loads of
	// GetMany: with leases, limits and remembered failures.
	Load bool
	// Progress, if set, is called after each batch of up to 500 keys.
	Progress func(Warmed)
}

// Warmed is the result of [Cache.Warm], or how far it is.
type Warmed struct {
	// Keys is the number of keys so far. Present counts the keys that L1 had already, Found
	// the keys that L2 had, Loaded and Failed the keys with a load that succeeded or
	// failed, and Absent the others.
	Keys, Present, Found, Loaded, Failed, Absent int
}

// Warm reads keys from L2 into L1, so that the first callers of a new instance find them
// there. Keys should come in the order of their use, the hottest first, as package snapshot
// saves them: Warm ends when L1 is full, since each entry more would push one out. It reads
// in batches of up to 500 keys in one round trip each, one batch at a time.
//
// With a Bus not yet connected, Warm waits for its connection, up to three seconds, so that
// the entries do not become suspect later.
//
// Warm stores nothing that a read would not store, so it brings back no dropped value. Without
// WarmOptions.Load, keys that L2 does not have are left to their readers. It is
// no read: Stats counts it as Warmed, and no hook for hits and misses is called.
//
// It returns ctx's error if ctx ends first, so ctx carries the limit of its time, and an
// error if in three batches in a row L2 does not answer, or all loads fail, if the cache has
// Memory.Off, no Tier or no loader, is turned off by Tune, or is closed. The keys so far stay warm.
func (c *Cache[K, V]) Warm(ctx context.Context, keys iter.Seq[K], o WarmOptions) (Warmed, error) {
	var progress func(transfer.Warmed)
	if o.Progress != nil {
		progress = func(w transfer.Warmed) { o.Progress(Warmed(w)) }
	}
	so, err := c.warm(ctx, keys, o, progress)
	return Warmed(so), err
}

// warm is Warm, but for the type of its result.
func (c *Cache[K, V]) warm(ctx context.Context, keys iter.Seq[K], o WarmOptions, progress func(transfer.Warmed)) (so transfer.Warmed, err error) {
	w := warming[K, V]{Store: &c.near, c: c, load: c.manyLoader(nil), loads: o.Load}
	switch err := w.Err(ctx); {
	case err != nil:
		return so, err
	case o.PerSecond < 0:
		return so, errors.New("strata: warm: PerSecond is negative")
	case !o.Load && !c.l2.HasTier():
		return so, errWarmAlone
	}
	if o.Load && w.load == nil {
		return so, ErrNoLoader
	}
	// Entries from before the bus of a new instance connects become suspect when it
	// connects.
	if err := cmp.Or(c.link.Join(ctx), w.Err(ctx)); err != nil { // in this order
		return so, err
	}
	run := transfer.Warming[K]{Cache: &w, PerSecond: o.PerSecond, Progress: progress}
	return run.Run(ctx, keys)
}

// warmable returns the reason why no key can be warmed: the cache is closed, or ctx has ended.
func (c *core) warmable(ctx context.Context) error {
	if c.closed.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

// warming is the cache of a Warm.
type warming[K comparable, V any] struct {
	*local.Store[K, V]
	c     *Cache[K, V]
	load  ManyLoader[K, V]
	loads bool // keys that L2 does not have
}

func (w *warming[K, V]) Err(ctx context.Context) error {
	if err := w.c.warmable(ctx); err != nil || !w.c.passesMemory(&call{}) {
		return err
	}
	return errWarmOff
}

func (w *warming[K, V]) Usable(key K) bool { return w.c.checkKey(key) == nil }

// LookUp gets keys from L2 into L1, or loads them.
func (w *warming[K, V]) LookUp(ctx context.Context, keys []K, so *transfer.Warmed) error {
	c, failed := w.c, w.c.l2.Errors()
	m := many[K, V]{c: c, ctx: ctx, loadless: true, found: make(map[K]V, len(keys))}
	if c.l2.HasTier() {
		c.counts.warmed.Add(uint64(len(keys)))
		m.fly(ctx, keys)
	}
	so.Found += len(m.found)
	if !w.loads {
		// A batch finds nothing if L2 has none of its keys, and if L2 fails. The count of errors
		// tells the two apart.
		if len(m.found) == 0 && (c.l2.Errors() != failed || c.l2.LeftAlone()) {
			return errWarmRefused
		}
		return nil
	}
	keys = slices.DeleteFunc(keys, func(k K) bool { _, found := m.found[k]; return found })
	c.counts.warmed.Add(uint64(len(keys)))
	m = many[K, V]{c: c, ctx: ctx, load: w.load, found: make(map[K]V, len(keys))}
	m.fly(ctx, keys)
	so.Loaded, so.Failed = so.Loaded+len(m.found), so.Failed+len(m.failed)
	if len(keys) > 0 && len(m.failed) == len(keys) {
		return errWarmFailed
	}
	return nil
}

// kind is the kind of flights for the keys of a batch.
func (m *many[K, V]) kind() flight.Kind {
	if m.loadless {
		return flight.Read
	}
	return flight.Load
}
