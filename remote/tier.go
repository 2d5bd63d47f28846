package remote

import (
	"context"
	"errors"
	"time"
)

// Errors of a Tier that the cache distinguishes. All others mean that the tier
// did not answer.
var (
	// ErrRefused is matched, by errors.Is, by the error of a Tier if its store
	// has answered and refused the operation, for instance because its memory
	// is full or a right is missing. The cache still reads from a store that
	// refuses writes.
	ErrRefused = errors.New("remote: refused")
	// ErrKeyTooLong is returned when a key is longer than the tier can store.
	// Nothing was sent.
	ErrKeyTooLong = errors.New("remote: key too long")
	// ErrMoved is matched, by errors.Is, by the error of an operation that reached a
	// server with a successor: another server has taken its place, or may have, whether
	// the old one executed the operation or refused it. The cache then sends a drop
	// again.
	ErrMoved = errors.New("remote: another server has taken over")
	// ErrValueTooLarge is returned when a value is larger than the tier can
	// store. Nothing was sent.
	ErrValueTooLarge = errors.New("remote: value too large")
)

// Tier is a store that all instances of a cache share. It holds bytes, which it
// does not interpret, and leases, which are the right to replace them.
//
// Methods are safe for concurrent use and return when their context ends.
// Result i belongs to argument i. A Tier does not keep the slices of its
// arguments after a call, and the caller owns the slices that it returns.
//
// An error means that the outcome is unknown, never that a value is absent.
// Data that the Tier cannot read, because it is damaged or was written by
// another program, is reported as absent.
//
// Every Tier has all of these methods: any store with compare-and-swap on one
// item can offer them, by package castier. In six abilities stores differ.
// They are interfaces of their own, which a cache looks for with [As]:
// [Binder], [Tagger], [Announcer], [Mover], [Fleet] and [Prober].
type Tier interface {
	// Get reads values with their states in one round trip, large ones in two if the
	// store has to. The result has one Held per key; a Held without Data means absent,
	// unless it is Same. known is empty, or has the ID of a value that the caller has
	// for each key, zero for none; the tier may leave out the Data of a value with the
	// same bytes, in no more round trips. Get, Put, Drop, and the methods of a
	// [Tagger], return [KeyErrors] if they have failed for some keys only.
	Get(ctx context.Context, keys []string, known ...ID) ([]Held, error)

	// Acquire requests the leases of keys, for at most d, in one round trip. If
	// a key holds a fresh value, Acquire returns the value and grants no lease,
	// unless the request replaces that value. A stale value, or one to be
	// replaced, is returned with the lease; without a lease its Data may be
	// missing. A Get before Acquire is not required. Of two requests for one key
	// at most one is granted a lease.
	//
	// The store grants no lease, as far as it can tell, if it executes the
	// request after the deadline of ctx: the caller has left, and other instances
	// would wait for the lease in vain.
	//
	// An error concerns all requests. If only some requests fail, such as the requests
	// to one server of several, Acquire reports that in their results. With an error
	// for all, the leases granted to the other requests would be lost.
	Acquire(ctx context.Context, r []Request, d time.Duration) ([]Acquired, error)

	// Put stores values, each under a lease, or under a token from Drop. It
	// consumes the lease or token. Under a token, or with Drops, it voids all
	// leases on the key and makes the values of other schemas absent, because
	// they are older. If Left is not positive, nothing is held afterwards. Put returns
	// the indexes of the refused values: they were not stored, because their lease or
	// token was void.
	Put(ctx context.Context, p []Put) (refused []int, err error)

	// Drop makes keys absent, or stale if Soft, for all schemas, and voids
	// every lease and token on them. A requested token is returned in the Lease
	// of the same index. When Drop returns nil, the drop has taken effect, and
	// has been announced if the Tier is an [Announcer] that announces.
	Drop(ctx context.Context, d []Drop) ([]Lease, error)

	// Extend gives the held value of key a new life without sending the value
	// again, after an origin has answered "not modified". From then on the ID
	// of the value is the token of the lease, as after a Put. Extend is refused
	// if the lease is void or the held value has another ID.
	Extend(ctx context.Context, key string, fresh, left time.Duration, l Lease, id ID) (refused bool, err error)

	// Release ends a lease on key before it runs out, so that no instance waits for a
	// failed load. The error is nil for a void lease.
	Release(ctx context.Context, key string, l Lease) error

	// Renew lets a lease on key run for d from now, while a long load runs, and
	// reports whether it did. False means that the lease is void, or that the
	// store cannot prolong it: the cache does not ask again, the load goes on, and
	// the store decides on its Put as on any other.
	Renew(ctx context.Context, key string, l Lease, d time.Duration) (renewed bool, err error)

	// DropAll makes all keys of the namespace absent, or stale if soft, for all
	// schemas, and in constant time. It also reaches values stored later under a lease
	// or token from before it. When DropAll returns nil, it has taken effect for this
	// instance; others may notice up to a second later, unless Recheck is called on
	// their Tiers.
	DropAll(ctx context.Context, soft bool) error

	// Recheck tells a Tier that remembers the namespace state between operations
	// that another instance may have changed it. Operations that begin after
	// Recheck read the state again. Recheck sends no request.
	Recheck()
}

// Reader is a Tier that reads one value into memory of its caller. It is not an
// ability: Read is Get for one key, with fewer allocations. A cache calls it instead of
// Get for single keys if [AsReader] finds it. A [Wrapper] without it gets calls of Get.
type Reader interface {
	// Read returns the same Held as Get for key. Data is in the memory of dst if its
	// capacity is large enough; the content of dst does not matter. The Tier keeps
	// neither dst nor Data after the call. The call ends when ctx ends, or after the
	// timeout. A timeout of zero means none.
	Read(ctx context.Context, timeout time.Duration, key string, dst []byte) (Held, error)
	// Self returns the receiver. A Tier that embeds a Reader has its methods, too, but
	// must not count as one: its Get may do more. Its Self returns the embedded Reader,
	// which shows the difference.
	Self() Tier
}

// Request is a request for the lease of one key.
type Request struct {
	Key string
	// Replace is the ID of a value that counts as stale although it is fresh. Of
	// several instances that refresh the value early, one gets the lease;
	// instances that ask after the value was replaced get the new value. Zero
	// means none.
	Replace ID
	// Known is the ID of a value that the caller has. If the held value has this ID,
	// the Tier may leave out its Data, because the bytes are the same. Zero means none.
	Known ID
}

// Acquired is the result for one [Request].
type Acquired struct {
	Held  Held
	Lease Lease
	// Err means that the outcome of this request is unknown. It is nil unless
	// only some requests of a call have failed.
	Err error
}

// ID identifies one stored value of one key with its life. It is the token of
// the last Put or Extend of the value. Zero means none.
type ID uint64

// Held is the value and state that a Tier holds under a key. The zero Held
// means absent.
type Held struct {
	// Data is the sealed value. Nil means that nothing is held, or that the value is
	// Same. From Acquire it may also mean that only the state is reported.
	Data []byte
	// Same means that the held value has the bytes of the value that the caller
	// knows: it is that value, perhaps extended since, under the same key and in the
	// same schema. A Tier that cannot tell returns Data instead.
	Same bool
	// ID identifies the value. Zero means absent.
	ID ID
	// Fresh is the time for which the value is still fresh. Zero or less means
	// stale: less, if the Tier knows for how long its TTL is over.
	Fresh time.Duration
	// Left is the time until the Tier forgets the value, stale or not.
	Left time.Duration
	// Soft means that the value is stale because a caller expired it, not
	// because its TTL has passed.
	Soft bool
	// All means that the value is Soft because of a soft drop of everything
	// since it was stored, not because of a drop of its key.
	All bool
}

// Absent reports whether nothing is held.
func (h Held) Absent() bool { return h.ID == 0 }

// Grant is the answer to a request for a lease.
type Grant uint8

const (
	// Free means that no lease is needed: the held value is fresh.
	Free Grant = iota
	// Granted means that the caller may load and store.
	Granted
	// Busy means that another holder is loading, for at most Wait.
	Busy
	// OnHold means that the key was invalidated with a hold: callers may load,
	// but must not store the value anywhere until Wait has passed.
	OnHold
)

// Lease is the right to store a value of one key. A drop of the key voids it.
// The zero Lease gives no right.
type Lease struct {
	// Token identifies the lease in the Tier. Zero means none.
	Token uint64
	// State is the namespace state from before the lease was granted, in a
	// format of the Tier. The cache passes it back unread.
	State string
	// Clock is the tag clock of a [Tagger] from before the lease was granted.
	Clock uint64
	// Quiet says that the drop which gave the token has done nothing else: see
	// [Drop]. The Put with the lease says so to the Tier.
	Quiet bool
	// Grant is the answer to the request.
	Grant Grant
	// Wait is the remaining time of another holder's lease, or of the hold.
	Wait time.Duration
}

// Put is one value to store.
type Put struct {
	Key  string
	Data []byte
	// Fresh is the time for which the value is fresh, and Left the time for
	// which it is kept.
	Fresh, Left time.Duration
	// Lease is the right to store, from Acquire or Drop.
	Lease Lease
	// Tags are the tags in Data, for a [Tagger] that must prepare the tags before it
	// stores the value.
	Tags []string
	// Drops means that the Put is also a drop of the key, and is announced as
	// one: the values that other instances hold are older, in all schemas. A
	// Put with the token of a Drop is always also a drop.
	Drops bool
}

// Drop is the drop of one key.
type Drop struct {
	Key string
	// Soft keeps the values but makes them stale.
	Soft bool
	// Left is the time for which values are kept after a soft drop. It never
	// prolongs the life of a value. Zero changes nothing.
	Left time.Duration
	// Hold is the time for which leases are refused after the drop. It never
	// shortens an earlier hold.
	Hold time.Duration
	// Token is the time for which the requested token for a Put is valid. Zero
	// requests no token.
	Token time.Duration
	// Quiet says that a Put with the token follows at once, so that the drop may be left
	// to that Put. A Tier need not do so. If it does, the drop only gives the token, is
	// not announced, and its lease is Quiet. A Put with such a lease is a drop of the key
	// even if it is refused: an [Announcer] announces it, and values from before the drop
	// are not held afterwards. If nothing was stored or dropped since by other callers,
	// nothing is held then.
	Quiet bool
}

// Space is the part of a Tier that belongs to one instance of one cache.
type Space struct {
	// Name is the cache's name, or [SpaceName] of its service and its name. Instances with
	// the same Name share entries. It has up to 193 bytes, and no spaces, control characters
	// and closing braces.
	Name string
	// Schema is the fingerprint of the value type and its codec. Values of
	// different schemas are stored side by side under the same key; a drop
	// removes all of them.
	Schema uint64
	// Instance identifies this instance in messages.
	Instance uint64
}

// SpaceName returns the name under which caches of a service have their part of a Tier and
// a Bus: the service, an opening brace, and the name of the cache. Neither of them may have a
// brace, so that each pair has a name of its own. Without a service it is the name alone.
func SpaceName(service, name string) string {
	if service == "" {
		return name
	}
	return service + "{" + name
}

// Binder is a Tier that several caches can share. Bind returns the view of one
// instance of one cache. Callers use the function [Bind].
//
// Without it, the Tier belongs to one cache: every other cache needs a Tier, and
// a part of the store, of its own.
type Binder interface {
	Bind(s Space) Tier
}

// Tagger is a Tier that can drop groups of entries in constant time. Dropping a
// tag does not change the entries. Instead, a reader of an entry compares the
// drops of its tags with the clock in the lease of its load. The clock counts
// the drops of tags in the namespace; only the store advances it.
//
// Without it, calls with tags fail, and loaded values with tags are returned but not
// stored.
type Tagger interface {
	// DropTags drops tags: entries with one of the tags and an older clock in
	// their lease are absent from now on, or stale if soft.
	DropTags(ctx context.Context, tags []string, soft bool) error
	// Tags returns the drops of each tag, in one round trip. A store that lost them
	// answers as if the drops had just happened.
	Tags(ctx context.Context, tags []string) ([]Tag, error)
}

// Tag is the state of a tag in a [Tagger]: the clock at its last hard drop, and
// at its last soft drop. Zero means never. An entry is absent if Dropped is greater
// than the clock of its load, and stale if Expired is greater.
type Tag struct {
	Dropped, Expired uint64
}

// Announcer is a Tier that counts its drops, can return the [Position] after them, and
// can announce them on the bus. By the position an instance that may have missed
// messages finds the lanes with missed drops.
//
// Without it, the cache publishes its drops on the bus itself, a moment after
// the tier has confirmed them; an instance that may have missed messages
// confirms each of its entries with the tier; and reads that wait for the lease
// of another instance ask again from time to time.
type Announcer interface {
	// Announces reports whether the Tier announces its drops on the bus, each in
	// the same step as the drop, so that the cache does not publish them. Such a
	// Tier also announces each Put under a token, or with Drops, as a drop of its
	// key, because the values that other instances have loaded since the token
	// was granted are older. It also announces that a lease has ended, by a Put,
	// an Extend or a Release, if an instance got the answer Busy meanwhile.
	Announces() bool
	// Position asks the store. A lane that the store has forgotten gets a new lane
	// version. All lanes without a drop may share one version.
	Position(ctx context.Context) (Position, error)
	// Lane returns the lane of key. It sends no request.
	Lane(key string) uint16
	// Changes returns a text that differs after any drop in the store, in any
	// namespace, and after the store was set back. The text belongs to a time
	// during the call, or up to [ChangesAge] before it. While the text stays the
	// same, a cache need not read the position. Empty means that the store cannot
	// tell.
	Changes(ctx context.Context) (string, error)
}

// ChangesAge is the greatest age of a result of [Announcer.Changes].
const ChangesAge = 2400 * time.Millisecond

// Position is the state of all drops of a namespace.
type Position struct {
	// Epoch changes when the store may have lost values or drops: after a
	// restart, after it was set back, or after another server has taken over.
	Epoch string
	// Drops and Expiries count the hard and soft drops of everything.
	Drops, Expiries uint64
	// Clock counts the drops of tags.
	Clock uint64
	// Spread means that the lane versions were read from several servers, and
	// not at one instant.
	Spread bool
	// Lanes are the lane versions of all lanes.
	Lanes []LaneVersion
}

// Mover is a Tier that notices when another server than before answers, or another
// life of the same server. An operation that the old server has confirmed a moment
// ago may be unknown to the new one.
//
// Without it, a cache does not repeat the drops confirmed lately. It is for stores
// whose servers can take over from each other.
type Mover interface {
	// Moves returns the number of times that the Tier has learned of another
	// server. It is counted before a value from that server is returned. Moves sends
	// no request.
	Moves() uint64
}

// Prober is a Tier that can report the condition of its store.
//
// Without it, the log says nothing about settings of the server that weaken the
// promises of a cache, and the count of unreadable values holds only the values that
// the cache itself could not open.
type Prober interface {
	// Probe looks for properties of the store that weaken the promises of a
	// cache. Each warning is a sentence for a log.
	Probe(ctx context.Context) (warnings []string, err error)
	// Foreign returns the number of values that the Tier reported as absent
	// because they were unreadable or written by another program.
	Foreign() uint64
}
