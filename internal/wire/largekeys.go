// Remembers which keys have large values, so that calls for them do
// not keep others waiting on a shared connection.

package wire

import (
	"cmp"
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// LargeKeys remembers keys with large replies, and names with mostly large
// replies, so that their calls do not keep others waiting. It takes 40 KiB and may
// mistake one key for another.
type LargeKeys struct {
	// Small is the size, in bytes, up to which replies are small. Zero means 64 KiB.
	Small int
	// any is set when there was a large reply: until then nothing is looked up.
	any atomic.Bool
	// keys holds digests of the keys with a large last reply.
	keys [8192]atomic.Uint32
	// names counts up with each large reply under a name, and down with each
	// small one.
	names [2048]atomic.Int32
}

const (
	// smallReply is the default of Small.
	smallReply = 64 << 10
	// largeCounts is the weight of a large reply for its name, a small one has
	// weight one: names with more than one large reply in five are avoided.
	largeCounts = 4
	// avoidFrom is the count from which a name is avoided, most the largest count.
	avoidFrom = 2 * largeCounts
	most      = avoidFrom + 2*largeCounts
)

var sizeSeed = maphash.MakeSeed() // read-only

// name returns the slot of keys with the same name. The name of a key is the part
// in front of the last colon, or of the digits at the end.
func (s *LargeKeys) name(key string) *atomic.Int32 {
	if i := strings.LastIndexByte(key, ':'); i >= 0 {
		key = key[:i]
	} else {
		key = strings.TrimRight(key, "0123456789")
	}
	return &s.names[maphash.String(sizeSeed, key)%uint64(len(s.names))]
}

// key returns the slot of a key, and the digest that the slot holds while the
// reply is large.
func (s *LargeKeys) key(key string) (slot *atomic.Uint32, digest uint32) {
	h := maphash.String(sizeSeed, key)
	return &s.keys[h%uint64(len(s.keys))], uint32(h>>32) | 1
}

// Large reports whether the reply for a key is expected to be large.
func (s *LargeKeys) Large(key string) bool {
	if !s.any.Load() {
		return false
	}
	if s.name(key).Load() >= avoidFrom {
		return true
	}
	slot, digest := s.key(key)
	return slot.Load() == digest
}

// Note learns from the size of a reply.
func (s *LargeKeys) Note(key string, size int) {
	large := size > cmp.Or(s.Small, smallReply)
	switch {
	case large:
		s.any.Store(true)
	case !s.any.Load():
		return
	}
	slot, digest := s.key(key)
	name := s.name(key)
	n := name.Load()
	if large {
		slot.Store(digest)
		name.CompareAndSwap(n, min(n+largeCounts, most))
		return
	}
	slot.CompareAndSwap(digest, 0)
	if n > 0 {
		name.CompareAndSwap(n, n-1)
	}
}
