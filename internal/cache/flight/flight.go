// The flight: the shared work for one key, as parts with one purpose each.
//
// States: led (First runs on the leader's goroutine), launched (Then runs on its
// own goroutine), landed. A reload is queued between led and launched. Across
// these: joinable until detached, and with or without the right to store.
//
// Invariant: a flight lands once, and is detached when it lands. A flight without
// the right to store does not get it back, except a reload when its load begins.

package flight

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"

	"github.com/strata-cache/strata/internal/cache/limit"
)

// errAbandoned cancels the context of a flight without callers, with
// CancelAbandoned.
var errAbandoned = errors.New("flight: every caller has left")

// Result is the answer of a flight to its callers.
type Result[V any] struct {
	Value V
	Err   error
	// Found is false if the flight only read and there was no value.
	Found bool
	// Note is a remark of the leader about the value, for all callers.
	Note uint8
	// Offered says that this is an offer of the flight, which a caller has taken
	// instead of waiting longer; see [Group.Offer].
	Offered bool
	// Shared says that several callers get the result.
	Shared bool
	// Beside says that Load ran for another flight, with which this one was gathered.
	Beside bool
	// Newer says that the flight brings the answer of its Loader, or a value that a refresh has found in L2: values that
	// others have read meanwhile count as older.
	Newer bool
	// Tags are the tags of the value, and TagWatermark is the generation of tags from
	// before the value was read. Callers that have joined judge the value by them.
	Tags         []string
	TagWatermark uint64
	// Instead is the error in place of which a stale Value is served; else nil.
	Instead error
	// Times are the times of the value.
	Times Times
	// Load is the context of the load that has brought the result, for traces; nil without a
	// load, or if the load is not traced.
	Load context.Context
}

// Times are points of time in the life of a value, for the callers of a flight.
type Times struct {
	// Fresh is the time until which the value is fresh, Born the time of its load.
	// Zero if they are not known.
	Fresh, Born int64
}

// Patience limits the time that a caller waits for a flight that has made an offer.
// The zero Patience waits until the flight has landed.
type Patience struct {
	// Soft ends, before the caller's own context, when the caller takes an offer.
	// Nil means never.
	Soft context.Context
	// Good reports whether an offer, good until a given time, may still be taken. The
	// note and the tags are the fields Note and Tags of the [Result].
	Good func(until int64, note uint8, tags []string, tagWatermark uint64) bool
	// Registered, if not nil, is called when the caller has a flight, which it
	// leads or has joined: from then on Running counts that flight.
	Registered func()
}

// soft is the context of work on the caller's own goroutine.
func (p Patience) soft(ctx context.Context) context.Context {
	if p.Soft != nil {
		return p.Soft
	}
	return ctx
}

// Flight is one shared attempt to get a key. Its leader calls [Group.Land] exactly
// once.
type Flight[K comparable, V any] struct {
	// Key is the key that the flight gets.
	Key K
	// Stamp is the generation at the registration of the flight, so before it read
	// anything. A reload gets another stamp when its load begins.
	Stamp uint64

	home   *shard[K, V] // kept here because a NaN hashes to another shard each time
	kind   Kind
	fenced bool // has lost the right to store; guarded by the mutex of home
	// notKept says that its result is in no tier; written by the insert of Land.
	notKept bool
	node    Node
	batch   *Batch[K, V] // that the flight belongs to; nil if none
	// gathered is the batch that runs the load of a flight launched alone; nil if none
	// does. Guarded by the mutex of home.
	gathered *Batch[K, V]
	place[K, V]
	execution
	outcome[V]
	queue[K, V]
	audience
	urgency
}

// execution is the context of a launched flight, and whether others may keep it.
type execution struct {
	// scope is the context; nil until the flight is launched. Guarded by the shard's
	// mutex before.
	scope   *limit.Scope
	counted bool // its batch waits for it; guarded by the shard's mutex
	// shared says that others than its leader know the flight. It is guarded by the
	// shard's mutex until the flight has landed.
	shared bool
	// users counts the goroutines that look at the flight: the goroutine of the
	// leader, and the one on which the flight runs. Zero until it is launched.
	users atomic.Int32
}

// outcome is the way from a flight to its callers.
type outcome[V any] struct {
	// done is closed when the flight has landed, or when the group is closed: then it
	// is deserted, and its callers get no result. Nil until a caller has joined. The
	// caller that leads has a bell instead, which is rung at the same time.
	done     chan struct{}
	bell     bell      // nil until the flight was launched for the first time
	listens  bool      // a caller waits for the bell; guarded by the shard's mutex
	result   Result[V] // written before done is closed
	deserted bool      // likewise
	woken    bool      // guarded by the shard's mutex: callers wait no longer

	// Guarded by the shard's mutex.
	offered *offer[V]     // nil if the flight offers nothing
	offers  chan struct{} // closed by an offer; nil until a caller waits for one
}

// bell tells the caller that leads that a flight has landed. It stays with the memory
// of the flight; see [Flight.Reuse].
type bell chan struct{}

// offer is a result for callers that do not wait until the flight lands.
type offer[V any] struct {
	result Result[V]
	until  int64
}

// audience counts the callers of a flight. The shard's mutex guards it.
type audience struct {
	waiters  int       // callers that wait now
	joined   int       // callers that ever waited
	presence *presence // nil until it is asked for
	kept     bool      // continues when every caller has left
	refused  bool      // by its leader, which would wait for itself
	refresh  bool      // its leader is no caller; set with presence
	endless  bool      // see Group.Waiting
}

// urgency tells whether a caller inside a load waits for a flight. The shard's mutex
// guards it.
type urgency struct {
	urgent chan struct{} // closed once urged; nil until it is asked for
	urged  bool
}

// Kind separates flights that the same callers must not join.
type Kind uint8

// The kinds of flights.
const (
	// Load runs the loader if it must.
	Load Kind = iota
	// Read looks at the tiers only.
	Read
	// Reload runs the loader without regard to cached entries, once no older load of
	// the key can be joined. Callers that ask for a Reload join it until its load
	// begins, see [Group.Start]. Callers that ask for a Load join it from its turn on.
	Reload
	kinds
)

// Context is the context for Then of the [Leader]. It carries the values of the
// caller that leads, and is cancelled when the group is closed; with
// CancelAbandoned also when every caller has left, unless the flight is kept.
func (f *Flight[K, V]) Context() *limit.Scope { return f.scope }

// Inside reports whether the flight, which was launched, was begun inside a load.
func (f *Flight[K, V]) Inside() bool { return f.node.outer != nil }

// await makes the channel that callers wait for. The shard's mutex is held, and
// the flight has not landed: it is joinable, or about to be launched.
func (f *Flight[K, V]) await() {
	if f.done == nil {
		f.done = make(chan struct{})
	}
}

// end cancels the flight's context, if it has one. The shard's mutex is held.
func (f *Flight[K, V]) end(cause error) {
	if f.scope != nil {
		f.scope.End(cause)
	}
}

// desert ends the flight, and the waiting of its callers, because the group is
// closed. The shard's mutex is held, and the flight has not landed.
func (f *Flight[K, V]) desert() {
	f.end(ErrClosed)
	if f.scope != nil || f.done != nil { // else no caller waits yet
		f.wake(true)
	}
}

// wake ends the waiting of the callers, unless it has ended. The shard's mutex is held.
func (f *Flight[K, V]) wake(deserted bool) {
	if !f.woken {
		f.woken, f.deserted = true, deserted
		if f.done != nil {
			close(f.done)
		}
	}
	if f.listens {
		f.bell <- struct{}{}
		f.listens = false
	}
	if f.counted {
		f.counted = false
		f.batch.woken()
	}
}

// leave notes that one of the flight's users has ceased to look at it, and reports
// whether it was the last.
func (f *Flight[K, V]) leave() (last bool) { return f.users.Add(-1) == 0 }

// Reuse makes f a zero Flight again, for another key, and reports true. It reports false, and
// leaves f alone, if callers other than the leader may still know f. It is called when no user
// looks at f any more: f has landed, or was never led.
func (f *Flight[K, V]) Reuse() bool {
	if f.shared {
		return false
	}
	select {
	case <-f.bell: // a caller that has left did not take the ring
	default:
	}
	*f = Flight[K, V]{outcome: outcome[V]{bell: f.bell}}
	return true
}

// isWoken reports whether the callers have ceased to wait.
func (f *Flight[K, V]) isWoken() bool {
	f.home.mu.Lock()
	defer f.home.mu.Unlock()
	return f.woken
}

// The running flights of a shard are in a hash table whose chains run through the flights
// themselves, so that a flight costs no memory, and no work in a map, to come and go.
//
// Invariant: a flight is in the table from its registration until it has landed. A key that does
// not equal itself, such as a NaN, is never found, and leaves the table as others do.

// leastChains is the smallest number of chains of a table that is in use, keptChains the number to
// which it may shrink: a batch of 500 keys makes no table anew each time. Both are powers of two.
const leastChains, keptChains = 8, 64

// running is a table of flights. The zero running is empty. The mutex of the shard guards it.
type running[K comparable, V any] struct {
	chains []*Flight[K, V] // their first flights; a power of two, or none
	n      int
}

// place is the place of a flight among the running flights of its shard. The shard's
// mutex guards it.
type place[K comparable, V any] struct {
	next, previous *Flight[K, V]
	hash           uint64
	joinable       [kinds]bool // callers of these kinds may join it
}

// isJoinable reports whether callers of any kind may join the flight.
func (p *place[K, V]) isJoinable() bool { return p.joinable != [kinds]bool{} }

// chain returns the place of the first flight among those with hash.
func (r *running[K, V]) chain(hash uint64) **Flight[K, V] {
	return &r.chains[hash>>shardBits&uint64(len(r.chains)-1)]
}

// enter puts f, which has its hash, into the table.
func (r *running[K, V]) enter(f *Flight[K, V]) {
	if r.n >= len(r.chains) {
		r.resize(max(leastChains, 2*len(r.chains)))
	}
	r.n++
	r.link(f)
}

func (r *running[K, V]) link(f *Flight[K, V]) {
	first := r.chain(f.hash)
	if f.next = *first; f.next != nil {
		f.next.previous = f
	}
	*first = f
}

// exit undoes enter.
func (r *running[K, V]) exit(f *Flight[K, V]) {
	if f.next != nil {
		f.next.previous = f.previous
	}
	if f.previous != nil {
		f.previous.next = f.next
	} else {
		*r.chain(f.hash) = f.next
	}
	f.next, f.previous = nil, nil
	if r.n--; len(r.chains) > keptChains && r.n <= len(r.chains)/8 {
		r.resize(len(r.chains) / 2)
	}
}

// resize spreads the flights over n chains.
func (r *running[K, V]) resize(n int) {
	old := r.chains
	r.chains = make([]*Flight[K, V], n)
	for _, f := range old {
		for f != nil {
			next := f.next
			f.previous = nil
			r.link(f)
			f = next
		}
	}
}

// all iterates over all flights. They may be changed meanwhile, not removed.
func (r *running[K, V]) all() iter.Seq[*Flight[K, V]] {
	return func(yield func(*Flight[K, V]) bool) {
		for _, f := range r.chains {
			for ; f != nil; f = f.next {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// of iterates over the flights of key that callers of any kind may join.
func (r *running[K, V]) of(key K, hash uint64) iter.Seq[*Flight[K, V]] {
	return func(yield func(*Flight[K, V]) bool) {
		if r.n == 0 {
			return
		}
		for f := *r.chain(hash); f != nil; f = f.next {
			if f.hash == hash && f.isJoinable() && f.Key == key && !yield(f) {
				return
			}
		}
	}
}

// find returns the flight of key that callers of that kind join; nil if there is none.
func (r *running[K, V]) find(kind Kind, key K, hash uint64) *Flight[K, V] {
	if r.n == 0 {
		return nil
	}
	f := *r.chain(hash)
	for f != nil && (!f.joinable[kind] || f.hash != hash || f.Key != key) {
		f = f.next
	}
	return f
}
