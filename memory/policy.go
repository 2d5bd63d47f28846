package memory

import "github.com/strata-cache/strata/internal/cache/evict"

// Policy is an eviction policy: it decides which entries make room for others. The
// zero value is A3FIFO.
type Policy = evict.Policy

// The policies. A cache of more than 1023 entries is divided into up to 4 parts
// per processor, rounded up to a power of two, of at least 512 entries or units of
// MaxWeight. The policy decides for each part. Sets of keys that are in the cache count as uses.
const (
	// A3FIFO is the default, made for traffic of any kind: it keeps what is used
	// often or soon again, and scans and loops do not flush it. Hits take no lock.
	A3FIFO = evict.A3FIFO
	// LRU evicts the entry whose last use is the longest ago. Choose it if a key
	// that was used a moment ago is the likeliest to be used next, or to
	// compare with other caches. A scan of more keys than fit evicts everything.
	// Each hit takes a lock.
	LRU = evict.LRU
	// LFU evicts the entry with the fewest uses since it came, of several the one
	// whose last use is the longest ago. Choose it if the popular keys stay the
	// same for good: what was popular once stays, whether used again or not, and new
	// keys evict each other. Each hit takes a lock.
	LFU = evict.LFU
	// FIFO evicts the entry that came first, used or not. Choose it if what is
	// old is of no use, as in a window of recent messages. Hits take no lock.
	FIFO = evict.FIFO
	// Random evicts any entry, all with the same probability. Choose it if keys are
	// used equally often, or as the measure that a policy should beat. Hits take
	// no lock.
	Random = evict.Random
)

// Pinned is a weight, as a result of Options.Weigh, of an entry that is never evicted: it
// stays until it expires, or its key is deleted or set again. It counts as 1, so pinned
// entries are bounded as all others. If they leave no room for a new entry, that is not
// stored. A Resize to less than their number lets them be evicted.
const Pinned = evict.Pinned
