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
	g.fence(s, key)
	drop()
}

// fence takes the right of everything that runs for key. s.mu is held.
func (g *Group[K, V]) fence(s *shard[K, V], key K) {
	g.move(s)
	s.fenceFlights(key)
	s.fenceWrites(key, nil)
}

// move notes that something has taken rights to store, for keys of which nothing
// is known yet; see [Batch.Fill]. s.mu is held.
func (g *Group[K, V]) move(s *shard[K, V]) { s.moved = g.moves.Add(1) }

// fenceWrites takes the right of all writes of key but one. s.mu is held.
func (s *shard[K, V]) fenceWrites(key K, but *Write[K]) {
	for _, w := range s.writes[key] {
		w.fenced = w.fenced || w != but
	}
}

func (s *shard[K, V]) fenceFlights(key K) {
	for _, m := range s.joinable {
		if f := m[key]; f != nil {
			s.fenceFlight(f)
		}
	}
}

// fenceFlight takes the right of f, and makes it unjoinable unless its load is
// still to begin. s.mu is held.
func (s *shard[K, V]) fenceFlight(f *Flight[K, V]) {
	if f.fenced = true; !f.pending {
		s.detach(f)
	}
}

// maxHolds is the number of keys on hold that a shard knows one by one. Beyond it
// all keys of the shard are on hold, until the last such hold is over: what is
// not kept is loaded again, what is kept in vain would be wrong.
const maxHolds = 160

// hold keeps flights of a key, or of all keys of a shard, from storing until a
// time has come. The zero hold keeps nothing.
type hold struct {
	until time.Time
	timer *time.Timer
}

func (h hold) stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
}

// Hold takes the right to store from the flights of key that run, and from those
// that begin within d, or within what is left of a longer hold. Writes may store.
func (g *Group[K, V]) Hold(key K, d time.Duration) {
	s := g.shard(key)
	until := time.Now().Add(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.holds[key]
	if s.closed || !findable(key) || !until.After(old.until) {
		return
	}
	g.move(s)
	if !known && len(s.holds) >= maxHolds {
		g.holdRest(s, until, d)
		return
	}
	old.stop()
	s.holds[key] = hold{until, time.AfterFunc(d, func() { g.release(s, key, until) })}
	s.fenceFlights(key)
}

// holdRest puts all keys of s on hold, for one that finds no room. s.mu is held.
func (g *Group[K, V]) holdRest(s *shard[K, V], until time.Time, d time.Duration) {
	if !until.After(s.rest.until) {
		return
	}
	s.rest.stop()
	s.rest = hold{until, time.AfterFunc(d, func() { g.releaseRest(s, until) })}
	for _, m := range s.joinable {
		for _, f := range m {
			s.fenceFlight(f)
		}
	}
}

// held reports whether key is on hold. s.mu is held.
func (s *shard[K, V]) held(key K) bool {
	return (len(s.holds) > 0 || s.rest.timer != nil) && time.Now().Before(s.heldUntil(key))
}

// heldUntil is when the hold on key ends, long ago if there is none. s.mu is held.
func (s *shard[K, V]) heldUntil(key K) time.Time {
	if until := s.holds[key].until; until.After(s.rest.until) {
		return until
	}
	return s.rest.until
}

// HoldLeft is for how long flights of key must not store yet.
func (g *Group[K, V]) HoldLeft(key K) time.Duration {
	s := g.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, time.Until(s.heldUntil(key)))
}

// release ends the hold that ends at until.
func (g *Group[K, V]) release(s *shard[K, V], key K, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds[key].until.Equal(until) {
		g.move(s)
		delete(s.holds, key)
	}
}

// releaseRest ends the hold on all keys of s that ends at until.
func (g *Group[K, V]) releaseRest(s *shard[K, V], until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rest.until.Equal(until) {
		g.move(s)
		s.rest = hold{}
	}
}

// FenceAll does for all keys what Fence does for one, without dropping: the
// caller raises the word that stamps are compared with first.
func (g *Group[K, V]) FenceAll() {
	for i := range g.shards {
		g.fenceAll(&g.shards[i])
	}
}

func (g *Group[K, V]) fenceAll(s *shard[K, V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.move(s)
	for f := range s.running {
		s.fenceFlight(f)
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
	g.fence(s, key)
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
	g.move(s)
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
	g.fence(s, key)
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
