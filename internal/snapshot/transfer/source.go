package transfer

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"math"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/snapshot/drops"
	"github.com/strata-cache/strata/internal/snapshot/format"
)

var errKeysUnnamed = errors.New("strata: keys of this type need Remote.Key and Remote.ParseKey to leave the process")

// ownDropsWithin is the time for calls to end that drop entries, at the begin of a dump.
const ownDropsWithin = 2 * time.Second

// Exchange is a [transfer.Source].
type Exchange[K comparable, V any] struct{ c *Cache[K, V] }

// New returns c for package snapshot.
func New[K comparable, V any](c *Cache[K, V]) Exchange[K, V] { return Exchange[K, V]{c} }

// Name is the name of the cache.
func (s Exchange[K, V]) Name() string { return s.c.Title }

// Space is the name of the cache among the caches of all services.
func (s Exchange[K, V]) Space() string { return s.c.L2.Space() }

// Format returns the name and the fingerprint of the codec.
func (s Exchange[K, V]) Format() (name string, fingerprint uint64) {
	return s.c.Encoding.Name(), codec.Fingerprint(s.c.Encoding)
}

// HasTier reports whether there is an L2.
func (s Exchange[K, V]) HasTier() bool { return s.c.L2.HasTier() }

// Len is the number of entries with a value.
func (s Exchange[K, V]) Len() int { return s.c.Values.Len() }

// Logger is the log of the cache.
func (s Exchange[K, V]) Logger() *slog.Logger { return s.c.Logger }

// CheckKeys returns an error if keys have no names, or the names no keys.
func (s Exchange[K, V]) CheckKeys() error {
	if !s.c.Named {
		return errKeysUnnamed
	}
	return nil
}

// Usable returns the error of a closed cache.
func (s Exchange[K, V]) Usable(ctx context.Context) error { return s.c.Usable(ctx) }

// Hot iterates over the names of up to n keys, the hottest first.
func (s Exchange[K, V]) Hot(n int, left *format.Left) iter.Seq[string] {
	hot := s.c.Hottest(math.MaxInt)
	left.Beyond += uint64(max(0, len(hot)-n))
	return func(yield func(string) bool) {
		for _, e := range hot[:min(n, len(hot))] {
			if name, err := s.c.Name(e.Key); err != nil {
				left.Gone++
			} else if !yield(name) {
				return
			}
		}
	}
}

// Warm gets the keys with these names from L2 into L1.
func (s Exchange[K, V]) Warm(ctx context.Context, names iter.Seq[string], perSecond int, progress func(Warmed)) (Warmed, error) {
	keys := func(yield func(K) bool) {
		for name := range names {
			if key, err := s.c.Parse(name); err == nil && !yield(key) {
				return
			}
		}
	}
	return s.c.Warm(ctx, keys, perSecond, progress)
}

// Dump begins a dump. This instance has applied every drop up to the position of the
// dump: it has followed the bus up to there, and its own calls with drops before the
// position have ended.
func (s Exchange[K, V]) Dump(ctx context.Context, part, parts int) (Dump, error) {
	c := s.c
	if err := cmp.Or(c.Usable(context.WithoutCancel(ctx)), s.CheckKeys()); err != nil {
		return nil, err
	}
	d := &outgoing[K, V]{c: c, part: part, parts: parts, begun: c.Values.Now(), seen: c.stamp(), Teller: drops.Teller{Log: c.Drops}}
	if !c.L2.HasBus() {
		w := c.Flights.Watch(d.names.Add)
		d.unwatch = func() { c.Flights.Unwatch(w) }
	}
	if p, ok := c.Link.Known(); ok && c.L2.HasPositions() {
		d.known = AppendPosition(nil, &p)
	}
	// The messages of calls of this instance may have come before the calls have ended.
	ctx, cancel := context.WithTimeout(ctx, ownDropsWithin)
	defer cancel()
	if c.Dropping.Wait(ctx) != nil {
		d.known = nil
	}
	return d, nil
}

// Restore begins a restore. When a bus connects, the entries taken in before become suspect. So
// Restore waits for the bus of a new instance.
func (s Exchange[K, V]) Restore(ctx context.Context, taken *Taken) (Restore, error) {
	c := s.c
	if err := cmp.Or(c.Usable(context.WithoutCancel(ctx)), s.CheckKeys()); err != nil {
		return nil, err
	}
	if err := c.Link.Join(ctx); err != nil {
		return nil, err
	}
	if err := c.Usable(ctx); err != nil {
		return nil, err
	}
	r := &incoming[K, V]{c: c, taken: taken, began: time.Now(), cover: Cover{Alone: !c.L2.Used(), Connected: c.Link.Connected}}
	r.aliaser, _ = c.Encoding.(codec.Aliaser[V])
	r.Learner = drops.NewLearner(c.Drops, r.withdraw)
	r.watch = c.Flights.Watch(nil)
	r.stamps = c.stamps()
	if c.L2.HasBus() && c.L2.HasPositions() {
		r.cover.Witness = c.Ledger.Witness()
		// The drops up to now, including own drops with a message on its way.
		r.cover.Tier, _ = c.L2.Position(ctx)
	}
	return r, nil
}
