// Holds: they keep loads of a key from storing until some time. They are the one place
// that knows them: a message, a call here, and an answer of L2 each put a key on hold,
// and flights, extra keys of batches and restores look here before they store.
//
// Invariant: a hold never ends early. Beyond its part of maxHolds a shard holds more keys, not
// fewer.

package flight

import "time"

// maxHolds is the number of keys on hold that a group knows one by one, and each shard an equal part
// of them. Beyond it all keys of the shard are on hold until the last such hold ends. That errs
// on the safe side: a result not stored is loaded again, a result stored during a hold
// would be wrong.
const maxHolds = 10_240

// hold keeps flights of a key, or of all keys of a shard, from storing until some
// time. The zero hold has no effect.
type hold struct {
	until time.Time
	timer *time.Timer
}

func (h hold) stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
}

// Hold takes the right to store from the running flights of key, and from the flights that begin
// within d, or before the end of a longer hold. Writes may store. Hold returns true if the hold is
// news: until now key was not on hold.
func (g *Group[K, V]) Hold(key K, d time.Duration) (news bool) {
	s := g.spot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if news = g.hold(s.shard, key, d); news {
		s.fenceFlights()
	}
	return news
}

// Learn is Hold for a hold of which L2 has told, in its answer to a flight of key: the flights stay
// joinable, because their loads are still to begin, or run into the message about the hold. If the
// hold is news, the flights offer nothing that was read before, and Learn calls drop under the same
// lock, which must not wait or call back, and returns true.
func (g *Group[K, V]) Learn(key K, d time.Duration, drop func()) (news bool) {
	s := g.spot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !g.hold(s.shard, key, d) {
		return false
	}
	for f := range s.running.of(key, s.hash) {
		f.fenced, f.offered = true, nil // it may be older than the drop
	}
	g.watches.changed(key, true)
	drop()
	return true
}

// hold puts key on hold for d, or until the end of a longer hold. news: key was not on
// hold before, so its flights still have the right to store. s.mu is held.
func (g *Group[K, V]) hold(s *shard[K, V], key K, d time.Duration) (news bool) {
	until := time.Now().Add(d)
	old, known := s.holds[key]
	if s.closed || !findable(key) || !until.After(old.until) {
		return false
	}
	if news = !s.held(key); news {
		g.noteRevocation(s)
	}
	if !known && len(s.holds) >= maxHolds/len(g.shards) {
		g.holdShard(s, until, d)
		return news
	}
	old.stop()
	if s.holds == nil {
		s.holds = make(map[K]hold)
	}
	s.holds[key] = hold{until, time.AfterFunc(d, func() { g.release(s, key, until) })}
	return news
}

// holdShard puts all keys of s on hold, for a key that finds no room. s.mu is held.
func (g *Group[K, V]) holdShard(s *shard[K, V], until time.Time, d time.Duration) {
	if !until.After(s.holdAll.until) {
		return
	}
	s.holdAll.stop()
	s.holdAll = hold{until, time.AfterFunc(d, func() { g.releaseShard(s, until) })}
	for f := range s.running.all() {
		if f.isJoinable() {
			s.fenceFlight(f)
		}
	}
}

// held reports whether key is on hold. s.mu is held.
func (s *shard[K, V]) held(key K) bool {
	return (len(s.holds) > 0 || s.holdAll.timer != nil) && time.Now().Before(s.heldUntil(key))
}

// heldUntil is the end of the hold on key, long ago if there is none. s.mu is held.
func (s *shard[K, V]) heldUntil(key K) time.Time {
	if until := s.holds[key].until; until.After(s.holdAll.until) {
		return until
	}
	return s.holdAll.until
}

// HoldLeft is the time during which flights of key must not store yet.
func (g *Group[K, V]) HoldLeft(key K) time.Duration {
	s := g.spot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, time.Until(s.heldUntil(key)))
}

// release ends the hold that ends at until.
func (g *Group[K, V]) release(s *shard[K, V], key K, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds[key].until.Equal(until) {
		g.noteRevocation(s)
		delete(s.holds, key)
	}
}

// releaseShard ends the hold on all keys of s that ends at until.
func (g *Group[K, V]) releaseShard(s *shard[K, V], until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holdAll.until.Equal(until) {
		g.noteRevocation(s)
		s.holdAll = hold{}
	}
}

// findable reports whether key equals itself. Any other key, such as a NaN, could
// never be found again in a map, nor removed from it.
func findable[K comparable](key K) bool {
	same := key
	return key == same
}
