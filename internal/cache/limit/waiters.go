package limit

import "sync/atomic"

// Waiters bounds the callers that wait for loads at the same time.
type Waiters struct {
	// Most is the bound; 0 or less for none.
	Most int
	now  atomic.Int64
}

// Enter counts a caller, until Leave is called. It reports false if the caller is one too many.
func (w *Waiters) Enter() (room bool) { return w.Most <= 0 || w.now.Add(1) <= int64(w.Most) }

// Leave is called once after each Enter.
func (w *Waiters) Leave() {
	if w.Most > 0 {
		w.now.Add(-1)
	}
}
