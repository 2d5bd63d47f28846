package remote

import (
	"context"
	"errors"
	"time"
)

// Errors of a Tier that the cache tells apart. All others count as "the tier
// did not answer".
var (
	// ErrRefused is what the errors of a Tier are, by errors.Is, if its store has
	// answered and would not do what was asked: its memory is full, a right is
	// missing. A store that refuses to store is still asked for what it holds.
	ErrRefused = errors.New("remote: refused")
	// ErrKeyTooLong is returned when a key is longer than the tier can store.
	// Nothing was sent.
	ErrKeyTooLong = errors.New("remote: key too long")
	// ErrValueTooLarge is returned when a value is larger than the tier can
	// store. Nothing was sent.
	ErrValueTooLarge = errors.New("remote: value too large")
)

// Tier is a store that all instances of a cache share. It holds bytes it does
// not understand, and leases that say who may replace them.
//
// Methods are safe for concurrent use, obey their context, and are batch
// first: results line up with arguments. A Tier keeps no slice it was given
// after the call has returned, and the slices it returns belong to the caller.
//
// An error means that the outcome is unknown, never that a value is absent.
// Data that the Tier cannot read (another program wrote it, it is damaged) is
// reported as absent.
type Tier interface {
	// Get reads values with their states in one round trip. The result has
	// one Held per key; one without Data means absent.
	Get(ctx context.Context, keys []string) ([]Held, error)

	// Acquire asks for the right to fill key, for at most d. If the key turns
	// out to hold a fresh value, that is returned and no lease is given. A
	// stale value that is held is returned with the lease; its Data may be
	// missing if no lease is given. It may be asked without a Get before it. A
	// request that the store carries out after ctx's deadline gives no lease, as
	// far as the store can tell: its caller has gone, and others would wait for
	// nobody.
	Acquire(ctx context.Context, key string, d time.Duration) (Held, Lease, error)

	// Put stores values, each under a lease or a token from Drop, which it
	// consumes. Under a token, or with Drops, it voids all leases on the key, and
	// makes the values of other types absent: they are older. Without time left
	// nothing is held afterwards. It reports the indexes of those whose right was
	// gone; these were not stored.
	Put(ctx context.Context, p []Put) (refused []int, err error)

	// Drop makes keys absent, or stale if Soft, for all value types, and voids
	// every lease and token on them. Where a token was asked for, it is
	// returned in the Lease of the same index. When Drop returns nil the drop
	// has happened, and has been announced if the Tier is an [Announcer].
	Drop(ctx context.Context, d []Drop) ([]Lease, error)

	// Extend gives the held value of key new lives without sending it again:
	// the answer "not modified". Its ID is the lease's token from then on, as
	// if it had been put. It is refused when the lease is gone or the held value
	// is not the one with this ID.
	Extend(ctx context.Context, key string, fresh, left time.Duration, l Lease, id ID) (refused bool, err error)
}

// ID names one stored value of one key with its lives: it is the token under
// which the value was put, or extended last. Zero means none.
type ID uint64

// Held is what a Tier holds under a key. The zero Held means absent.
type Held struct {
	// Data is the sealed value. Nil means that nothing was held, or (from
	// Acquire) that only its state is reported.
	Data []byte
	// ID names the value. Zero means absent.
	ID ID
	// Fresh is the time for which the value is still fresh. Zero or less means
	// stale.
	Fresh time.Duration
	// Left is the time until the Tier forgets the value, stale or not.
	Left time.Duration
	// Soft says that the value is stale because it was expired by a caller and
	// not by the passing of time.
	Soft bool
	// All says that it is Soft because everything was expired since it was stored,
	// and not because its key was.
	All bool
}

// Absent reports whether nothing is held.
func (h Held) Absent() bool { return h.ID == 0 }

// Grant is the answer to a request for a lease.
type Grant uint8

const (
	// Free means that no lease was needed: the held value is fresh.
	Free Grant = iota
	// Granted means that the caller may load and store.
	Granted
	// Busy means that another holder is loading; Wait says for how long at
	// most.
	Busy
	// OnHold means that the key was invalidated with a hold: callers may load
	// but must not store anywhere until Wait has passed.
	OnHold
)

// Lease is the right to store a value for one key until a drop voids it. The
// zero Lease is no right.
type Lease struct {
	// Token is what the Tier recognises the right by. Zero means none.
	Token uint64
	// Word is the Tier's own note on the state of the name space from before
	// the lease was given. The cache carries it back unread.
	Word string
	// Clock is the tag clock of a [Tagger] from before the lease was given.
	Clock uint64
	// Grant says how the request was answered.
	Grant Grant
	// Wait is how long another holder's lease, or the hold, still lasts.
	Wait time.Duration
}

// Put is one value to store.
type Put struct {
	Key  string
	Data []byte
	// Fresh is how long the value is fresh, Left how long it is kept in all.
	Fresh, Left time.Duration
	// Lease is the right to store, from Acquire or Drop.
	Lease Lease
	// Drops says that the Put is a drop of the key too, and is announced like
	// one: what others have of it is older, in whatever schema. With the token
	// of a Drop it always is.
	Drops bool
}

// Drop is one key to drop.
type Drop struct {
	Key string
	// Soft keeps the values but makes them stale.
	Soft bool
	// Left is for how long a soft drop lets the values be kept from then on: none
	// is kept for longer than it would have been. Zero changes nothing.
	Left time.Duration
	// Hold is the time for which leases are refused after the drop. It never
	// shortens a longer hold that is already there.
	Hold time.Duration
	// Token is the time for which a token to Put with is wanted. Zero means
	// that none is.
	Token time.Duration
}

// Space is the part of a Tier that belongs to one instance of one cache.
type Space struct {
	// Name is the cache's name. Instances with the same name share entries.
	Name string
	// Schema is the fingerprint of the value type and its codec. Values of
	// different schemas live side by side under the same key; a drop removes
	// all of them.
	Schema uint64
	// Instance names this instance in announcements.
	Instance uint64
}

// Binder is a Tier that can be shared by caches: Bind returns the view that
// one cache uses. A Tier that is no Binder must be given to one cache only.
type Binder interface {
	Bind(s Space) Tier
}

// AllDropper is a Tier that can make everything in its space absent at once,
// or stale if soft, in constant time and for all schemas. Instances elsewhere
// may take up to a second to notice, unless they are told to [Doubter.Doubt].
type AllDropper interface {
	DropAll(ctx context.Context, soft bool) error
}

// Tagger is a Tier that can drop groups of entries in constant time. Entries
// do not change when one of their tags is dropped: whoever reads one compares
// the drops of its tags with the clock that its loader's lease carried. The
// clock counts drops of tags in the space and comes from the store alone.
type Tagger interface {
	// DropTags drops tags: entries that carry one of them, and whose lease has
	// an older clock, are absent from now on, or stale if soft.
	DropTags(ctx context.Context, tags []string, soft bool) error
	// Tags returns the drops of each tag, in one round trip. A store that has
	// lost them answers as if they had just happened.
	Tags(ctx context.Context, tags []string) ([]Tag, error)
}

// Tag is what a [Tagger] knows of a tag: the clock at its last drop, and at its
// last soft one. Zero means never. An entry is absent if Dropped is greater
// than the clock it was loaded under, and stale if Expired is.
type Tag struct {
	Dropped, Expired uint64
}

// Positioner is a Tier that knows how far the drops of its space have come, so
// that an instance that may have missed announcements finds out which.
type Positioner interface {
	// Position asks the store. A lane that the store does not know, or has
	// forgotten, gets a new word.
	Position(ctx context.Context) (Position, error)
	// Lane returns the lane of key. It asks nobody.
	Lane(key string) uint16
}

// ChangesAge is how old what a [ChangeTeller] says may be.
const ChangesAge = 2400 * time.Millisecond

// ChangeTeller is a Positioner that can say for little that nothing was dropped:
// then nobody asks for positions.
type ChangeTeller interface {
	// Changes returns a text that is another one when something was dropped in
	// the store, in whatever space, or the store was set back. It is that of a
	// time during the call, or up to ChangesAge before it. Empty means that the
	// store cannot tell.
	Changes(ctx context.Context) (string, error)
}

// Position is how far the drops of a space have come.
type Position struct {
	// Epoch changes when the store may have lost values or drops: it was
	// restarted, set back, or another server has taken over.
	Epoch string
	// Drops and Expiries count hard and soft drops of everything.
	Drops, Expiries uint64
	// Clock counts drops of tags.
	Clock uint64
	// Spread says that the words of lanes were read from several places, and so
	// are of no one moment.
	Spread bool
	// Lanes are the words of all lanes.
	Lanes []Word
}

// Doubter is a Tier that remembers something about its space from one operation
// to the next. Doubt tells it that another instance may have changed that: all
// operations that begin from now on ask anew.
type Doubter interface {
	Doubt()
}

// Releaser is a Tier that can give a lease back before it runs out, so that
// nobody waits for a load that has failed.
type Releaser interface {
	Release(ctx context.Context, key string, l Lease) error
}

// Renewer is a Tier that can prolong a lease while a long load runs. It
// reports whether the lease was still there.
type Renewer interface {
	Renew(ctx context.Context, key string, l Lease, d time.Duration) (bool, error)
}

// Refresher is a Tier that gives leases for values that are fresh still.
// Refresh is Acquire, but that the value with this ID counts as stale: of
// several instances that want to replace it ahead of time one gets the lease,
// and those that come when it has been replaced get the new value.
type Refresher interface {
	Refresh(ctx context.Context, key string, id ID, d time.Duration) (Held, Lease, error)
}

// ManyAcquirer is a Tier that can be asked for many leases in one round trip.
// Results line up with keys; each is what Acquire would have returned.
type ManyAcquirer interface {
	AcquireMany(ctx context.Context, keys []string, d time.Duration) ([]Held, []Lease, error)
}

// Announcer is a Tier that announces its drops on the bus itself, in the same
// step, and so each Put under a token, or with Drops, as a drop of its key: what
// others have loaded since the right was given is older. The cache then does not publish
// them again. It announces too that a lease has ended, by a Put, an Extend or a Release,
// if somebody was told meanwhile that it was busy.
type Announcer interface {
	Announces() bool
}

// Counter is a Tier that counts what it had to treat as absent although
// something was there.
type Counter interface {
	// Foreign is the number of values that were unreadable or not ours.
	Foreign() uint64
}

// Prober is a Tier that can say what about its store weakens the promises of a
// cache: each string is a sentence for a log.
type Prober interface {
	Probe(ctx context.Context) (warnings []string, err error)
}
