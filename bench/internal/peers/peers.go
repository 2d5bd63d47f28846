// Package peers has the in-process caches of Go behind one interface: our own,
// others, and maps with locks. All are made with the same capacity and the
// defaults that their manuals recommend; each entry weighs 1.
//
// Calls through the interface are for whole slices of operations. Every adapter
// repeats the loop over them, so that the compiler sees which cache is called
// and inlines the same functions as for a user. Only Get and Set through the
// interface, which no measured loop uses, cost a call more.
package peers

import "time"

// Key is a type of keys that all peers accept.
type Key interface{ uint64 | string }

// Cache is a cache or a map for concurrent use.
type Cache[K Key, V any] interface {
	Get(key K) (V, bool)
	Set(key K, value V)
	// Hits reads keys in turn and returns how many were found, and the last
	// value.
	Hits(keys []K) (found int, last V)
	// Mix goes through keys in turn: it writes a key if its place in writes is
	// true and reads it otherwise. A read that finds nothing is followed by a
	// write. Mix returns the number of reads that found something.
	Mix(keys []K, writes []bool, value V) (hits int)
	// Settle waits until all earlier calls have had their effect.
	Settle()
	Close()
}

// OffHeap is a cache that keeps memory the collector does not see.
type OffHeap interface {
	// OffHeap returns the bytes of it in use.
	OffHeap() uint64
}

// Config is the settings that a cache is made with.
type Config struct {
	Capacity int           // in entries; maps have no bound
	TTL      time.Duration // after a write; zero means none
	// Synchronous says that a call has had its effect when it returns, where
	// there is a choice.
	Synchronous bool
}

// Kind is the abilities of a peer, as bits.
type Kind uint8

// The abilities of a peer.
const (
	Bounded Kind = 1 << iota // it keeps to its capacity
	Expires                  // it can have a TTL
	Coarse                   // it has a coarse clock, which only matters with a TTL
	Sharded                  // the parts of its capacity fill unevenly
	Cached  = Bounded | Expires
)

// Is reports whether k includes all bits of its argument.
func (k Kind) Is(what Kind) bool { return k&what == what }

// Peer is one of the compared caches and maps.
type Peer[K Key, V any] struct {
	Name string
	Kind Kind
	Open func(Config) (Cache[K, V], error)
}

// Names of peers that others are compared to.
const (
	Strata      = "strata memory"
	StrataCache = "strata.Cache"
	Otter       = "otter"
	OtterCoarse = "otter, coarse clock"
	Xsync       = "xsync.Map"
	RWMutex     = "RWMutex map"
	ShardedMap  = "128 RWMutex maps"
)

// All returns all peers that keep values as they are, our own first. Peers that
// take strings only are left out for other keys.
func All[K Key, V any]() []Peer[K, V] {
	peers := []Peer[K, V]{
		{Strata, Cached, openMemory[K, V]},
		{StrataCache, Cached, openCache[K, V]},
		{Otter, Cached, openOtter[K, V]},
		{OtterCoarse, Cached | Coarse, openCoarse[K, V]},
		{"theine", Cached, openTheine[K, V]},
		{"ristretto", Cached, openRistretto[K, V]},
		{"golang-lru", Cached, openLRU[K, V]},
		{"golang-lru 2Q", Bounded, openTwoQueue[K, V]},
		{"freelru", Cached | Sharded, openFreeLRU[K, V]},
		{"phuslu/lru", Cached | Sharded, openPhuslu[K, V]},
		{"S3-FIFO, g.-fifo", Cached, openS3FIFO[K, V]},
		{"SIEVE, g.-fifo", Cached, openSieve[K, V]},
	}
	if more, ok := any(texts[V]()).([]Peer[K, V]); ok {
		peers = append(peers, more...)
	}
	return append(peers, []Peer[K, V]{
		{Xsync, 0, openXsync[K, V]},
		{"sync.Map", 0, openSyncMap[K, V]},
		{"Mutex map", 0, openMutex[K, V]},
		{RWMutex, 0, openRWMutex[K, V]},
		{ShardedMap, 0, openSharded[K, V]},
	}...)
}

// Boxed returns a map in 128 parts that keeps its values as interfaces, as maps
// did before generics.
func Boxed[K Key, V any]() Peer[K, V] { return Peer[K, V]{"128 maps of any", 0, openBoxed[K, V]} }

// texts returns the peers that take string keys only.
func texts[V any]() []Peer[string, V] {
	return []Peer[string, V]{
		{"sturdyc", Cached | Sharded, openSturdyc[V]},
		{"go-cache", Expires, openGoCache[V]},
	}
}

// idle is the Settle and the Close of a peer without buffers and goroutines.
type idle struct{}

// Settle implements Cache.
func (idle) Settle() {}

// Close implements Cache.
func (idle) Close() {}
