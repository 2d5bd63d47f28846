package flight

// enqueue has f, a reload, wait until no older load of its key can be joined any
// more. s.mu is held.
func (s *shard[K, V]) enqueue(f *Flight[K, V]) {
	f.pending, f.turn = true, make(chan struct{})
	older := s.joinable[Load][f.Key]
	if older == nil {
		s.promote(f)
		return
	}
	f.after, f.behind = older, &older.node
	f.node.waits = map[*Node]int{f.behind: 1} // nobody else knows f yet
}

// promote makes f, a reload, the flight that those join who want a load of its
// key. s.mu is held.
func (s *shard[K, V]) promote(f *Flight[K, V]) {
	f.after = nil
	if findable(f.Key) {
		s.joinable[Load][f.Key] = f
	}
	close(f.turn)
}

// inTurn waits until f, if it is a reload, is promoted or cancelled.
func (f *Flight[K, V]) inTurn() {
	if f.behind == nil {
		return
	}
	select {
	case <-f.turn:
	case <-f.ctx.Done():
	}
	f.node.waited(f.behind)
	f.behind, f.queued = nil, true
}

// Queued reports, in Then, whether f is a reload that has waited for an older
// load to end.
func (f *Flight[K, V]) Queued() bool { return f.queued }

// Start is to be called when the load of f, a reload, begins: the next caller that
// asks for a Reload of the key gets another. Fences from before Start leave f the
// right to store, since the load begins after them. Start reports false if there
// was one: values that were read for f before Start are not to be served.
func (g *Group[K, V]) Start(f *Flight[K, V]) (current bool) {
	s := f.home
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.joinable[Reload][f.Key] == f {
		delete(s.joinable[Reload], f.Key)
	}
	current = !f.fenced
	f.pending, f.Stamp, f.fenced = false, s.stamp(), s.closed || s.held(f.Key)
	return current
}
