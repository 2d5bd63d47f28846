// Package l1 is the in-process engine: a bounded map of entries with lives, an
// eviction policy, a sweeper and a cheap clock. memory.Cache and strata.Cache
// are thin layers over it. The engine knows nothing about loaders, tiers or fences, and
// never calls user code under a lock.
//
// # Structure
//
// The key's hash picks a shard. Each shard has a table that readers search
// without a lock, and, under the shard's mutex, the order in which entries leave
// (package evict). An [Entry] is immutable and replaced by pointer, so a reader that
// has found an entry needs no lock to use it.
//
// Bounded by weight, a cache begins with one shard, and has all divided in two when the
// entries have become many enough: heavy entries need few and large shards.
//
// The code is generic where keys are hashed and compared: [Cache] has a core that
// knows entries by their heads, and is compiled once.
//
// The bound holds for the whole cache, exactly and at every moment: all shards share
// one count and one weight, and a writer reserves its room there before it inserts. A
// writer that finds no room evicts from its own shard, or from another shard that
// holds more than its share.
//
// # Locks
//
// Get takes no lock, except that a hit takes the shard's mutex if the policy listens,
// which LRU and LFU do. At most one shard mutex is held at a time, except by a writer that
// divides the shards: it takes them in their order. The mutexes of the sweeper and the
// clock are taken with no other lock held; they guard only starting and
// stopping. No mutex is held over a callback, a channel or a timer.
//
// # Goroutines
//
// There are at most two, and each runs only while it has work: the sweeper
// while any entry has a deadline, or many entries must be evicted, the clock while
// reads are frequent. Close ends both and waits.
//
// # Time
//
// All times are nanoseconds of the engine's own monotonic clock, which starts
// at one when the engine is made. Zero is before every time.
//
// With an idle life an unread entry ends earlier than its deadline. The end moves with
// each read, and is computed from the stamp in its head (see evict.Idle). Its timer runs
// out at an earlier known end, and is set anew if the entry was read since.
package l1
