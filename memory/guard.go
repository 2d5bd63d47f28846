package memory

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/strata-cache/strata/internal/cache/guard"
	"github.com/strata-cache/strata/internal/observe"
)

// Guard evicts entries of its caches while the live heap of the process is too large for a limit of
// its memory. Give it to any number of caches, by [Options], by [ByteCache.SetGuard], or by strata.Memory. It
// keeps no cache alive. Make it with [NewGuard]; a nil Guard and the zero Guard guard nothing. All methods are safe for
// concurrent use.
//
// The limit is GOMEMLIMIT, or the smallest memory limit of the cgroups of the process and of all their
// ancestors if that is smaller; it may change while the process runs. The guard looks at the heap after
// garbage collections, and when caches are filled: every 10 ms at most. It has no timer and no
// goroutine that waits.
//
// If the live heap is above its ceiling, or the caches have grown by so much since the last collection, caches
// evict as much as would bring it to nine tenths of the ceiling, but no more than half of all that may go: in
// the methods that store, and in the background. The bytes of an entry are learned from how the live heap
// changes with the number of entries, or with their weight if that is bounded. The coldest cache pays: the
// one with the fewest hits per byte, of which those in the last minute count most. In a cache its Policy
// chooses. Pinned entries stay.
type Guard guard.Guard

// GuardOptions configure a [Guard]. The zero value is ready to use.
type GuardOptions struct {
	// Limit is the limit of the memory of the process in bytes, at least 16 MiB. 0 means GOMEMLIMIT, or the
	// limit of a cgroup if that is smaller; without either the guard evicts nothing.
	Limit int64
	// Share is the part of the limit, less the memory that is no heap, that the live heap may take:
	// the ceiling. The collector needs the rest: the closer the ceiling is to GOMEMLIMIT, the more often
	// it runs. 0 means 0.55; at most 0.95. If GOMEMLIMIT is not set, or above the limit, the ceiling is also
	// at most 0.9 / (1 + GOGC/100) of that part, which is 0.45 by default: the heap grows by GOGC percent
	// between collections.
	Share float64
	// Logger gets a warning when an episode begins, and one line of advice when the guard is made if there is no
	// limit, or if the collector does not know it. Nil means no logs.
	Logger *slog.Logger
}

const (
	defaultShare, maxShare = 0.55, 0.95
	minLimit               = 16 << 20
)

// NewGuard makes a guard, which works until its Close. It runs a garbage collection. For invalid options it returns a joined error, one
// for each invalid field.
func NewGuard(o GuardOptions) (*Guard, error) {
	var err error
	if o.Limit != 0 && o.Limit < minLimit {
		err = errors.Join(err, fmt.Errorf("memory: guard: Limit: %d bytes are less than 16 MiB", o.Limit))
	}
	if !(o.Share >= 0 && o.Share <= maxShare) { // true for NaN
		err = errors.Join(err, fmt.Errorf("memory: guard: Share: %v is not between 0 and %v", o.Share, maxShare))
	}
	if err != nil {
		return nil, err
	}
	if o.Share == 0 {
		o.Share = defaultShare
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	log := slog.New(observe.NewRunner().Handler(o.Logger.Handler())) // a sink that blocks holds up neither stores nor Close
	return (*Guard)(guard.New(guard.Options{Limit: o.Limit, Share: o.Share, Logger: log})), nil
}

// Floor returns the same guard for a cache that keeps at least n entries; of a cache with a bound of
// weights n is a weight, of a [ByteCache] a number of bytes. Zero or less means no floor, as without
// Floor.
func (g *Guard) Floor(n int64) *Guard { return (*Guard)((*guard.Guard)(g).WithFloor(n)) }

// Close ends the guard, and waits until it evicts nothing any more. The caches stay as they are. A second Close does
// no harm. OnEvict and strata.Hooks.Evict must not call Close.
func (g *Guard) Close() { (*guard.Guard)(g).Close() }

// GuardStats are the numbers of a [Guard] since it was made.
type GuardStats struct {
	// Limit is the limit of the memory of the process in bytes; 0 for none. Source is its name: "Limit",
	// "GOMEMLIMIT" or "cgroup".
	Limit  int64
	Source string
	// Ceiling is the live heap from which the guard evicts, Heap the live heap at the last look, both in bytes.
	Ceiling, Heap int64
	// Episodes counts the times at which the heap has become too large after at least a minute below the
	// ceiling. Evicted counts the entries that the guard has evicted, EvictedBytes their bytes, by an
	// estimate.
	Episodes, Evicted, EvictedBytes uint64
	// Active says that an episode is on. Exhausted says that the heap was too large at the last look, and
	// all caches empty or at their floors: the rest of the program needs more than there is.
	Active, Exhausted bool
}

// Stats returns the numbers; zeros for a nil or zero Guard. After Close they are as they were, with no episode on.
func (g *Guard) Stats() GuardStats { return GuardStats((*guard.Guard)(g).Stats()) }
