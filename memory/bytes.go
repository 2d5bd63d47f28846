package memory

import (
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/cache/bytestore"
	"github.com/strata-cache/strata/internal/cache/guard"
)

// ByteCache is a Cache of bytes, bounded by bytes: a map from byte slices to byte slices that
// keeps copies of both in large pieces of memory without pointers. So the garbage collector takes no
// longer with many entries than with few, and an entry takes its bytes, 3 to 5 more, and 10 to 20 in
// an index. A Cache is faster, and keeps values of any type.
//
// A new key enters a small queue of a tenth of the memory, and goes on to the main queue if it was
// read there. Both are queues of pieces of 4 to 64 KiB: the oldest piece makes room as a whole, and the
// entries that were read since are kept once more. This is S3-FIFO (Yang et al., SOSP 2023) by
// pieces in place of entries.
//
// Make it with [NewByteCache]. All methods are safe for concurrent use. It has no goroutine and needs no
// Close.
type ByteCache struct {
	store *bytestore.Store

	mu    sync.Mutex // guards leave
	leave func()     // takes the cache from its Guard; nil without one
}

// MinBytes is the least bound of a [ByteCache].
const MinBytes = 128 << 10

// NewByteCache makes an empty cache that takes at most maxBytes of memory, with keys, values, tables
// and memory that no entry uses. It grows up to that as entries come. It returns an error if maxBytes is
// less than [MinBytes], or 2 GiB or more on a 32-bit machine.
func NewByteCache(maxBytes int64) (*ByteCache, error) {
	s, err := bytestore.New(maxBytes)
	if err != nil {
		return nil, boundError(maxBytes, MinBytes)
	}
	return &ByteCache{store: s}, nil
}

func boundError(maxBytes, least int64) error {
	if maxBytes >= least {
		return fmt.Errorf("memory: a ByteCache of %d bytes is too large for this machine", maxBytes)
	}
	return fmt.Errorf("memory: a ByteCache of %d bytes is too small: it needs %d", maxBytes, least)
}

// AppendGet appends the value of key to dst, and reports whether there is one. The returned slice is
// the caller's own. It keeps neither dst nor key, and allocates only if dst is too small.
func (c *ByteCache) AppendGet(dst, key []byte) (value []byte, ok bool) {
	return c.store.AppendGet(dst, key)
}

// Set stores a copy of value under a copy of key, without an end. It reports false if the entry takes more
// than a tenth of the bound: then the key is removed.
func (c *ByteCache) Set(key, value []byte) bool { return c.store.Set(key, value, 0) }

// SetTTL is Set for an entry that ends after ttl, to the millisecond. A ttl of zero or less means
// that the entry does not end. An entry with an end takes 6 bytes more.
func (c *ByteCache) SetTTL(key, value []byte, ttl time.Duration) bool {
	return c.store.Set(key, value, ttl)
}

// Delete removes the entry of key, and reports whether there was one.
func (c *ByteCache) Delete(key []byte) bool { return c.store.Delete(key) }

// Len returns the number of entries. Entries that have ended count until a read finds them, or
// they make room.
func (c *ByteCache) Len() int { return c.store.Len() }

// Bytes returns the memory that the cache takes. It is never more than the bound, except during a
// Resize.
func (c *ByteCache) Bytes() int64 { return c.store.Bytes() }

// All iterates over the keys and values, in no order. Both slices are valid until the iteration goes
// on. An entry that is stored or removed meanwhile may be left out. The loop may call the cache.
func (c *ByteCache) All() iter.Seq2[[]byte, []byte] { return c.store.All() }

// Resize changes the bound. With less than before, entries leave. A mebibyte of memory or more goes back
// to the operating system at once, which takes a garbage collection. Resize returns an error, and changes
// nothing, if maxBytes is less than [MinBytes], or than the two kibibytes that each part of the cache needs: there are up to
// 128 parts for each processor, as many as the first bound has mebibytes.
func (c *ByteCache) Resize(maxBytes int64) error {
	if c.store.Resize(maxBytes) != nil {
		return boundError(maxBytes, c.store.Least())
	}
	return nil
}

// SetGuard gives the cache to a guard, and takes it from the one that it had before. With nil it has none.
func (c *ByteCache) SetGuard(g *Guard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leave != nil {
		c.leave()
	}
	c.leave = guard.Watch((*guard.Guard)(g), c.store, true)
}

// Stats returns the counts. Weight is the memory that the cache takes, Evicted counts entries that
// have made room, and CallbackPanics is zero.
func (c *ByteCache) Stats() Stats {
	s := c.store.Stats()
	return Stats{
		Entries: int64(c.Len()), Weight: c.Bytes(), Hits: s.Hits, Misses: s.Misses,
		Evicted: s.Evicted, Expired: s.Expired, Rejected: s.Rejected,
	}
}
