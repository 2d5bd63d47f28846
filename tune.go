package strata

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	check "github.com/strata-cache/strata/internal/cache"
	"github.com/strata-cache/strata/internal/cache/guard"
	"github.com/strata-cache/strata/internal/cache/l1/local"
	"github.com/strata-cache/strata/memory"
)

// Tuning are changes of Options of a cache in use, for [Cache.Tune]. A nil field
// changes nothing. new(5*time.Minute) is a pointer to a value.
type Tuning struct {
	// MaxEntries and MaxWeight replace the bounds of L1: at least 1; MaxWeight needs
	// Memory.Weigh. With Memory.Encoded there is MaxWeight alone, at least memory.MinBytes. A smaller bound evicts some 16,000 entries at once, and the rest in
	// the background.
	MaxEntries, MaxWeight *int64
	// TTL replaces Options.TTL for values stored from now on: at least 1 ms, or
	// NoExpiry.
	TTL *time.Duration
	// StaleWhileRevalidate and StaleOnError replace the windows of Options.Stale, for all values at once; 0 or less for
	// none. A value is kept for no longer than the windows said when it was stored. For a value of L2 that a caller
	// has expired before, a shorter window begins when it is served for the first time.
	StaleWhileRevalidate, StaleOnError *time.Duration
	// Guard replaces Memory.Guard, or its floor (guard.Floor). new(memory.Guard) stands for no guard.
	Guard *memory.Guard
	// Off turns this instance of the cache off, or on again: while it is off, no read looks
	// into L1 or L2, and no load is stored. Callers still share loads and failures, and
	// invalidations and writes reach L2 and the other instances. L1 is empty when it is turned
	// on again.
	Off *bool
}

// Tune changes Options of this instance while the cache is in use. It changes all that t names, or,
// if a value is invalid or the cache is closed, nothing; then it counts in Stats.TuneRefused
// and returns an error that names every wrong field. The log gets a line for each
// change. Other instances are not told.
func (c *Cache[K, V]) Tune(t Tuning) error {
	c.tuned.mu.Lock()
	defer c.tuned.mu.Unlock()
	if err := c.checkTuning(&t, c.near.LeastWeight()); err != nil {
		c.tuned.refused.Add(1)
		return err
	}
	if said := t.changes(); said != "" {
		c.settings.Logger.Info("strata: options are changed: "+said, slog.String("cache", c.o.Name))
	}
	if t.MaxEntries != nil || t.MaxWeight != nil {
		entries, weight := c.near.Values.Bounds()
		entries, weight = check.OrElse(t.MaxEntries, entries), check.OrElse(t.MaxWeight, weight)
		c.near.Values.Notify(c.near.Values.Resize(entries, weight))
		c.near.Negatives.Resize(local.NegativeBound(entries, weight), 0)
	}
	if t.Guard != nil {
		c.near.Guard((*guard.Guard)(t.Guard))
	}
	next := *c.tuned.lives.Load()
	next.ttl = check.OrElse(t.TTL, next.ttl)
	next.stale.WhileRevalidate = max(0, check.OrElse(t.StaleWhileRevalidate, next.stale.WhileRevalidate))
	next.stale.OnError = max(0, check.OrElse(t.StaleOnError, next.stale.OnError))
	c.tuned.lives.Store(&next)
	if off := check.OrElse(t.Off, c.tuned.off.Load()); off != c.tuned.off.Swap(off) && off {
		// Stores from now on have looked at off; all others are older than this.
		c.invalidateAllLocal()
		c.near.Values.Clear()
	}
	return nil
}

// tuned are the Options that Tune changes, as they are now.
type tuned struct {
	lives   atomic.Pointer[tunedLives]
	off     atomic.Bool
	refused atomic.Uint64
	mu      sync.Mutex // one Tune at a time
}

type tunedLives struct {
	ttl   time.Duration
	stale Stale
}

// ttl is Options.TTL as it is now.
func (t *tuned) ttl() time.Duration { return t.lives.Load().ttl }

// stale is Options.Stale as it is now.
func (t *tuned) stale() Stale { return t.lives.Load().stale }

// apply adds the state of the switch to the options of a call that reads.
func (t *tuned) apply(o *call) {
	if t.off.Load() {
		o.noMemory, o.noRemote = true, true
	}
}

// checkTuning returns an error for every wrong field of t.
func (c *core) checkTuning(t *Tuning, leastWeight int64) error {
	if c.closed.Load() {
		return ErrClosed
	}
	m := &c.settings.Memory
	return errors.Join(check.ProblemsOfTuning(t.MaxEntries, t.MaxWeight, t.TTL, m.Weigh != nil, m.Encoded, leastWeight)...)
}

// changes names the changes, as "TTL=1m0s Off=true"; empty for none.
func (t *Tuning) changes() string {
	all := slices.Concat(
		check.Change("MaxEntries", t.MaxEntries), check.Change("MaxWeight", t.MaxWeight), check.Change("TTL", t.TTL),
		check.Change("Stale.WhileRevalidate", t.StaleWhileRevalidate), check.Change("Stale.OnError", t.StaleOnError), check.Change("Off", t.Off))
	if t.Guard != nil {
		all = append(all, fmt.Sprintf("Guard=%dMiB", t.Guard.Stats().Limit>>20))
	}
	return strings.Join(all, " ")
}
