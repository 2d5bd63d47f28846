// Package cache is the machinery of a cache. All of it knows tiers by package remote
// alone, and no connection. The package itself has the options of a cache: checks, defaults,
// advice. The order of the rooms is their order in a read.
//
// Rooms:
//
//   - l1: the engine: lock-free table, bounds, sweeper, coarse clock
//   - l1/local: the entries of one cache in L1, and the judgement of them: may one be
//     served, and until when
//   - evict: decides which entries of a shard leave, and when: the eviction policies,
//     A3-FIFO by default, and the timing wheel
//   - bytestore: keys and values as bytes, in chunks without pointers
//   - guard: makes caches smaller while the heap of the process is too large: the limit, the
//     looks after collections, the coldest cache
//   - expiry: the times of an entry's life and its stamp, in 16 bytes
//   - ledger: generation, watermarks, lane versions and tags: which entries of L1 may be
//     served; the state of the bus: connected or silent, missed messages, heartbeats
//   - flight: shared loads, fences, the graph of loads that wait for each other; single
//     keys that become batches, and the memory of batches; the end of all begun operations
//   - limit: load slots, the retry budget, the breaker; how much runs in the background; the
//     contexts of flights and Loaders, made when their end is asked for; the ends of all loads
//   - origin: the state of the origin, as loads find it: since when they fail, and since
//     when they are slow; rations attempts at failed keys; how often a load brings another
//     value
//   - l2: the tier and the bus of one cache: breakers, pending drops, announcements,
//     health, waits for leases
//   - retry: the queue of drops that L2 has not confirmed
//   - envelope: the form of an entry in L2: the name of its key, the header around its value
//   - entryrules: the rules for stores under one key, as a pure function: values,
//     leases, tokens, holds
//   - lossy: finds the fields of a type that an encoding leaves out
//   - explain: tells the state of one key of a cache, and in words the result that a
//     read of it would have
package cache
