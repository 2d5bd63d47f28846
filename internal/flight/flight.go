package flight

import (
	"context"
	"errors"
)

// errAbandoned cancels the context of a flight that nobody waits for.
var errAbandoned = errors.New("flight: every caller has left")

// Result is what a flight brings its callers.
type Result[V any] struct {
	Value V
	Err   error
	// Found is false when the flight only read and there was nothing.
	Found bool
	// Note is the leader's word on the value, for all callers.
	Note uint8
}

// Flight is one shared attempt to get a key. Who leads it calls [Group.Land]
// exactly once.
type Flight[K comparable, V any] struct {
	// Key is what the flight is to bring.
	Key K
	// Stamp is the word that was current when the flight was registered, so
	// before it read anything.
	Stamp uint64

	ctx    context.Context         // nil until launched
	cancel context.CancelCauseFunc // guarded, as below; nil until launched
	node   Node
	done   chan struct{} // closed when landed; nil until somebody waits
	result Result[V]     // written before done is closed
	kind   Kind
	home   *shard[K, V] // a NaN hashes to another one each time
	batch  func()       // urges the batch that the flight belongs to; nil if none

	// Guarded by the mutex of the flight's shard.
	waiters int  // callers who wait now
	joined  int  // callers who ever waited
	fenced  bool // has lost the right to store
	kept    bool // goes on when every caller has left
	urged   bool // a caller inside a load waits for it
	urgent  chan struct{}
}

// Kind keeps flights apart that must not be joined by the same callers.
type Kind uint8

// The kinds of flights.
const (
	// Load runs the loader if it must.
	Load Kind = iota
	// Read looks at the tiers only.
	Read
	kinds
)

// Context is the context for what [Leader] does in Then. It carries the values of
// the caller who leads, and is cancelled when every caller has left (unless the
// flight is kept) or the group is closed.
func (f *Flight[K, V]) Context() context.Context { return f.ctx }

// await makes the channel that waiters wait for. The shard's mutex is held, and
// the flight has not landed: it is joinable, or about to be launched.
func (f *Flight[K, V]) await() {
	if f.done == nil {
		f.done = make(chan struct{})
	}
}

// end cancels the flight's context, if it has one. The shard's mutex is held.
func (f *Flight[K, V]) end(cause error) {
	if f.cancel != nil {
		f.cancel(cause)
	}
}
