// Package evict decides which entries of a shard leave, and when: by a policy when
// room is needed, by default A3-FIFO, and by a timing wheel when their deadline has passed.
// It knows entries by their heads, so that its code is compiled once for all types of
// keys and values, and stores no entry itself.
//
// # A3-FIFO
//
//	new key ──► small ──hit twice──► main ◄─┐ hit: counter lowered, to the tail
//	              │                   │     │
//	        not hit                not hit──┘
//	              ▼                   ▼
//	           ghosts ◄───────────────┘      evicted; the key is remembered
//	              │
//	              └─ comes back sooner than main's victim was idle ──► main
//
// A3-FIFO is S3-FIFO (Yang, Zhang, Qiu, Yue, Vinayak, "FIFO queues are all you need
// for cache eviction", SOSP 2023) with four changes:
//
//   - Fill rule: while main is below its target, the small queue overflows into main.
//     Plain S3-FIFO starts as one queue, and stays so on loops and scans. If weights are
//     counted, the rule ends when the cache is full: later holes are left by heavy
//     entries, and unproven ones would fill main with each of them.
//   - Guarded promotion: a key that comes back enters main only if it was away for a
//     shorter time than main's victim was idle. LIRS and CLOCK-Pro compare the same
//     times.
//   - Adaptive small queue, from 1 to 99 percent of the entries in a full shard, or of its part of the
//     bound in one with room: a key that comes back and that a
//     slightly larger small queue would have kept makes it larger; a key that a
//     slightly larger main queue would have kept makes it smaller. While main's victims
//     stay away, each key that a small queue of any length would have kept makes it larger. In a
//     large shard it grows by more than one entry at a time, unless main's victims come back.
//   - Brake: while four of five promoted entries leave main without a hit, and main's
//     victims come back, one promotion in 64 passes. Sweeps back and forth are such.
//
// If weights are counted, a full shard refuses heavy entries at first sight
// (Order.Refuses), and takes them when they come back.
//
// All of this is work of misses. A hit adds one to a counter of two bits, and nothing
// once the counter is full.
//
// # Other policies
//
// FIFO and random ignore hits. LRU and LFU listen: each hit must reach their lists at
// once, under the shard's mutex, so the counters of their entries stay at zero. They evict
// in their order, whether an entry is dead or not.
package evict
