package peers

import (
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"time"

	"github.com/VictoriaMetrics/fastcache"
	"github.com/allegro/bigcache/v3"
	"github.com/coocood/freecache"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/memory"
)

// Codec writes values for caches of bytes and reads them.
type Codec[V any] struct {
	// Append appends the form of value to b.
	Append func(b []byte, value V) []byte
	// Decode is the inverse of Append. The value keeps nothing of b.
	Decode func(b []byte) V
	// Size is the approximate number of bytes of a key and its value.
	Size int
}

// Bytes returns the caches that keep bytes, with values written by a codec.
// Their room is the number of bytes that the entries take. It does not bound the
// number of entries exactly.
func Bytes[V any](codec Codec[V]) []Peer[string, V] {
	return []Peer[string, V]{
		{Name: "bigcache", Kind: Expires, Open: codec.openBig},
		{Name: "freecache", Kind: Expires, Open: codec.openFree},
		{Name: "fastcache", Kind: 0, Open: codec.openFast},
		{Name: "strata bytes", Kind: Expires, Open: codec.openStrata},
		{Name: "strata encoded", Kind: Expires, Open: codec.openEncoded},
	}
}

// room is the memory on the stack that values are read into.
const room = 64

func (d Codec[V]) openStrata(c Config) (Cache[string, V], error) {
	const header, slot = 4, 24
	m, err := memory.NewByteCache(max(memory.MinBytes, int64(c.Capacity*5/4*(d.Size+header+slot))))
	return byteCache[V]{m: m, d: d, ttl: c.TTL}, err
}

type byteCache[V any] struct {
	idle
	m   *memory.ByteCache
	d   Codec[V]
	ttl time.Duration
}

// Get implements Cache.
func (c byteCache[V]) Get(key string) (value V, ok bool) {
	var buffer [room]byte
	b, ok := c.m.AppendGet(buffer[:0], []byte(key))
	if !ok {
		return value, false
	}
	return c.d.Decode(b), true
}

// Set implements Cache.
func (c byteCache[V]) Set(key string, value V) {
	var buffer [room]byte
	c.m.SetTTL([]byte(key), c.d.Append(buffer[:0], value), c.ttl)
}

// Hits implements Cache.
func (c byteCache[V]) Hits(keys []string) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c byteCache[V]) Mix(keys []string, writes []bool, value V) (hits int) {
	for i, k := range keys {
		if !writes[i] {
			if _, ok := c.Get(k); ok {
				hits++
				continue
			}
		}
		c.Set(k, value)
	}
	return hits
}

func (d Codec[V]) openEncoded(c Config) (Cache[string, V], error) {
	const header, slot = 12, 24
	o := strata.Options[string, V]{TTL: c.TTL, Remote: strata.Remote[string, V]{Codec: encodedBy[V]{d}}, Memory: strata.Memory[string, V]{
		Encoded: true, MaxWeight: max(memory.MinBytes, int64(c.Capacity*5/4*(d.Size+header+slot))),
	}}
	if c.TTL == 0 {
		o.TTL = strata.NoExpiry
	}
	s, err := strata.New(o)
	return whole[string, V]{s}, err
}

// encodedBy is a Codec for strata.
type encodedBy[V any] struct{ d Codec[V] }

func (e encodedBy[V]) Name() string                         { return "peers" }
func (e encodedBy[V]) Append(b []byte, v V) ([]byte, error) { return e.d.Append(b, v), nil }
func (e encodedBy[V]) Decode(b []byte) (V, error)           { return e.d.Decode(b), nil }

func (d Codec[V]) openBig(c Config) (Cache[string, V], error) {
	o := bigcache.DefaultConfig(c.TTL)
	if c.TTL == 0 {
		o.LifeWindow, o.CleanWindow = math.MaxInt64, 0
	}
	o.MaxEntriesInWindow, o.MaxEntrySize = c.Capacity, d.Size
	o.HardMaxCacheSize = 1 + c.Capacity*2*(d.Size+32)>>20
	o.Verbose, o.Logger = false, log.New(io.Discard, "", 0)
	m, err := bigcache.New(context.Background(), o)
	return bigCache[V]{m, d}, err
}

type bigCache[V any] struct {
	m *bigcache.BigCache
	d Codec[V]
}

// Get implements Cache.
func (c bigCache[V]) Get(key string) (value V, ok bool) {
	b, err := c.m.Get(key)
	if err != nil {
		return value, false
	}
	return c.d.Decode(b), true
}

// Set implements Cache.
func (c bigCache[V]) Set(key string, value V) {
	if err := c.m.Set(key, c.d.Append(nil, value)); err != nil {
		panic(fmt.Errorf("peers: bigcache: %w", err))
	}
}

// Settle implements Cache: nothing is buffered.
func (bigCache[V]) Settle() {}

// Close implements Cache.
func (c bigCache[V]) Close() { _ = c.m.Close() }

// Hits implements Cache.
func (c bigCache[V]) Hits(keys []string) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c bigCache[V]) Mix(keys []string, writes []bool, value V) (hits int) {
	for i, k := range keys {
		if !writes[i] {
			if _, ok := c.Get(k); ok {
				hits++
				continue
			}
		}
		c.Set(k, value)
	}
	return hits
}

func (d Codec[V]) openFree(c Config) (Cache[string, V], error) {
	const header = 24
	return freeCache[V]{m: freecache.NewCache(c.Capacity * 3 / 2 * (d.Size + header)), d: d, ttl: c.TTL}, nil
}

type freeCache[V any] struct {
	idle
	m   *freecache.Cache
	d   Codec[V]
	ttl time.Duration
}

// Get implements Cache.
func (c freeCache[V]) Get(key string) (value V, ok bool) {
	b, err := c.m.Get([]byte(key))
	if err != nil {
		return value, false
	}
	return c.d.Decode(b), true
}

// Set implements Cache.
func (c freeCache[V]) Set(key string, value V) {
	if err := c.m.Set([]byte(key), c.d.Append(nil, value), int(c.ttl/time.Second)); err != nil {
		panic(fmt.Errorf("peers: freecache: %w", err))
	}
}

// Hits implements Cache.
func (c freeCache[V]) Hits(keys []string) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c freeCache[V]) Mix(keys []string, writes []bool, value V) (hits int) {
	for i, k := range keys {
		if !writes[i] {
			if _, ok := c.Get(k); ok {
				hits++
				continue
			}
		}
		c.Set(k, value)
	}
	return hits
}

func (d Codec[V]) openFast(c Config) (Cache[string, V], error) {
	const header = 4
	return fastCache[V]{m: fastcache.New(c.Capacity * 3 / 2 * (d.Size + header)), d: d}, nil
}

type fastCache[V any] struct {
	m *fastcache.Cache
	d Codec[V]
}

// Get implements Cache.
func (c fastCache[V]) Get(key string) (value V, ok bool) {
	var buffer [room]byte
	b, ok := c.m.HasGet(buffer[:0], []byte(key))
	if !ok {
		return value, false
	}
	return c.d.Decode(b), true
}

// Set implements Cache.
func (c fastCache[V]) Set(key string, value V) {
	var buffer [room]byte
	c.m.Set([]byte(key), c.d.Append(buffer[:0], value))
}

// Settle implements Cache: nothing is buffered.
func (fastCache[V]) Settle() {}

// Close implements Cache: fastcache keeps its memory outside of the heap.
func (c fastCache[V]) Close() { c.m.Reset() }

// Hits implements Cache.
func (c fastCache[V]) Hits(keys []string) (n int, last V) {
	for _, k := range keys {
		if v, ok := c.Get(k); ok {
			last, n = v, n+1
		}
	}
	return n, last
}

// Mix implements Cache.
func (c fastCache[V]) Mix(keys []string, writes []bool, value V) (hits int) {
	for i, k := range keys {
		if !writes[i] {
			if _, ok := c.Get(k); ok {
				hits++
				continue
			}
		}
		c.Set(k, value)
	}
	return hits
}

// OffHeap implements OffHeap.
func (c fastCache[V]) OffHeap() uint64 {
	var s fastcache.Stats
	c.m.UpdateStats(&s)
	return s.BytesSize
}
