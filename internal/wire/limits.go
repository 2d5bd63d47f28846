package wire

import (
	"cmp"
	"runtime"
	"time"
)

// Limits are the times and numbers of the connections to one server.
type Limits struct {
	// DialTimeout bounds the opening of one connection, Timeout a call without a
	// deadline.
	DialTimeout, Timeout time.Duration
	// MaxConns is the most connections open at once, MaxIdle the most kept
	// unused.
	MaxConns, MaxIdle int
	// IdleTimeout is the time for which a connection is kept unused,
	// MaxLifetime the time for which it is kept at all; a zero MaxLifetime
	// means no limit.
	IdleTimeout, MaxLifetime time.Duration
}

// forever is the longest duration in use, a century: adding it to a time does not
// overflow.
const forever = 100 * 365 * 24 * time.Hour

// Time returns d, or the default if d is zero, and at most a century.
func Time(d, otherwise time.Duration) time.Duration { return min(cmp.Or(d, otherwise), forever) }

// WithDefaults returns l with a default in each zero field but MaxLifetime.
func (l Limits) WithDefaults() Limits {
	l.DialTimeout = Time(l.DialTimeout, 5*time.Second)
	l.Timeout = Time(l.Timeout, time.Second)
	l.IdleTimeout = Time(l.IdleTimeout, 5*time.Minute)
	l.MaxLifetime = Time(l.MaxLifetime, 0)
	l.MaxConns = cmp.Or(l.MaxConns, max(16, 8*runtime.GOMAXPROCS(0)))
	l.MaxIdle = cmp.Or(l.MaxIdle, l.MaxConns)
	return l
}

// Check tells bad of each field, and whether it is wrong.
func (l Limits) Check(bad func(wrong bool, field, text string)) {
	bad(l.DialTimeout < 0, "DialTimeout", "negative")
	bad(l.Timeout < 0, "Timeout", "negative")
	bad(l.MaxConns < 0, "MaxConns", "negative")
	bad(l.MaxIdle < 0, "MaxIdle", "negative")
	bad(l.MaxConns >= 0 && l.MaxIdle > l.MaxConns, "MaxIdle", "larger than MaxConns")
	bad(l.IdleTimeout < 0, "IdleTimeout", "negative")
	bad(l.MaxLifetime < 0, "MaxLifetime", "negative")
}
