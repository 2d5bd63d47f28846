package transfer

import (
	"time"

	"github.com/strata-cache/strata/internal/snapshot/format"
)

// Rest returns the rest of a life after some time.
func Rest(life, ago time.Duration) time.Duration {
	if life == format.Forever {
		return life
	}
	return life - ago
}

// Life is the whole life of the value of e, if fresh of it is left after ago.
func Life(e *format.Entry, fresh, ago time.Duration) time.Duration {
	if e.Age < 0 || fresh == format.Forever || fresh <= 0 {
		return fresh
	}
	return fresh + e.Age + ago
}
