package flight

// queue is the place of a reload behind the load of its key that runs. Other
// flights do not use it.
type queue[K comparable, V any] struct {
	turn   chan struct{} // closed when it is the reload's turn
	behind *Node         // of the load that the reload has to wait for; nil if none
	queued bool          // see Flight.Queued

	// Guarded by the shard's mutex.
	pending bool          // the load has not begun: fences do not detach the reload
	after   *Flight[K, V] // the load that the reload waits for; nil from its turn on
}

// enqueue makes f, a reload, wait until no older load of its key can be joined.
// s.mu is held.
func (s *shard[K, V]) enqueue(f *Flight[K, V]) {
	f.pending, f.turn = true, make(chan struct{})
	older := s.joinable[Load][f.Key]
	if older == nil {
		s.promote(f)
		return
	}
	f.after, f.behind, older.shared = older, &older.node, true
	f.node.waits = map[*Node]int{f.behind: 1} // no other goroutine knows f yet
}

// promote makes f, a reload, the flight that callers join that ask for a load of
// its key. s.mu is held.
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
	case <-f.scope.Done():
	}
	f.node.stopWaiting(f.behind)
	f.behind, f.queued = nil, true
}

// Queued reports, in Then, whether f is a reload that has waited for an older
// load to end.
func (f *Flight[K, V]) Queued() bool { return f.queued }

// Start is to be called when the load of f, a reload, begins: the next caller that
// asks for a Reload of the key gets another. Fences from before Start leave f the
// right to store, since the load begins after them. Start returns false if there
// was such a fence: values that were read for f before Start must not be served.
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
