package memory

import "github.com/strata-cache/strata/internal/cache/evict"

// Policy is an eviction policy: it decides which entries make room for others. The
// zero value is A3FIFO.
type Policy uint8

// String returns the name of the policy as it is usually written.
func (p Policy) String() string { return evict.Policy(p).String() }

// The policies. A cache of more than 1023 entries is divided into up to 4 parts
// per processor, rounded up to a power of two, of at least 512 entries. With a MaxWeight the
// entries that the cache holds are counted, and without one those that it may hold when it
// is made; Resize does not change the number of parts. The
// policy decides for each part. A Set of a key with an entry counts as a use.
const (
	// A3FIFO is the default, made for traffic of any kind. It keeps the entries used
	// often or used again soon, and scans and loops do not flush it. If weights are bounded,
	// a full cache takes an entry of more than 1 % of its part, and of twice the mean weight,
	// only when its key is set again soon enough; see Set. Hits take no lock.
	A3FIFO Policy = iota
	// LRU evicts the entry with the oldest last use. Choose it if the key used a moment
	// ago is the likeliest to be used next, or to compare with other caches. A scan of
	// more keys than fit evicts everything. Each hit takes a lock.
	LRU
	// LFU evicts the entry with the fewest uses since it came, and of several such
	// entries the one with the oldest last use. Choose it if the popular keys stay the
	// same for good: once popular, an entry stays, whether used again or not, and new
	// keys evict each other. Each hit takes a lock.
	LFU
	// FIFO evicts the entry that came first, used or not. Choose it if old entries are
	// of no use, as in a window of recent messages. Hits take no lock.
	FIFO
	// Random evicts any entry, all with the same probability. Choose it if keys are
	// used equally often, or as the measure that a policy should beat. Hits take
	// no lock.
	Random
)

// Pinned is the weight that Options.Weigh returns for an entry that the cache must not
// evict. The entry stays until it expires, or its key is deleted or set again. It counts
// as 1, so that pinned entries are bounded, too. A new entry for which they leave no room
// is not stored. A Resize to less than their number lets them be evicted.
const Pinned = -1
