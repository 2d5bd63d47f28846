package snapshot

import (
	"errors"

	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/snapshot/pull"
)

// Errors of functions that read a snapshot. The entries before the error are in use.
var (
	// ErrFormat: the file or stream is no snapshot.
	ErrFormat = format.ErrFormat // read-only
	// ErrVersion: the snapshot was written by a newer version of this package.
	ErrVersion = format.ErrVersion // read-only
	// ErrCorrupt: a part of the snapshot was changed, lost, repeated or moved.
	ErrCorrupt = format.ErrCorrupt // read-only
	// ErrTruncated: the snapshot ends early. It wraps io.ErrUnexpectedEOF.
	ErrTruncated = format.ErrTruncated // read-only
	// ErrTooLarge: an entry is larger than 64 MiB.
	ErrTooLarge = format.ErrTooLarge // read-only
	// ErrCounts: the snapshot has not as many entries as its writer has counted.
	ErrCounts = format.ErrCounts // read-only
	// ErrAborted: the writer has given up. The error has its reason.
	ErrAborted = format.ErrAborted // read-only
	// ErrKeysOnly: the snapshot has no values. WarmKeys reads it.
	ErrKeysOnly = errors.New("snapshot has keys only, which WarmKeys reads")
	// ErrFuture: the snapshot was made in the future, so that the ages of its entries are
	// not known. A clock is wrong.
	ErrFuture = errors.New("snapshot is ahead of the clock")
	// ErrRefused: all caches of the snapshot were passed over. The error has the reason for
	// the first one, the Report those for all.
	ErrRefused = errors.New("snapshot: no cache of the snapshot fits")
	// ErrTime: the time of Options.Within was over.
	ErrTime = errors.New("the time is over")
	// ErrStalled: no bytes came for the time of Options.Stall.
	ErrStalled = pull.ErrStalled // read-only
)

// Error is the error of a snapshot that was damaged or cut: the number of the frame in
// its field Frame, the byte at which it begins in Offset, the name of the cache in Section
// if it is known, and the cause in Err, which errors.Is finds.
type Error = format.Error
