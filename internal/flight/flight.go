package flight

import (
	"context"
	"errors"
)

// errAbandoned cancels the context of a flight that nobody waits for, with
// CancelAbandoned.
var errAbandoned = errors.New("flight: every caller has left")

// Result is what a flight brings its callers.
type Result[V any] struct {
	Value V
	Err   error
	// Found is false when the flight only read and there was nothing.
	Found bool
	// Note is the leader's word on the value, for all callers.
	Note uint8
	// Offered says that this is what the flight has offered, to a caller that
	// waited no longer; see [Group.Offer].
	Offered bool
	// Tags are those of the value, and TagWatermark is the word of tags from before it
	// was read: callers who have joined judge the value by them.
	Tags         []string
	TagWatermark uint64
	// Instead is the error that a stale Value stands in for, if it does.
	Instead error
}

// Patience is for how long a caller waits for a flight that has offered something.
// The zero Patience waits until the flight has landed.
type Patience struct {
	// Soft ends, before the caller's own context, when the caller takes what is
	// offered. Nil means never.
	Soft context.Context
	// Good reports whether what was offered until some time may be taken still. The
	// tags are those of [Result].
	Good func(until int64, tags []string, tagWord uint64) bool
	// Registered, if not nil, is called when the caller has a flight, which it
	// leads or has joined: from then on Running tells of that.
	Registered func()
}

// soft is the context for what is done on the caller's own goroutine.
func (p Patience) soft(ctx context.Context) context.Context {
	if p.Soft != nil {
		return p.Soft
	}
	return ctx
}

// offer is what callers may take that do not wait until the flight lands.
type offer[V any] struct {
	result Result[V]
	until  int64
}

// Flight is one shared attempt to get a key. Who leads it calls [Group.Land]
// exactly once.
type Flight[K comparable, V any] struct {
	// Key is what the flight is to bring.
	Key K
	// Stamp is the word that was current when the flight was registered, so
	// before it read anything. A reload gets another when its load begins.
	Stamp uint64

	ctx    context.Context         // nil until launched
	cancel context.CancelCauseFunc // guarded, as below; nil until launched
	node   Node
	done   chan struct{} // closed when landed; nil until somebody waits
	result Result[V]     // written before done is closed
	home   *shard[K, V]  // a NaN hashes to another one each time
	kind   Kind
	turn   chan struct{} // of a reload: closed when it is its turn
	behind *Node         // of the load that a reload has to wait for; nil if none
	queued bool          // see Queued

	// Guarded by the mutex of the flight's shard.
	after   *Flight[K, V] // the load that a reload waits for; nil from its turn on
	pending bool          // a reload whose load has not begun: fences do not detach it
	waiters int           // callers who wait now
	joined  int           // callers who ever waited
	fenced  bool          // has lost the right to store
	kept    bool          // goes on when every caller has left
	refused bool          // by its leader, which would wait for itself
	endless bool          // see Group.Waiting
	urged   bool          // a caller inside a load waits for it
	urgent  chan struct{}
	offered *offer[V]     // nil if nothing is
	offers  chan struct{} // closed when something is; nil until somebody waits for that
	batch   func()        // urges the batch that the flight belongs to; nil if none
	crowd   *crowd        // nil until somebody asks
}

// Kind keeps flights apart that must not be joined by the same callers.
type Kind uint8

// The kinds of flights.
const (
	// Load runs the loader if it must.
	Load Kind = iota
	// Read looks at the tiers only.
	Read
	// Reload runs the loader whatever is cached, when no older load of the key can
	// be joined any more. It is joined by those who ask for a Reload until its load
	// begins, see [Group.Start], and by those who ask for a Load from its turn on.
	Reload
	kinds
)

// Context is the context for what [Leader] does in Then. It carries the values of
// the caller who leads, and is cancelled when the group is closed; with
// CancelAbandoned also when every caller has left, unless the flight is kept.
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
