package origin

import (
	"sync/atomic"

	"github.com/strata-cache/strata/internal/cache/limit"
)

// rationsFrom is the number of failed loads in a row, of any keys, from which new
// attempts at failed keys are rationed. One success ends the rationing.
const rationsFrom = 10

// ration spares an origin that fails.
type ration struct {
	budget limit.Budget
	failed atomic.Int64 // failed loads since the last success
}

// Answered notes that the origin has answered for a key.
func (r *ration) Answered() {
	if r.failed.Load() != 0 {
		r.failed.Store(0)
	}
	r.budget.Success()
}

// Unanswered notes that the load of a key has failed.
func (r *ration) Unanswered() { r.failed.Add(1) }

// Rations reports whether an attempt at a failed key needs a Retry.
func (r *ration) Rations() bool { return r.failed.Load() >= rationsFrom }

// Retry reports whether a failed key can be tried again now.
func (r *ration) Retry(now int64) bool { return r.budget.Retry(now) }
