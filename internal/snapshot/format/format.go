// Package format writes and reads the format of snapshots: entries of several caches,
// with their lives, in one file or stream. It knows bytes only: no cache, no codec,
// no file and no network. docs/snapshot-format.md describes the format.
//
// A snapshot is a magic text and frames of at most 64 KiB, each with a checksum that
// also covers its place: a reader finds a frame changed, dropped, repeated, moved or
// taken from another snapshot. All that comes before such a frame is usable, and
// [Reader] returns nothing of a frame before all of it was checked.
package format

import (
	"math"
	"time"

	"github.com/strata-cache/strata/internal/cache/expiry"
)

// Version is the version of the format that this package writes, and the highest one
// that it reads.
const Version = 1

// Bounds of the format.
const (
	// MaxPayload is the largest payload of a frame in bytes. A frame is eight bytes
	// longer.
	MaxPayload = 64<<10 - 8
	// MaxSections is the largest number of sections of a snapshot, and MaxStreams the
	// largest number of streams that form one snapshot.
	MaxSections = 4096
	MaxStreams  = 1024
	// MaxPosition is the largest length of a section's position in bytes, and
	// MaxPositions the largest length of the positions of all sections together.
	MaxPosition  = 1 << 20
	MaxPositions = 64 << 20
	// MaxEntry is the largest length of an entry in bytes that a Writer writes, and
	// the default limit of a Reader.
	MaxEntry = 64 << 20
	// MaxTags is the largest number of tags of an entry.
	MaxTags = 64
	// MaxName is the largest length of a section's name, namespace and codec in bytes,
	// each.
	MaxName = 4 << 10
	// MaxLog is the largest length of a piece of a log of drops in bytes.
	MaxLog = MaxPayload - 2
	// MaxReason is the largest length of the reason of an Abort in bytes.
	MaxReason = 1 << 10
)

// Forever is the Fresh or Left of an entry with a freshness or life without an end.
const Forever time.Duration = math.MaxInt64

// Unknown is the Age of an entry of unknown age.
const Unknown time.Duration = -1

// Mode says which parts of each entry a snapshot has.
type Mode uint8

// Modes.
const (
	// Keys: the key alone.
	Keys Mode = 1
	// Values: the key, the value and the life.
	Values Mode = 2
)

// Header describes a snapshot.
type Header struct {
	// Version is the version of the format. A Writer ignores it.
	Version int
	// Created is the wall time at which the snapshot was begun, in milliseconds. The
	// times of entries are counted from it.
	Created time.Time
	// Stream is the number of this stream, from zero, among the Streams that form the
	// snapshot. A Writer takes zero Streams for one.
	Stream, Streams int
	Mode            Mode
	// ID is random, and the same in all streams of a snapshot.
	ID [16]byte
}

// Section describes a cache of a snapshot.
type Section struct {
	// Name is the name of the cache, Space its namespace, and Codec the name of the
	// codec of its values.
	Name, Space, Codec string
	// Fingerprint stands for the codec and the type of the values.
	Fingerprint uint64
	// Position is the position of the cache's bus, in a form that the bus knows. Nil
	// means none.
	Position []byte
}

// Entry is an entry of a snapshot with values. The zero Entry has weight zero, and is
// neither fresh nor alive.
type Entry struct {
	Key, Value []byte
	// Fresh is how long the entry was fresh from [Header.Created] on, and Left how
	// long it was to be served at all; both are negative if the time had ended
	// before. They are rounded down to milliseconds. Left is not less than Fresh; a
	// Writer lowers Fresh to Left.
	Fresh, Left time.Duration
	// NotFound marks a negative entry, which has no value.
	NotFound bool
	// Expired says that a caller has expired the key.
	Expired bool
	Tags    []string
	// ID identifies the value in L2. Zero means none.
	ID uint64
	// Weight is not negative.
	Weight int64
	// Age is the age of the value at [Header.Created], rounded up to milliseconds.
	// It is Unknown, or any other negative number, if it is not known.
	Age time.Duration
	// Own are the lives of the value that differ from the lives of its cache; nil for
	// none. A negative entry has none.
	Own *expiry.Own
	// Uses tells how often the entry was read of late, from 0 to 3. A Writer takes
	// other numbers for the nearest of these.
	Uses int
}

// Drop is a drop that happened while the snapshot was written. It is about entries
// that come before it in its stream, and about entries of other streams.
type Drop struct {
	// Name is the dropped key. It is empty if All is true.
	Name []byte
	// Expire says that the entries were expired, not removed.
	Expire bool
	// All says that the drop is about all entries of the section.
	All bool
}

// Counts are numbers of a section or of a whole stream.
type Counts struct {
	// Entries is the number of entries or keys, and Bytes the length of their keys
	// and values.
	Entries, Bytes uint64
	// Drops is the number of drops.
	Drops uint64
	// Skipped is the number of entries that the writer has left out because they
	// could not be written.
	Skipped uint64
}

func (c *Counts) add(d Counts) {
	c.Entries += d.Entries
	c.Bytes += d.Bytes
	c.Drops += d.Drops
	c.Skipped += d.Skipped
}

// Left is the numbers of entries that the cache of a section had, and that the stream
// lacks.
type Left struct {
	// Busy entries had a write or load of their key under way. Gone ones had ended, were dropped,
	// or were suspect when their turn came, or have a key without a name. Beyond is the number of
	// entries above the bound that the caller has set.
	Busy, Gone, Beyond uint64
	// Coarse says that the cache remembers some drops by marks that keys share.
	Coarse bool
}

// Kind is the kind of a Record.
type Kind uint8

// Kinds of records.
const (
	// KindSection: a section begins.
	KindSection Kind = iota + 1
	// KindKey: an entry of a snapshot with keys only.
	KindKey
	// KindEntry: an entry of a snapshot with values.
	KindEntry
	// KindDrop: a drop.
	KindDrop
	// KindSectionEnd: a section has ended, and its counts are right.
	KindSectionEnd
	// KindLog: a piece of the drops that the cache of a section knows.
	KindLog
	// KindLeft: the numbers of missing entries.
	KindLeft
	// KindAbort: the writer has given up. The records before it are usable.
	KindAbort
)

// Record is a result of [Reader.Next]. Its Kind tells which fields are set.
type Record struct {
	Kind Kind
	// Index is the index of the section, from zero. It is set for all kinds but
	// KindAbort.
	Index int
	// Section is set for KindSection, and may be kept.
	Section *Section
	// Key is set for KindKey.
	Key []byte
	// Entry is set for KindEntry. The Entry itself is valid until the next call, its
	// Tags may be kept.
	Entry *Entry
	// Drop is set for KindDrop.
	Drop Drop
	// Log is set for KindLog. It may be empty.
	Log []byte
	// Left is set for KindLeft.
	Left Left
	// Counts are set for KindSectionEnd.
	Counts Counts
	// Reason is set for KindAbort. It is the writer's text, not to be trusted.
	Reason string
}
