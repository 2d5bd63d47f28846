package transfer

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/l1/local"
	"github.com/strata-cache/strata/internal/cache/ledger"
	"github.com/strata-cache/strata/internal/snapshot/drops"
	"github.com/strata-cache/strata/remote"
)

// Config are the parts of a cache that a [Cache] needs.
type Config[K comparable, V any] struct {
	Flights  *flight.Group[K, V]
	Drops    *drops.Log // nil for a cache with a bus, or without names of keys
	Encoding codec.Codec[V]
	// Name returns the name of a key, Parse is its inverse. Named says that there are both. TooLong reports whether a name has too many
	// bytes.
	Name    func(K) (string, error)
	Parse   func(string) (K, error)
	Named   bool
	TooLong func(bytes int) bool
	// Weigh returns the weight of an entry, and false if L1 must not keep it. Weighs says that weights differ.
	Weigh  func(K, V) (weight int64, ok bool)
	Weighs bool
	// Mark makes an entry ready for L1, and reports whether L1 can keep it. Stored is told that L1 has a
	// value.
	Mark   func(e *local.Entry[K, V], form []byte) bool
	Stored func(K, V)
	// Closed reports that L1 keeps nothing, or no more.
	Closed func() bool
	// Kept returns for how long a value with these lives is kept, if it is fresh for
	// left.
	Kept func(left time.Duration, own *expiry.Own) time.Duration
	// L2 is the tier that instances share, Link follows its bus, and is nil without one. Dropping are
	// the calls that drop entries in L2 and then here.
	L2       L2
	Link     *ledger.Link
	Dropping *flight.Period
	// Usable returns the error of a closed cache, Warm is Cache.Warm for keys.
	Usable func(context.Context) error
	Warm   func(ctx context.Context, keys iter.Seq[K], perSecond int, progress func(Warmed)) (Warmed, error)
	// Title is the name of the cache, Logger its log.
	Title  string
	Logger *slog.Logger
	// Contain recovers from a panic of a function of the program. It is deferred.
	Contain func(function string)
	// Panicked is the error of a panicked codec, NotFound the error of a negative entry.
	Panicked, NotFound error
}

// L2 is the tier of a cache: an l2.Store.
type L2 interface {
	// Used reports whether there is a tier or a bus, HasTier and HasBus one of them, and
	// HasPositions a tier with positions of its drops.
	Used() bool
	HasTier() bool
	HasBus() bool
	HasPositions() bool
	// Position returns the present position.
	Position(context.Context) (remote.Position, error)
	// Space is the name of the cache among the caches of all services, Lane the lane of a
	// name.
	Space() string
	Lane(name string) uint16
	// Dropped reports whether a drop of the name, or of one of the tags, is not confirmed, or only lately; of
	// everything, since a time.
	Dropped(name string, tags []string, since time.Time) bool
}

// Cache is a cache with entries that come or go.
type Cache[K comparable, V any] struct {
	*local.Store[K, V]
	Config[K, V]
}

// stamps returns the stamps of an entry made now, without tags.
func (c *Cache[K, V]) stamps() local.Stamps {
	return local.Stamps{Generation: c.Ledger.Watermark(), TagGeneration: c.Ledger.TagWatermark()}
}
