// Fences and writes: they take the right to store from flights and writes of a key.
//
// States of a right: held from the registration of a flight or the begin of a write;
// lost to a fence, to another write, to a load that has brought an answer, or to a hold of the key.
//
// Invariant: the right is checked, and the entry inserted or dropped, in one
// critical section of the key's shard. So a store under a lost right never happens,
// and no insert from before a drop follows the drop.

package flight

// Write is a store by a caller, as opposed to a store by a load. It has a right to
// store of its own, which any fence of its key from elsewhere takes.
type Write[K comparable] struct {
	key    K
	hash   uint64
	fenced bool // guarded by the mutex of the key's shard
}

// Fence takes the right to store from the running flights and writes of key,
// makes the flights unjoinable, and calls drop under the same lock: it must
// not wait or call back. Callers of the fenced flights still get their
// results: they asked before the fence. at is a time for [Group.Note].
func (g *Group[K, V]) Fence(key K, at int64, drop func()) {
	s, hash := g.spot(key), g.HashOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	g.fence(s, hash, at)
	drop()
}

// fence takes the right of all flights and writes of the key of s. s.mu is held.
func (g *Group[K, V]) fence(s spot[K, V], hash uint64, at int64) {
	g.noteRevocation(s.shard)
	g.dropped(s.key, hash, at)
	s.fenceFlights()
	s.fenceWrites(nil)
}

// noteRevocation notes that rights to store were taken, for extra keys of batches,
// of which nothing is known yet; see [Batch.Fill]. s.mu is held.
func (g *Group[K, V]) noteRevocation(s *shard[K, V]) { s.revoked = g.revocations.Add(1) }

// fenceWrites takes the right of all writes of the key but one. s.mu is held.
func (s spot[K, V]) fenceWrites(but *Write[K]) {
	for _, w := range s.writes[s.key] {
		w.fenced = w.fenced || w != but
	}
}

// fenceFlights takes the right of all flights of the key. s.mu is held.
func (s spot[K, V]) fenceFlights() {
	for f := range s.running.of(s.key, s.hash) {
		s.fenceFlight(f)
	}
}

// fenceFlight takes the right of f, and makes it unjoinable unless its load is
// still to begin: then it offers nothing from before. s.mu is held.
func (s *shard[K, V]) fenceFlight(f *Flight[K, V]) {
	if f.fenced = true; f.pending {
		f.offered = nil
		return
	}
	s.detach(f)
}

// FenceAll takes the rights of all keys, as Fence does for one, without dropping:
// the caller first raises the generation, to which stamps are compared.
func (g *Group[K, V]) FenceAll() {
	for i := range g.shards {
		g.fenceAll(&g.shards[i])
	}
}

func (g *Group[K, V]) fenceAll(s *shard[K, V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.noteRevocation(s)
	for f := range s.running.all() {
		s.fenceFlight(f)
	}
	for _, ws := range s.writes {
		for _, w := range ws {
			w.fenced = true
		}
	}
}

// Begin registers a write of key: the flights and writes of the key that run now
// lose their right to store. Each Begin needs one End. It returns ErrClosed after
// Close.
func (g *Group[K, V]) Begin(key K) (*Write[K], error) {
	s, hash := g.spot(key), g.HashOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	g.fence(s, hash, 0)
	w := &Write[K]{key: key, hash: hash}
	if findable(key) {
		if s.writes == nil {
			s.writes = make(map[K][]*Write[K])
		}
		s.writes[key] = append(s.writes[key], w)
	}
	return w, nil
}

// End ends a write. The flights that began during it lose their right to store,
// and so do the other writes that run: their order in L2 is not known here. Then
// insert is called if the write still has its own right and insert is not nil.
// Otherwise drop is called: the stored entry may be older than the write's value
// in L2. Both run under the lock that Fence takes.
func (g *Group[K, V]) End(w *Write[K], insert, drop func()) (stored bool) {
	s := g.spot(w.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	g.noteRevocation(s.shard)
	g.dropped(w.key, w.hash, 0)
	s.fenceFlights()
	s.fenceWrites(w)
	if stored = insert != nil && !w.fenced; stored {
		insert()
	} else {
		drop()
	}
	s.forget(w)
	return stored
}

// Store is a write that stores in L1 alone, so that it begins and ends at once:
// no other write can come in between and cost either its entry. It returns
// ErrClosed after Close. at is a time for [Group.Note].
func (g *Group[K, V]) Store(key K, at int64, insert func()) error {
	s, hash := g.spot(key), g.HashOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	g.fence(s, hash, at)
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
	s := g.spot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.writes[key]) > 0
}
