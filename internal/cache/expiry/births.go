package expiry

import (
	"math"
	"math/rand/v2"
	"time"
)

// Births tells when values were born. The birth of a value, from which its age is counted,
// costs most entries no memory: it is the end of the entry's fresh life less the length of that life,
// which is the TTL of the cache shortened by one of a few thousand steps of jitter. The entry
// has the number of the step in the bits of HashMask, unless these have a hash. Other entries
// have a record with their birth.
type Births struct {
	// TTL is the life of values in a cache, Jitter the share by which it is shortened at
	// random. A TTL without an end is math.MaxInt64.
	TTL    time.Duration
	Jitter float64
	// Hashed says that the bits of HashMask have hashes.
	Hashed bool
}

const (
	// jitterSteps is the number of lengths that Jitter makes of a TTL.
	jitterSteps = 1 << 13
	// stepShift is the place of the step in Lives.State, as HashMask has it.
	stepShift = 3
	// forever is a time or a life without an end.
	forever = math.MaxInt64
)

// Jittered shortens ttl at random by up to the share that Jitter names. The TTL stays an
// upper bound.
func (b *Births) Jittered(ttl time.Duration) time.Duration {
	if ttl == forever || b.Jitter == 0 {
		return ttl
	}
	return b.shortened(ttl, rand.Uint32N(jitterSteps))
}

// shortened returns ttl less a number of steps of Jitter.
func (b *Births) shortened(ttl time.Duration, step uint32) time.Duration {
	return ttl - time.Duration(b.Jitter*float64(ttl)*float64(step)/jitterSteps)
}

// stepOf returns the number of steps by which a life is shorter than TTL. ok is false if it is
// another life.
func (b *Births) stepOf(life time.Duration) (step uint32, ok bool) {
	if most := b.Jitter * float64(b.TTL); most > 0 && life < b.TTL {
		step = uint32(min(float64(b.TTL-life)/most*jitterSteps+0.5, jitterSteps-1))
	}
	return step, b.shortened(b.TTL, step) == life
}

// Implies reports whether the birth of an entry follows from the times of its life: it was born at
// the time born, and is fresh until the time fresh. bits are then the flags from which Implied
// finds the birth again.
func (b *Births) Implies(born, fresh int64) (bits uint64, ok bool) {
	if b.Hashed || fresh == forever && b.TTL != forever {
		return 0, false
	}
	if b.TTL == forever {
		return 0, fresh == forever // the birth of these is not known
	}
	step, ok := b.stepOf(time.Duration(fresh - born))
	return uint64(step) << stepShift, ok
}

// Implied returns the birth of an entry without a record, as it follows from the times of its life
// l and its end dead; zero if it is not known.
func (b *Births) Implied(l *Lives, dead int64) int64 {
	if b.TTL == forever {
		return 0
	}
	step := uint32(l.State & HashMask >> stepShift)
	return l.FreshUntil(dead) - int64(b.shortened(b.TTL, step))
}

// Before returns about when a value was born. Its fresh life ends after the duration left, or has
// ended already if left is negative, and is taken to have been as long as TTL. Zero means that the
// birth is not known.
func (b *Births) Before(now int64, left time.Duration) int64 {
	if b.TTL == forever {
		return 0
	}
	return now - int64(max(0, b.TTL-left))
}
