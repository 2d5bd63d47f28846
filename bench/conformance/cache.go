package conformance

import "context"

// Load gets the value from the origin.
type Load func(ctx context.Context) (string, error)

// Cache is the adapter of a library: the calls that scenarios make. It must add
// no behaviour of its own, or the grade would be the adapter's.
type Cache interface {
	// Get returns the value of key, from the cache or by load.
	Get(ctx context.Context, key string, load Load) (string, error)
	// Invalidate makes key absent, by the means that the library offers for it.
	Invalidate(ctx context.Context, key string) error
	// Close lets the cache go. It is not called after a hang.
	Close()
}

// Library is one library, or one way to set it up.
type Library struct {
	// Name is its column in the table.
	Name string
	// Open returns an empty cache with room for a few keys, which live for at
	// least a minute.
	Open func() (Cache, error)
	// Forgets says that it keeps no values. A later read then tells nothing
	// about earlier ones.
	Forgets bool
}
