// Package cache is the machinery of a cache. All of it knows tiers by package remote
// alone, and no connection. The order of the rooms is their order in a read.
//
// Rooms:
//
//   - settings: the options of a cache: checks, defaults, advice
//   - keyname: the names of keys in L2: strings, integers, texts
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
//     served
//   - flight: shared loads, fences, the graph of loads that wait for each other; single
//     keys that become batches; the end of all begun operations
//   - lifetime: the contexts of flights and Loaders, made when their end is asked for;
//     the ends of all loads
//   - slab: memory that batches use one after the other
//   - limit: load slots, the retry budget, the breaker; how much runs in the background
//   - origin: the state of the origin, as loads find it: since when they fail, and since
//     when they are slow; rations attempts at failed keys; how often a load brings another
//     value
//   - link: the state of the bus: connected or silent, missed messages, heartbeats
//   - l2: the tier and the bus of one cache: breakers, pending drops, announcements,
//     health, waits for leases
//   - retry: the queue of drops that L2 has not confirmed
//   - envelope: the header around a value in L2
//   - entryrules: the rules for stores under one key, as a pure function: values,
//     leases, tokens, holds
//   - lossy: finds the fields of a type that an encoding leaves out
//   - explain: tells the state of one key of a cache, and in words the result that a
//     read of it would have
package cache
