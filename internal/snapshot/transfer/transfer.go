// Package transfer has the parts of a cache that package snapshot needs: a [Source] is its
// entries on their way out of one process and into another, and its warm-ups, without the types
// of keys and values. An [Exchange] is the Source of a cache: it gives away the entries of L1, and
// takes in the entries of another process. It knows the forms of entries in L1, and no Cache.
package transfer

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/format"
)

// Source is a cache.
type Source interface {
	Name() string
	// Space is the name of the cache among the caches of all services.
	Space() string
	// Format returns the name and the fingerprint of the codec of values.
	Format() (codec string, fingerprint uint64)
	// HasTier reports whether there is an L2 that can confirm entries.
	HasTier() bool
	// Len is the number of entries with a value in L1.
	Len() int
	Logger() *slog.Logger
	// CheckKeys returns an error if keys have no names, or the names no keys.
	CheckKeys() error
	// Usable returns the error of a closed cache.
	Usable(ctx context.Context) error
	// Dump begins to give away entries: the share of them with the number part of
	// parts shares.
	Dump(ctx context.Context, part, parts int) (Dump, error)
	// Restore begins to take in entries. It adds them to taken, which all streams of a
	// call share, if the snapshots of the cache tell of drops.
	Restore(ctx context.Context, taken *Taken) (Restore, error)
	// Hot iterates over the names of up to n keys that L1 has, the hottest first. It adds
	// the number of the others to left.
	Hot(n int, left *format.Left) iter.Seq[string]
	// Warm is Cache.Warm for keys with these names. It passes over texts that name no
	// key.
	Warm(ctx context.Context, names iter.Seq[string], perSecond int, progress func(Warmed)) (Warmed, error)
}

// Warmed counts keys of a Warm.
type Warmed struct {
	// Keys is the number of keys so far. Present counts the keys that L1 had, Found the keys
	// that L2 had, Loaded and Failed the keys with a load that succeeded or failed, and Absent
	// the others.
	Keys, Present, Found, Loaded, Failed, Absent int
}

// Dump gives away entries. It is not safe for concurrent use.
type Dump interface {
	// Position is the position in the drops of the shared tier from which on later drops
	// concern the entries; nil if it is not known.
	Position() []byte
	// Entries iterates over the entries, the hottest first. An entry and its slices are
	// valid during one step. Its Value is empty: the function appends the encoded value.
	// The times of entries are counted from the begin of the dump.
	Entries() iter.Seq2[*format.Entry, func(dst []byte) ([]byte, error)]
	// Dropped returns the names of keys dropped since the last call, of a cache without a
	// bus to announce its drops. all says that it may be any key.
	Dropped() (names []string, all bool)
	// Know returns a piece that says up to which moments the cache knows all drops, before
	// Entries; nil if it remembers no drops. Tell returns the drops since then by callers of
	// this cache, in pieces, or with all every drop that it knows.
	Know() []byte
	Tell(all bool) (pieces [][]byte)
	// Left is the numbers of entries that Entries has left out so far.
	Left() format.Left
	// Close ends the dump.
	Close()
}

// Restore takes in entries. It is not safe for concurrent use.
type Restore interface {
	// Cover learns the position of the entries that follow, which may be nil. It waits
	// up to a second for messages that the other instance has had already. suspect is why
	// not every entry can be taken in without a question to L2; it is empty if all can.
	Cover(ctx context.Context, position []byte) (suspect string)
	// Entry takes in e, of a dump that began so long ago. keep says that nothing writes
	// to the memory of e any more, so that the value may refer to it. The time
	// format.Forever of e has no end.
	Entry(e *format.Entry, ago time.Duration, keep bool) Outcome
	// Learn takes in a piece that Know or Tell of the dump has made. told is false if this cache
	// remembers no drops.
	Learn(piece []byte) (told bool, err error)
	// Coarse reports whether the cache remembers some drops by marks that keys share.
	Coarse() bool
	// Drop makes a key absent if its entry was taken in, or read before the dump began so
	// long ago. DropAll makes all taken-in entries absent.
	Drop(name []byte, ago time.Duration)
	DropAll()
	// End makes entries absent if they are older than the drops in the learned pieces. It may
	// be called again.
	End()
	// Close ends the restore.
	Close()
}

// Outcome is the fate of an entry that comes in.
type Outcome uint8

// The outcomes.
const (
	// Stored: the entry is in L1.
	Stored Outcome = iota
	// Present: L1 has an entry of the key already.
	Present
	// Changed: the key was dropped or written since the value was read, or loaded since the
	// restore began.
	Changed
	// Unconfirmed: a drop of the key may have been missed. L2 has to be asked.
	Unconfirmed
	// Over: the life of the entry is over.
	Over
	// Full: L1 has no room without an eviction.
	Full
	// Unusable: the key, the tags or the value cannot be used.
	Unusable
	// Outcomes is the number of outcomes.
	Outcomes
)

// String returns the outcome in words, for a log.
func (o Outcome) String() string {
	return [Outcomes]string{"stored", "present", "changed", "unconfirmed", "over", "full", "unusable"}[o]
}

// Rest returns the rest of a life after some time.
func Rest(life, ago time.Duration) time.Duration {
	if life == format.Forever {
		return life
	}
	return life - ago
}

// Life is the whole life of the value of e, if fresh of it is left after ago.
func Life(e *format.Entry, fresh, ago time.Duration) time.Duration {
	if e.Age < 0 || fresh == format.Forever || fresh <= 0 {
		return fresh
	}
	return fresh + e.Age + ago
}
