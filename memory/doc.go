// Package memory is a bounded in-process cache. Its reads and writes need no
// context and return no errors. It is the engine of strata, for programs that
// need no loader and no shared tier.
//
//	cache, err := memory.New(memory.Options[string, User]{MaxEntries: 50_000, TTL: time.Minute})
//	if err != nil {
//		return err
//	}
//	defer cache.Close()
//
//	cache.Set("ada", user)
//	user, ok := cache.Get("ada")
//
// # Reads
//
// Get takes no lock (with LRU and LFU one per hit), allocates nothing, and, while reads
// are frequent, makes no system call for the time. It returns the stored value, not a copy: all
// readers share the memory that a value points to, and must not write to it.
//
// # Bounds
//
// A cache is always bounded, by a number of entries, by a weight, or by both.
// The bound is exact for the cache as a whole: with MaxEntries 1000 a cache
// keeps 1000 entries, for any set of keys. It is never exceeded, not even for a
// moment.
//
// An entry with the weight Pinned is never evicted, but expires as any other. Pinned
// entries count against the bounds, and an entry that does not fit beside them is not
// stored.
//
// # Eviction
//
// Options.Policy is one of
//
//	         a hit takes  evicts first
//	A3FIFO   no lock      entries neither used often nor used again soon
//	LRU      a lock       the entry with the oldest last use
//	LFU      a lock       the entry with the fewest uses since it came
//	FIFO     no lock      the oldest entry
//	Random   no lock      any entry
//
// The default is A3-FIFO. A new key enters a small queue. If it is hit there twice, it
// goes on to the main queue; if not, it makes room for others, and is remembered. The
// main queue gives an entry a second chance for each recent hit.
//
//	new key ──► small ──hit twice──► main ◄─┐ hit: to the tail again
//	              │                   │     │
//	        not hit                not hit──┘
//	              ▼                   ▼
//	            evicted, and the key remembered
//
// A remembered key that comes back sooner than the oldest of main was read goes to main
// at once. Such keys also set the size of the small queue, between 1 and 99 percent. So
// a scan passes through the small queue, and a loop over more keys than fit still has
// some hits. A hit costs the policy at most one write to a counter in the entry.
// Expired entries are evicted before others.
//
// With a MaxWeight, a full cache does not take a new entry of more than a hundredth of
// its part at first sight: it would push out many that are in use. It takes the entry
// when its key is set again soon, as programs do that load what they miss. Present keys
// and pinned entries are always stored.
//
// By default a Set that needs room evicts only enough for its own entry.
// Options.EvictShare makes it evict a share of the cache, so that the next Sets evict
// nothing.
//
// # Bytes
//
// A [ByteCache] keeps byte slices outside of the collector's sight: with millions of entries a
// collection takes no longer than with none. It is bounded by the memory that it takes, tables
// included. Each read copies the value.
//
// # Memory of the process
//
// A [Guard] makes any number of caches smaller while the heap of the process is too large for its
// limit: GOMEMLIMIT, or the limit of its container. With one, bounds may be generous.
//
// # Time
//
// An entry is never served at or after its deadline, by the monotonic clock;
// while reads or stores are frequent, the clock may be up to a millisecond late, for
// the begin of a life as well. The memory of an entry is freed within two seconds after the deadline. A change
// of the wall clock has no effect. With Options.IdleTTL each entry also has an earlier
// deadline, which every read defers.
//
// # Callbacks
//
// No lock is held while a function of the user runs, so each function may call
// the cache. The effect of a panic is documented with each function; none can
// damage the cache.
//
// # Caveats
//
// Close the cache when it is no longer needed: while it contains entries with a
// deadline, a goroutine keeps it alive.
//
// A string key of up to 32 bytes is copied into its entry. A program that keeps such
// a key from OnEvict or from an iteration keeps the value in memory with it, unless
// it clones the key.
//
// This package has no loading, and so no protection from many callers that miss
// the same key at once. strata.Cache provides both.
package memory
