package expiry

import "time"

// None is a window of [Own] without length.
const None time.Duration = -1

// Own are the lives that one value has instead of the lives in the cache's Options.
// In each field zero stands for the Options, [None] for no time at all. An Own is not
// changed once it is part of an entry.
type Own struct {
	// Revalidate and OnError are the two windows after the end of the TTL.
	Revalidate, OnError time.Duration
	// Memory is the longest life in L1.
	Memory time.Duration
}

// Windows returns the windows of a value: the window of o, which may be nil, where it
// has one, else the given window.
func (o *Own) Windows(revalidate, onError time.Duration) (r, e time.Duration) {
	if o == nil {
		return revalidate, onError
	}
	return own(o.Revalidate, revalidate), own(o.OnError, onError)
}

// Longest returns the longest life in L1: d, or less. o may be nil.
func (o *Own) Longest(d time.Duration) time.Duration {
	if o == nil || o.Memory == 0 {
		return d
	}
	return min(d, max(0, o.Memory))
}

// With returns o with the non-zero fields of other. Either may be nil; neither is
// changed.
func (o *Own) With(other *Own) *Own {
	switch {
	case o == nil:
		return other
	case other == nil:
		return o
	}
	return &Own{
		Revalidate: orElse(other.Revalidate, o.Revalidate),
		OnError:    orElse(other.OnError, o.OnError),
		Memory:     orElse(other.Memory, o.Memory),
	}
}

// Equal reports whether the lives are the same. Either may be nil.
func (o *Own) Equal(other *Own) bool {
	return o == other || o != nil && other != nil && *o == *other
}

func own(d, otherwise time.Duration) time.Duration { return max(0, orElse(d, otherwise)) }

func orElse(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}
