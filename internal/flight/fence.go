package flight

import "time"

// Write is a store by a caller, as opposed to one by a load. It has a right to
// store of its own, which any fence of its key from elsewhere takes.
type Write[K comparable] struct {
	key    K
	fenced bool // guarded by the mutex of the key's shard
}

// Fence takes the right to store from the running flights and writes of key,
// makes the flights unjoinable, and calls drop under the same lock: it must
// not wait or call back. Callers of the fenced flights still get their
// results: they asked before.
func (g *Group[K, V]) Fence(key K, drop func()) {
	s := g.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fence(key)
	drop()
}

// fence takes the right of everything that runs for key. s.mu is held.
func (s *shard[K, V]) fence(key K) {
	s.fenceFlights(key)
	s.fenceWrites(key, nil)
}

// fenceWrites takes the right of all writes of key but one. s.mu is held.
func (s *shard[K, V]) fenceWrites(key K, but *Write[K]) {
	for _, w := range s.writes[key] {
		w.fenced = w.fenced || w != but
	}
}

func (s *shard[K, V]) fenceFlights(key K) {
	for _, m := range s.joinable {
		if f := m[key]; f != nil {
			s.detach(f)
		}
	}
}

// hold keeps flights of a key from storing until a time has come.
type hold struct {
	until time.Time
	timer *time.Timer
}

// Hold keeps flights of key from storing for d, or for longer if the key is on
// a longer hold already. Writes may store.
func (g *Group[K, V]) Hold(key K, d time.Duration) {
	s := g.shard(key)
	until := time.Now().Add(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	old, held := s.holds[key]
	if s.closed || !findable(key) || held && !until.After(old.until) {
		return
	}
	if held {
		old.timer.Stop()
	}
	s.holds[key] = hold{until, time.AfterFunc(d, func() { s.release(key, until) })}
}

// OnHold reports whether flights of key must not store now.
func (g *Group[K, V]) OnHold(key K) bool {
	s := g.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.onHold(key)
}

// onHold reports whether flights of key must not store now. s.mu is held.
func (s *shard[K, V]) onHold(key K) bool {
	h, held := s.holds[key]
	return held && time.Now().Before(h.until)
}

// release ends the hold that ends at until.
func (s *shard[K, V]) release(key K, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds[key].until.Equal(until) {
		delete(s.holds, key)
	}
}

// FenceAll does for all keys what Fence does for one, without dropping: the
// caller raises the word that stamps are compared with first.
func (g *Group[K, V]) FenceAll() {
	for i := range g.shards {
		g.shards[i].fenceAll()
	}
}

func (s *shard[K, V]) fenceAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.running {
		s.detach(f)
	}
	for _, ws := range s.writes {
		for _, w := range ws {
			w.fenced = true
		}
	}
}

// Begin registers a write of key: what runs for the key now loses its right
// to store. Each Begin needs one End. It returns ErrClosed after Close.
func (g *Group[K, V]) Begin(key K) (*Write[K], error) {
	s := g.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	s.fence(key)
	w := &Write[K]{key: key}
	if findable(key) {
		s.writes[key] = append(s.writes[key], w)
	}
	return w, nil
}

// End ends a write: the flights that began during it lose their right to
// store, and so do the writes that are under way: which of them was the last
// elsewhere is not known. Then insert is called if the write still has its own right and insert
// is not nil, else drop: what is stored may be older than what the write has
// brought elsewhere. Both are called under the lock that Fence takes.
func (g *Group[K, V]) End(w *Write[K], insert, drop func()) (stored bool) {
	s := g.shard(w.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fenceFlights(w.key)
	s.fenceWrites(w.key, w)
	if stored = insert != nil && !w.fenced; stored {
		insert()
	} else {
		drop()
	}
	s.forget(w)
	return stored
}

// Store is a write that brings nothing elsewhere, so that it begins and ends at
// once: no other can come in between and cost either its entry. It returns
// ErrClosed after Close.
func (g *Group[K, V]) Store(key K, insert func()) error {
	s := g.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.fence(key)
	insert()
	return nil
}

func (s *shard[K, V]) forget(w *Write[K]) {
	ws := s.writes[w.key]
	for i, x := range ws {
		if x == w {
			ws[i] = ws[len(ws)-1]
			ws[len(ws)-1] = nil
			ws = ws[:len(ws)-1]
			break
		}
	}
	if len(ws) == 0 {
		delete(s.writes, w.key)
		return
	}
	s.writes[w.key] = ws
}

// Writing reports whether a write of key is under way.
func (g *Group[K, V]) Writing(key K) bool {
	s := g.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.writes[key]) > 0
}
