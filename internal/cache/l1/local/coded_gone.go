// Removals of entries from an encoded L1, and the functions that hear of them.

package local

import (
	"github.com/strata-cache/strata/internal/cache/guard"
	"github.com/strata-cache/strata/internal/cache/l1"
)

// tell tells of one entry that remove has removed.
func (s *Coded[K, V]) tell(e *Entry[K, V], why l1.Reason) {
	if s.reports {
		s.Notify([]Removal[K, V]{{Entry: e, Reason: why}})
	}
}

// departed returns an entry that has left, with its form.
func (s *Coded[K, V]) departed(key K, form []byte) *Entry[K, V] {
	e, _ := s.open(key, form)
	l1.Behind[coded](e).form = form
	return e
}

// left notes an entry that the store has let go. It is called under a lock of the store.
func (s *Coded[K, V]) left(key, form []byte, ended bool) {
	why := l1.Evicted
	if ended {
		why = l1.Expired
	}
	s.note(key, form, why)
}

// note notes an entry that has left, for drain.
func (s *Coded[K, V]) note(key, form []byte, why l1.Reason) {
	e := s.departed(s.keyOf(key), append([]byte(nil), form...))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = append(s.gone, Removal[K, V]{Entry: e, Reason: why})
	s.untold.Store(true)
}

// damaged removes an entry with a value that cannot be decoded, and notes it for drain: the caller may hold a lock.
func (s *Coded[K, V]) damaged(e *Entry[K, V]) {
	if !s.remove(e) || !s.reports {
		return
	}
	l1.Behind[coded](e).form = nil // no second attempt
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = append(s.gone, Removal[K, V]{Entry: e, Reason: l1.Deleted})
	s.untold.Store(true)
}

// drain returns the entries that the store has let go since the last call.
func (s *Coded[K, V]) drain() (gone []Removal[K, V]) {
	if !s.reports {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	gone, s.gone = s.gone, nil
	s.untold.Store(false)
	return gone
}

// Notify decodes the removed entries and tells of them; a value that cannot be decoded is zero.
func (s *Coded[K, V]) Notify(gone []Removal[K, V]) {
	for _, r := range gone {
		if form := l1.Behind[coded](r.Entry).form; form != nil && r.Reason != l1.Replaced {
			_, payload := cutHead(form)
			r.Entry.Value.V, _ = s.Decode(payload)
		}
	}
	s.engine.Notify(gone)
}

// Clear removes all entries, and tells of them.
func (s *Coded[K, V]) Clear() {
	s.empty()
	s.Notify(s.drain())
}

// empty is Clear without the news.
func (s *Coded[K, V]) empty() {
	if !s.reports {
		s.store.Clear(nil)
		return
	}
	now := s.Now()
	s.store.Clear(func(key, form []byte) {
		why := l1.Cleared
		if dead := deadIn(form); dead != l1.Forever && now >= dead {
			why = l1.Expired
		}
		s.note(key, form, why)
	})
}

// Close is Clear, and nothing is stored from then on.
func (s *Coded[K, V]) Close() {
	s.closed.Store(true)
	s.Clear()
	s.engine.Close()
}

// Guard gives s to g, which may be nil.
func (s *Coded[K, V]) Guard(g *guard.Guard) (leave func()) { return guard.Watch(g, s, true) }

// Usage and the next methods are for the guard.
func (s *Coded[K, V]) Usage() (bytes int64, hits uint64) { return s.store.Usage() }

// Shed is about the debts of Owe.
func (s *Coded[K, V]) Shed() (entries, bytes int64) { return s.store.Shed() }

// Owe makes the next Sets free so many bytes.
func (s *Coded[K, V]) Owe(bytes int64) { s.store.Owe(bytes) }

// Guarded makes some Sets call poke.
func (s *Coded[K, V]) Guarded(poke func()) { s.store.Guarded(poke) }

// Settle frees what is owed, and tells of what has left, so that no list of it takes the memory again.
func (s *Coded[K, V]) Settle() {
	s.store.Settle()
	s.Notify(s.drain())
}
