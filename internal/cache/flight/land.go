package flight

// Land ends f with *r, which it copies. If f still has the right to store and insert is not nil,
// insert is called first, under the lock that Fence takes: it must not
// wait or call back. Land reports whether insert was called, and how many
// callers f had.
func (g *Group[K, V]) Land(f *Flight[K, V], r *Result[V], insert func()) (stored bool, callers int) {
	s, hash := f.home, uint64(0)
	if insert != nil {
		hash = g.HashOf(f.Key)
	}
	s.mu.Lock()
	if stored = insert != nil && !f.fenced; stored {
		insert()
		if f.notKept || r.Err != nil {
			g.dropped(f.Key, hash, 0) // an older value has gone, and nothing newer shows it
		} else {
			g.watches.changed(f.Key, false)
		}
		if f.kind == Reload { // values that others have read meanwhile are older
			g.noteRevocation(s)
			spot[K, V]{s, f.Key, f.hash}.fenceFlights()
		}
	}
	s.detach(f)
	s.running.exit(f)
	if f.kind == Reload {
		g.reloads.Add(-1)
	}
	callers = f.joined
	f.result = *r // also if it is deserted, for the caller that leads
	f.result.Shared = callers > 1
	f.wake(false)
	s.mu.Unlock()
	return stored, callers
}

// NotKept notes that the result of f is stored in no tier, so that no entry shows
// it: an extra key of a batch that began earlier may be older. It is called by an
// insert of [Group.Land].
func (g *Group[K, V]) NotKept(f *Flight[K, V]) {
	f.notKept = true
	g.noteRevocation(f.home)
}

// detach makes f unjoinable and takes its right to store. If a reload waits for f it is its
// turn. s.mu is held.
func (s *shard[K, V]) detach(f *Flight[K, V]) {
	f.fenced, f.joinable = true, [kinds]bool{}
	if next := s.running.find(Reload, f.Key, f.hash); next != nil && next.after == f {
		next.promote()
	}
}
