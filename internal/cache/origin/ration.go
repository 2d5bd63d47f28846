package origin

import (
	"sync/atomic"

	"github.com/strata-cache/strata/internal/cache/limit"
)

// rationsFrom is the number of keys whose loads have to fail in a row for new attempts at
// failed keys to be rationed. One success ends that.
const rationsFrom = 10

// ration spares an origin that fails.
type ration struct {
	budget limit.Budget
	failed atomic.Int64 // keys whose loads have failed since one has not
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

// Rations reports whether an attempt at a key that has failed needs a Retry.
func (r *ration) Rations() bool { return r.failed.Load() >= rationsFrom }

// Retry reports whether a key that has failed can be tried again now.
func (r *ration) Retry(now int64) bool { return r.budget.Retry(now) }
