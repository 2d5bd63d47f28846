// Watches: they note the keys whose stored entries may have changed, for values that come
// neither from a load nor from a write, such as the values of a snapshot.
//
// States of a key in a watch: untouched from the begin of the watch; changed, for good,
// from the first fence, write or landing of the key. Keys that share a mark with a
// changed one count as changed.
//
// Invariant: a key is marked in the critical section in which its entry changes, and
// Restore looks at the mark and inserts in one critical section. So a value from before
// a change that the watch has seen is not inserted after it.

package flight

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
)

// marks is the number of marks of a watch, a power of two. If one in a hundred of a
// million keys has changed, one in a hundred of the untouched keys counts as changed, too.
const marks = 1 << 20

// Watch notes the keys that have changed since it began. It takes 128 KiB.
type Watch[K comparable] struct {
	// dropped, if set, is called with each fenced or written key, under the lock of the
	// key's flights: it must not wait or call back.
	dropped func(K)
	bits    [marks / 64]atomic.Uint64
}

// watches are the running watches of a group.
type watches[K comparable] struct {
	seed  maphash.Seed
	mu    sync.Mutex // of changes of the list
	begun atomic.Pointer[[]*Watch[K]]
}

// Watch begins a watch, which [Group.Unwatch] ends. dropped may be nil; it is called with
// each fenced or written key, under a lock: it must not wait or call back.
func (g *Group[K, V]) Watch(dropped func(K)) *Watch[K] {
	w := &Watch[K]{dropped: dropped}
	g.watches.change(func(all []*Watch[K]) []*Watch[K] { return append(all, w) })
	return w
}

// Unwatch ends a watch.
func (g *Group[K, V]) Unwatch(w *Watch[K]) {
	g.watches.change(func(all []*Watch[K]) []*Watch[K] {
		return slices.DeleteFunc(all, func(x *Watch[K]) bool { return x == w })
	})
}

// change replaces the list by the result of f, which gets a copy: readers look at the old
// list without a lock.
func (ws *watches[K]) change(f func([]*Watch[K]) []*Watch[K]) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var all []*Watch[K]
	if old := ws.begun.Load(); old != nil {
		all = slices.Clone(*old)
	}
	if all = f(all); len(all) == 0 {
		ws.begun.Store(nil)
		return
	}
	ws.begun.Store(&all)
}

// changed marks key in all watches. The lock of the key's shard is held. drop says that
// the entry was dropped or written by a caller, or by a message.
func (ws *watches[K]) changed(key K, drop bool) {
	all := ws.begun.Load()
	if all == nil {
		return
	}
	word, bit := ws.mark(key)
	for _, w := range *all {
		w.bits[word].Or(bit)
		if drop && w.dropped != nil {
			w.dropped(key)
		}
	}
}

// HashOf returns the hash of key for Note; zero without one.
func (g *Group[K, V]) HashOf(key K) uint64 {
	if g.Note == nil {
		return 0
	}
	return g.Hash(key)
}

// dropped notes that the entry of key was dropped or written, at a time of [Group.Note]. The
// lock of the key's shard is held.
func (g *Group[K, V]) dropped(key K, hash uint64, at int64) {
	g.watches.changed(key, true)
	if g.Note != nil {
		g.Note(hash, at)
	}
}

// Withdraw calls drop under the lock that Fence takes. drop must not wait or call back, and
// reports whether it has removed the entry of key, which came neither from a load nor from
// a write. Flights and writes keep their rights. With lasting, no [Group.Restore] of a
// running watch inserts an entry of key from now on.
func (g *Group[K, V]) Withdraw(key K, lasting bool, drop func() bool) {
	s := g.spot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone := drop(); gone || lasting {
		g.watches.withdrawn(key, gone, lasting)
	}
}

// withdrawn tells the watches that the entry of a key has gone, and marks it with lasting.
func (ws *watches[K]) withdrawn(key K, gone, lasting bool) {
	all := ws.begun.Load()
	if all == nil {
		return
	}
	word, bit := ws.mark(key)
	for _, w := range *all {
		if lasting {
			w.bits[word].Or(bit)
		}
		if gone && w.dropped != nil {
			w.dropped(key)
		}
	}
}

// mark returns the place of the mark of key.
func (ws *watches[K]) mark(key K) (word, bit uint64) {
	h := maphash.Comparable(ws.seed, key) % marks
	return h / 64, 1 << (h % 64)
}

// Restore calls insert, under the lock that Fence takes, if key is untouched since w
// began, and no flight or write of the key runs, and the key is not on hold: insert must
// not wait or call back. It reports whether it has called insert.
func (g *Group[K, V]) Restore(w *Watch[K], key K, insert func()) bool {
	s := g.spot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	word, bit := g.watches.mark(key)
	if s.closed || !findable(key) || w.bits[word].Load()&bit != 0 || s.held(key) || s.busy() {
		return false
	}
	insert()
	return true
}

// Busy reports whether a write of key runs, or a flight that can be joined.
func (g *Group[K, V]) Busy(key K) bool {
	s := g.spot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy()
}

// busy is Busy with s.mu held.
func (s spot[K, V]) busy() bool {
	for range s.running.of(s.key, s.hash) {
		return true
	}
	return len(s.writes[s.key]) > 0
}
