// Package l1 is the in-process engine: a bounded map of entries with lives,
// an eviction policy, a sweeper and a cheap clock. memory.Cache and
// strata.Cache are thin faces over it; it knows nothing of loaders, tiers or
// fences, and never calls user code under a lock.
//
// # Structure
//
// The key's hash picks a shard. Each shard has a table that readers search
// without a lock, and, under the shard's mutex, a policy queue and a timing
// wheel that hold the same entries. An [Entry] is immutable and replaced by
// pointer, so a reader that has found one needs nothing more.
//
// The bound is on the whole cache and exact: one count and one weight for all
// shards. A writer that finds them exceeded evicts from its own shard, or from
// another that holds more than its share.
//
// # Locks
//
// At most one shard mutex is held at a time. The sweeper's and the clock's
// mutexes are taken with no other lock held and guard only their starting and
// stopping. No mutex is held over a callback, a channel or a timer.
//
// # Goroutines
//
// At most two, started when there is something to do and gone when there is
// not: the sweeper, while any entry has a deadline, and the clock, while reads
// are frequent. Close ends both and waits.
//
// # Time
//
// All times are nanoseconds of the engine's own monotonic clock, which starts
// when the engine is made. Zero is before all of them.
package l1
