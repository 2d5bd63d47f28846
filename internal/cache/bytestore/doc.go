// Package bytestore keeps keys and values as bytes in memory without pointers, so that the
// garbage collector does not look at them, however many they are.
//
// A store is split into shards, each with a lock, an index and two queues of chunks:
//
//	new key ──► small ──read──► main ◄─┐ read: stays
//	              │               │    │
//	          not read        not read─┘
//	              ▼               ▼
//	            gone, and the key remembered
//
// A chunk has many entries, one behind the other; an entry of a quarter of a chunk or more has a
// chunk of its own. Without room for a new entry the oldest chunk of a queue is swept: the entries
// of it that were read move up to its beginning, and the rest of it is room again. So no entry is
// copied more than once in a lap of its queue, and entries need no order of their own. This is
// S3-FIFO (Yang et al., SOSP 2023) by chunks in place of entries.
//
// A chunk makes room as a whole, so a shard needs a good number of them. Their size follows the bytes that the shards may have: by the
// budget, or by the debts of a guard. If new chunks are smaller than before, the entries of a shard move to such, and when the
// store has grown again new chunks are larger.
//
// The index of a shard is an open table of 64-bit slots, with linear probing. A slot has the place
// of an entry, 30 bits of the hash of its key, and a count of its reads. The key behind a slot is
// always compared.
//
// Invariant: a slot names an entry, and each entry that a slot names is whole and has the key with
// the hash of the slot. An entry that no slot names is garbage until its chunk is swept.
// Invariant: the memory of chunks and tables, and of the store itself, is within the budget.
package bytestore
