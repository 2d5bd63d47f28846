package l1

import (
	"time"
	"unsafe"

	"github.com/strata-cache/strata/internal/cache/evict"
)

// Forever is later than every time. An entry with Forever as its deadline Dead
// lives until it is evicted or deleted.
const Forever = evict.Forever

// Entry is one key with its value and deadline. The caller makes it with
// [NewEntry], stores it once, in one cache, and never writes to it again; a
// change means storing another entry. The exported fields may be read at any
// time.
//
// With a key and a value of eight bytes an entry takes 32 bytes: half a cache
// line, and all that a hit reads after the table.
type Entry[K comparable, V any] struct {
	evict.Head // first, so that a pointer to it is a pointer to the entry

	Key   K
	Value V
}

// NewEntry returns an entry for c that Get never serves from the time dead on.
func NewEntry[K comparable, V any](c *Cache[K, V], key K, value V, dead int64) *Entry[K, V] {
	var e *Entry[K, V]
	switch n := c.textLen(&key); {
	case n == 0 || n > maxText:
		return &Entry[K, V]{Head: evict.Head{Dead: dead}, Key: key, Value: value}
	case n <= shortText:
		x := &entryWith[K, V, [shortText]byte]{}
		e = &x.Entry
		e.setText(&key, x.behind[:])
	default:
		x := &entryWith[K, V, [maxText]byte]{}
		e = &x.Entry
		e.setText(&key, x.behind[:])
	}
	e.Value, e.Dead = value, dead
	return e
}

// entryWith is an entry with an X behind it; its user knows the type X.
type entryWith[K comparable, V, X any] struct {
	Entry[K, V]
	behind X
}

// entryWithText is an entry with an X behind it, and its key behind the X.
type entryWithText[K comparable, V, X, T any] struct {
	entryWith[K, V, X]
	text T
}

// NewEntryWith is [NewEntry] for an entry with an X behind it. Entries without one
// have no memory for it; see [Behind].
func NewEntryWith[K comparable, V, X any](c *Cache[K, V], key K, value V, dead int64, behind X) *Entry[K, V] {
	var e *entryWith[K, V, X]
	switch n := c.textLen(&key); {
	case n == 0 || n > maxText:
		e = &entryWith[K, V, X]{}
		e.Key = key
	case n <= shortText:
		x := &entryWithText[K, V, X, [shortText]byte]{}
		e = &x.entryWith
		e.setText(&key, x.text[:])
	default:
		x := &entryWithText[K, V, X, [maxText]byte]{}
		e = &x.entryWith
		e.setText(&key, x.text[:])
	}
	e.Value, e.Dead, e.behind = value, dead, behind
	return &e.Entry
}

// A string key of up to maxText bytes is copied behind its entry, into room for
// shortText or maxText bytes: a hit compares it without waiting for another place in
// memory, and the entry keeps no larger text alive of which the key was a part. A
// read of 50,000 entries takes 0.8 of the time with keys elsewhere, one of 500,000
// 0.65. An entry and its key take as much memory together as apart.
const (
	shortText = 16
	maxText   = 32
)

// textLen returns the length of a string key, and zero for any other key.
func (c *Cache[K, V]) textLen(key *K) int {
	if !c.texts {
		return 0
	}
	return len(*(*string)(unsafe.Pointer(key)))
}

// setText makes key, which is a string, the key of e, in the memory of room.
func (e *Entry[K, V]) setText(key *K, room []byte) {
	n := copy(room, *(*string)(unsafe.Pointer(key)))
	*(*string)(unsafe.Pointer(&e.Key)) = unsafe.String(&room[0], n)
}

// Behind returns the X behind e. The caller knows that [NewEntryWith] made e
// with an X, and writes to it only before e is stored.
func Behind[X any, K comparable, V any](e *Entry[K, V]) *X {
	return &(*entryWith[K, V, X])(unsafe.Pointer(e)).behind
}

// entryOf returns the entry that begins with h; nil for nil.
func entryOf[K comparable, V any](h *evict.Head) *Entry[K, V] {
	return (*Entry[K, V])(unsafe.Pointer(h))
}

// headOf is the opposite of entryOf.
func headOf[K comparable, V any](e *Entry[K, V]) *evict.Head {
	return (*evict.Head)(unsafe.Pointer(e))
}

// Reason is the cause of an entry's removal.
type Reason uint8

// Reasons for removal.
const (
	// Evicted: removed to make room.
	Evicted Reason = iota + 1
	// Expired: the entry was past its deadline.
	Expired
	// Replaced: another entry of the same key took its place.
	Replaced
	// Deleted: removed by a caller, alone or with others.
	Deleted
	// Rejected: its key was set to an entry too heavy to be kept.
	Rejected
	// Cleared: Clear or Close removed all entries.
	Cleared
)

// String returns the reason as a lower-case word.
func (r Reason) String() string {
	switch r {
	case Evicted:
		return "evicted"
	case Expired:
		return "expired"
	case Replaced:
		return "replaced"
	case Deleted:
		return "deleted"
	case Rejected:
		return "rejected"
	case Cleared:
		return "cleared"
	}
	return "unknown"
}

// Removed is an entry after it has left the cache.
type Removed[K comparable, V any] struct {
	Entry  *Entry[K, V]
	Reason Reason
}

// removed is a Removed without the types of key and value.
type removed struct {
	head   *evict.Head
	reason Reason
}

// After returns the time d after now. The result is Forever instead of an
// overflow; a negative d counts as zero.
func After(now int64, d time.Duration) int64 {
	if d = max(d, 0); now > Forever-int64(d) {
		return Forever
	}
	return now + int64(d)
}

// clear empties the shards one after the other and, if closing, closes each.
func (c *core) clear(closing bool) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.closed = s.closed || closing
		c.pinned.Add(-int64(s.order.Unpin()))
		old, less := s.empty()
		c.release(less)
		s.mu.Unlock()
		if c.notify != nil {
			old.each(func(h *evict.Head) bool {
				c.tellOne(removed{h, Cleared})
				return true
			})
		}
	}
}

// note counts a removal and, if there is a Notify function, adds it to the
// list. It needs the shard's mutex.
func (c *core) note(s *shard, gone []removed, h *evict.Head, r Reason) []removed {
	switch r {
	case Evicted:
		s.evicted++
	case Expired:
		s.expired++
	}
	if c.notify == nil {
		return nil
	}
	return append(gone, removed{h, r})
}

// tell calls Config.Notify for each removed entry. The caller holds no lock.
func (c *core) tell(gone []removed) {
	for _, r := range gone {
		c.tellOne(r)
	}
}

// tellOne recovers from a panic of the callback, so that it does not stop the
// rest of the list or the sweeper.
func (c *core) tellOne(r removed) {
	defer func() {
		if recover() != nil {
			c.panics.Add(1)
		}
	}()
	c.notify(r.head, r.reason)
}

// reasonAt returns r, or Expired if the entry was dead at now.
func (c *core) reasonAt(r Reason, h *evict.Head, now int64) Reason {
	if c.idle.Over(h, now) {
		return Expired
	}
	return r
}
