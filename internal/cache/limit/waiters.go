package limit

import "sync/atomic"

// Waiters bounds the callers that wait for loads at the same time.
type Waiters struct {
	// Most is the bound; 0 or less for none.
	Most int
	now  atomic.Int64
}

// Enter counts a caller, until Leave is called. It reports false, and does not count the caller, if that is one too many.
func (w *Waiters) Enter() (room bool) {
	if w.Most <= 0 {
		return true
	}
	if room = w.now.Add(1) <= int64(w.Most); !room {
		w.now.Add(-1)
	}
	return room
}

// Leave is called once after each Enter, with its result.
func (w *Waiters) Leave(room bool) {
	if room && w.Most > 0 {
		w.now.Add(-1)
	}
}
