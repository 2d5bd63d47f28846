package strata

import (
	"math/rand/v2"
	"time"

	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/internal/lives"
)

// The birth of a value, from which its age is counted, costs most entries no memory:
// it is the end of the entry's fresh life less the length of that life, which is
// Options.TTL shortened by one of a few thousand steps of Jitter. The entry has the
// number of the step in the bits that are free unless Memory.DetectMutation is set.
// Other entries have a record with their birth.

const (
	// jitterSteps is the number of lengths that Jitter makes of a TTL.
	jitterSteps = 1 << 13
	// stepShift is the place of the step in Lives.State: that of lives.HashMask.
	stepShift = 3
)

// jittered shortens ttl at random by up to the share that Options.Jitter
// names. The TTL stays an upper bound.
func (c *core) jittered(ttl time.Duration) time.Duration {
	if ttl == NoExpiry || c.settings.Jitter == 0 {
		return ttl
	}
	return c.shortened(ttl, rand.Uint32N(jitterSteps))
}

// shortened returns ttl less a number of steps of Jitter.
func (c *core) shortened(ttl time.Duration, step uint32) time.Duration {
	return ttl - time.Duration(c.settings.Jitter*float64(ttl)*float64(step)/jitterSteps)
}

// stepOf returns the number of steps by which a life is shorter than Options.TTL. ok
// is false if it is another life.
func (c *core) stepOf(life time.Duration) (step uint32, ok bool) {
	s := c.settings
	if most := s.Jitter * float64(s.TTL); most > 0 && life < s.TTL {
		step = uint32(min(float64(s.TTL-life)/most*jitterSteps+0.5, jitterSteps-1))
	}
	return step, c.shortened(s.TTL, step) == life
}

// implies reports whether the times of an entry, which is fresh until then and was
// born at some time, imply its birth, and returns the bits for that.
func (c *core) implies(born, fresh int64) (bits uint64, ok bool) {
	if c.settings.Memory.DetectMutation || fresh == l1.Forever && c.settings.TTL != NoExpiry {
		return 0, false
	}
	if c.settings.TTL == NoExpiry {
		return 0, fresh == l1.Forever // the birth of these is not known
	}
	step, ok := c.stepOf(time.Duration(fresh - born))
	return uint64(step) << stepShift, ok
}

// born returns the time at which the value of e was loaded or set; zero if that is not
// known.
func (c *Cache[K, V]) born(e *entry[K, V]) int64 {
	about := &e.Value.Lives
	switch {
	case about.State&lives.Recorded != 0:
		return recordOf(e).born
	case c.settings.TTL == NoExpiry:
		return 0
	}
	step := uint32(about.State & lives.HashMask >> stepShift)
	return about.FreshUntil(e.Dead) - int64(c.shortened(c.settings.TTL, step))
}

// timesOf returns the times of e.
func (c *Cache[K, V]) timesOf(e *entry[K, V]) flight.Times {
	return flight.Times{Fresh: e.Value.FreshUntil(e.Dead), Born: c.born(e)}
}

// bornBefore returns about when a value was born that is fresh for left from now on,
// or has been stale for some time if left is negative: as if it had lived as long as
// Options.TTL. Zero stands for a time that is not known.
func (c *core) bornBefore(now int64, left time.Duration) int64 {
	if c.settings.TTL == NoExpiry {
		return 0
	}
	return now - int64(max(0, c.settings.TTL-left))
}
