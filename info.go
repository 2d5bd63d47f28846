package strata

import (
	"time"

	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/l1"
)

// Info is about one read; see [ReadInfo]. The zero Info means that there was no
// value.
type Info struct {
	// Tier is the source of the value: "L1", "L2", or "origin".
	Tier string
	// Age is the time since the value was loaded or set, or since a load found it not
	// modified. Zero if that is not known: of a value without an end in a cache
	// without L2. Of a value that this instance has from L2 it is counted back from the
	// end of Options.TTL, so that it is too long by the part by which Jitter has
	// shortened the TTL, and off by as much as the value had another TTL.
	Age time.Duration
	// TTL is for how long the value is still fresh on this instance. Zero if it is
	// stale, or is not kept; NoExpiry if it has no end.
	TTL time.Duration
	// Stale says that the value is past its TTL or was expired: it was served while
	// it is refreshed, or because a load has failed or takes long, or because the
	// caller allows that.
	Stale bool
	// Err is the reason why a stale value was served instead of the result of a load:
	// the load's error, that of Limits.SoftTimeout, or ErrOverloaded. Nil if the value
	// is fresh, or served while it is refreshed.
	Err error
	// Shared says that the caller joined the flight of another caller.
	Shared bool
	// Degraded says that the value comes from L1 while the bus is silent, or
	// that L2 could not confirm it: another instance may have invalidated it.
	Degraded bool
}

// ReadInfo makes Get and GetOrLoad write information about the value to to, before
// they return. Without a value, or with an error, nothing is written.
func ReadInfo(to *Info) CallOption {
	return func(c *call) { c.info = to }
}

// inform writes i to the place that ReadInfo named.
func (o *call) inform(i Info) {
	if o.info != nil {
		*o.info = i
	}
}

// informOf writes the information about a flight's result to the place that ReadInfo
// named.
func (c *Cache[K, V]) informOf(o *call, r *flight.Result[V], shared bool) {
	if o.info != nil {
		*o.info = c.infoOf(r.Note, r.Times)
		o.info.Shared, o.info.Err = shared, r.Instead
	}
}

// informOfEntry is informOf for a value of L1. A stale one is served instead of err, if
// that is not nil.
func (c *Cache[K, V]) informOfEntry(o *call, e *entry[K, V], err error) {
	if o.info == nil {
		return
	}
	t := c.timesOf(e)
	*o.info = c.infoOf(noteL1, t)
	o.info.Stale, o.info.Err, o.info.Degraded = c.now() >= t.Fresh, err, c.degraded()
}

// infoOf returns the information in the note and the times of a value.
func (c *core) infoOf(note uint8, t flight.Times) (i Info) {
	now := c.now()
	i.Tier = [...]string{"", "L1", "L2", "origin"}[note&noteTier]
	i.Stale, i.Degraded = note&noteStale != 0, note&noteDegraded != 0
	if t.Born != 0 {
		i.Age = time.Duration(max(0, now-t.Born))
	}
	if i.TTL = NoExpiry; t.Fresh != l1.Forever {
		i.TTL = time.Duration(max(0, t.Fresh-now))
	}
	return i
}
