// Package memory is a bounded in-process cache without a context or an error
// on the way: the engine of strata for programs that need nothing else.
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
// Get takes no lock, allocates nothing, and while reads are frequent makes no
// system call for the time either. What it returns is the value that was
// stored, not a copy: values that are or hold pointers are shared by all
// readers and must not be written to.
//
// # Bounds
//
// A cache is always bounded, by a number of entries, by a weight, or by both,
// and the bound is exact for the cache as a whole: MaxEntries 1000 keeps 1000
// entries whatever their keys are. While writers are at work it may be
// exceeded by as many entries as there are writers.
//
// # Time
//
// An entry is never served at or after its deadline, by the monotonic clock;
// while reads are frequent the clock is read up to a millisecond late. Its
// memory is freed within two seconds after. Changing the wall clock changes
// nothing.
//
// # Callbacks
//
// No lock is held while a function of the user runs, so each may call the
// cache. What happens when one misbehaves is said where it is declared; none
// can damage the cache.
//
// # Caveats
//
// Close the cache when it is no longer needed: as long as entries with a
// deadline are in it, a goroutine keeps it alive.
//
// There is no loading here, and thus no protection from many callers that miss
// the same key at once; that is what strata.Cache is for.
package memory
