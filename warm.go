package strata

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/keyname"
	"github.com/strata-cache/strata/internal/transfer"
)

var (
	errWarmAlone   = errors.New("strata: warm: the cache has no Tier to read from; WarmOptions.Load loads keys")
	errWarmOff     = errors.New("strata: warm: Memory.Off leaves no place for entries")
	errWarmRefused = errors.New("strata: warm: L2 does not answer")
	errWarmFailed  = errors.New("strata: warm: no load succeeds")
)

// WarmOptions configure [Cache.Warm]. The zero WarmOptions set no limit.
type WarmOptions struct {
	// PerSecond is the number of keys that are read from L2, or loaded, in a second at most.
	// 0 means as many as L2 and the origin answer. A negative number is an error.
	PerSecond int
	// Load has keys that L2 does not have loaded, by Options.ManyLoader, one batch at a time,
	// or else by Options.Loader, one key after the other. Such loads are like those of
	// GetMany: with leases, limits and remembered failures.
	Load bool
	// Progress, if set, is called after each batch of up to 500 keys.
	Progress func(Warmed)
}

// Warmed is the result of [Cache.Warm], or how far it is.
type Warmed struct {
	// Keys is the number of keys so far. Present is the number of those that L1 had
	// already, Found of those that L2 had, Loaded and Failed of those with a load that has
	// succeeded or failed, and Absent of the others.
	Keys, Present, Found, Loaded, Failed, Absent int
}

// Warm reads keys from L2 into L1, so that the first callers of a new instance find them
// there. Keys should come in the order of their use, the hottest first, as package snapshot
// saves them: Warm ends when L1 is full, since each entry more would push one out. It reads
// in batches of up to 500 keys in one round trip each, one batch at a time.
//
// With a Bus that is not connected yet, Warm waits for it, up to three seconds, so that the
// entries are not in doubt later.
//
// Warm stores nothing that a read would not store, so it brings back no value that was
// dropped. Without WarmOptions.Load, keys that L2 does not have are left to their readers. It is
// no read: Stats counts it as Warmed, and no hook for hits and misses is called.
//
// It returns ctx's error if ctx ends first, so ctx carries the limit of its time, and an
// error if in three batches in a row L2 does not answer, or all loads fail, if the cache has
// Memory.Off, no Tier or no loader, or is closed. The keys so far are warm all the same.
func (c *Cache[K, V]) Warm(ctx context.Context, keys iter.Seq[K], o WarmOptions) (Warmed, error) {
	switch err := c.warmable(ctx); {
	case err != nil:
		return Warmed{}, err
	case o.PerSecond < 0:
		return Warmed{}, errors.New("strata: warm: PerSecond is negative")
	case c.passesMemory(&call{}):
		return Warmed{}, errWarmOff
	case !o.Load && !c.l2.HasTier():
		return Warmed{}, errWarmAlone
	}
	w := warming[K, V]{c: c, o: o, start: time.Now()}
	if w.load = c.manyLoader(nil); o.Load && w.load == nil {
		return Warmed{}, ErrNoLoader
	}
	if err := c.joinBus(ctx); err != nil || w.room() == 0 {
		return w.so, err
	}
	batch := make([]K, 0, maxBatch)
	for k := range keys {
		if batch = append(batch, k); len(batch) < w.room() {
			continue
		}
		if err := w.batch(ctx, batch); err != nil {
			return w.so, err
		}
		if batch = batch[:0]; w.room() == 0 {
			return w.so, nil
		}
	}
	if len(batch) == 0 {
		return w.so, nil
	}
	return w.so, w.batch(ctx, batch)
}

// joinWithin is how long Warm and a restore wait for the bus of a new instance. Entries
// from before it is connected are in doubt once it is.
const (
	joinWithin = 3 * time.Second
	joinPoll   = 10 * time.Millisecond
)

// joinBus waits until the bus is connected, or its time is over, or ctx ends, whose error
// it returns.
func (c *core) joinBus(ctx context.Context) error {
	for deadline := time.Now().Add(joinWithin); c.l2.HasBus() && !c.link.Connected() && time.Now().Before(deadline); {
		if err := wait(ctx, joinPoll); err != nil {
			return err
		}
	}
	return c.warmable(ctx)
}

// warmable returns the error for which no key can be warmed.
func (c *core) warmable(ctx context.Context) error {
	if c.closed.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

// warming is one Warm on its way.
type warming[K comparable, V any] struct {
	c     *Cache[K, V]
	o     WarmOptions
	load  ManyLoader[K, V]
	start time.Time
	so    Warmed
	asked int // keys that L2 was asked for, or that were loaded
	// refused is the number of batches in a row that L2 did not answer, or that failed.
	refused int
}

// mostRefused is the number of batches in a row that end a Warm if L2 does not answer.
const mostRefused = 3

// room is the number of keys of the next batch.
func (w *warming[K, V]) room() int {
	n := maxBatch
	if w.o.PerSecond > 0 {
		n = min(n, max(1, w.o.PerSecond/10))
	}
	return min(n, w.c.roomLeft())
}

// roomLeft is about the number of entries for which L1 has room without an eviction.
func (c *Cache[K, V]) roomLeft() int {
	m, n, left := &c.o.Memory, int64(c.memory.Len()), int64(maxBatch)
	if m.MaxEntries > 0 {
		left = min(left, m.MaxEntries-n)
	}
	if m.MaxWeight > 0 {
		each := max(1, c.memory.Weight()/max(1, n))
		left = min(left, (m.MaxWeight-c.memory.Weight())/each)
	}
	return int(max(0, left))
}

// batch looks up keys, in its turn.
func (w *warming[K, V]) batch(ctx context.Context, keys []K) error {
	if err := w.pace(ctx); err != nil {
		return err
	}
	c := w.c
	var missing []K
	for _, k := range keyname.Distinct(keys) {
		if e, _ := c.memory.Peek(k); e != nil && c.isFresh(e) {
			w.so.Present++
		} else if c.checkKey(k) == nil {
			missing = append(missing, k)
		}
	}
	w.so.Keys += len(keys)
	var err error
	if len(missing) > 0 {
		err = w.lookUp(ctx, missing)
	}
	w.so.Absent = w.so.Keys - w.so.Present - w.so.Found - w.so.Loaded - w.so.Failed
	if w.o.Progress != nil {
		w.o.Progress(w.so)
	}
	return err
}

// lookUp gets keys from L2 into L1, or loads them.
func (w *warming[K, V]) lookUp(ctx context.Context, keys []K) error {
	c, failed, reason := w.c, w.c.l2.Errors(), errWarmRefused
	m := many[K, V]{c: c, ctx: ctx, loadless: true, found: make(map[K]V, len(keys))}
	w.asked += len(keys)
	if c.l2.HasTier() {
		c.counts.warmed.Add(uint64(len(keys)))
		m.flyOnce(ctx, nil, keys)
	}
	w.so.Found += len(m.found)
	well := len(m.found) > 0 || c.l2.Errors() == failed && !c.l2.LeftAlone()
	if w.o.Load {
		keys = slices.DeleteFunc(keys, func(k K) bool { _, found := m.found[k]; return found })
		c.counts.warmed.Add(uint64(len(keys)))
		m = many[K, V]{c: c, ctx: ctx, load: w.load, found: make(map[K]V, len(keys))}
		m.fly(ctx, keys)
		w.so.Loaded, w.so.Failed = w.so.Loaded+len(m.found), w.so.Failed+len(m.failed)
		well, reason = len(m.failed) < len(keys) || len(keys) == 0, errWarmFailed
	}
	if err := c.warmable(ctx); err != nil || well {
		w.refused = 0
		return err
	}
	if w.refused++; w.refused == mostRefused {
		return reason
	}
	return wait(ctx, 100*time.Millisecond) // a busy server
}

// kind is the kind of flights for the keys of a batch.
func (m *many[K, V]) kind() flight.Kind {
	if m.loadless {
		return flight.Read
	}
	return flight.Load
}

// pace waits until WarmOptions.PerSecond allows the next batch.
func (w *warming[K, V]) pace(ctx context.Context) error {
	if err := w.c.warmable(ctx); err != nil || w.o.PerSecond == 0 {
		return err
	}
	due := time.Duration(float64(w.asked) / float64(w.o.PerSecond) * float64(time.Second))
	return wait(ctx, time.Until(w.start.Add(due)))
}

// wait waits for d, or until ctx ends, whose error it returns.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Warm is [Cache.Warm] for package snapshot.
func (s source[K, V]) Warm(ctx context.Context, names iter.Seq[string], perSecond int, progress func(transfer.Warmed)) (transfer.Warmed, error) {
	keys := func(yield func(K) bool) {
		for name := range names {
			if key, err := s.c.parseKey(name); err == nil && !yield(key) {
				return
			}
		}
	}
	o := WarmOptions{PerSecond: perSecond}
	if progress != nil {
		o.Progress = func(w Warmed) { progress(transfer.Warmed(w)) }
	}
	w, err := s.c.Warm(ctx, keys, o)
	return transfer.Warmed(w), err
}
