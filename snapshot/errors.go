package snapshot

import (
	"errors"

	"github.com/strata-cache/strata/internal/snapshot/carrier"
	"github.com/strata-cache/strata/internal/snapshot/format"
)

// Errors of functions that read a snapshot. The entries before the error are in use.
var (
	// ErrFormat: the file or stream is not a snapshot.
	ErrFormat error = format.ErrFormat // read-only
	// ErrVersion: the snapshot was written by a newer version of this package.
	ErrVersion error = format.ErrVersion // read-only
	// ErrCorrupt: a part of the snapshot was changed, lost, repeated or moved.
	ErrCorrupt error = format.ErrCorrupt // read-only
	// ErrTruncated: the snapshot ends early. It wraps io.ErrUnexpectedEOF.
	ErrTruncated error = format.ErrTruncated // read-only
	// ErrTooLarge: an entry is larger than 64 MiB.
	ErrTooLarge error = format.ErrTooLarge // read-only
	// ErrCounts: the snapshot has not as many entries as its writer has counted.
	ErrCounts error = format.ErrCounts // read-only
	// ErrAborted: the writer has given up. The error has its reason.
	ErrAborted error = format.ErrAborted // read-only
	// ErrKeysOnly: the snapshot has no values. WarmKeys reads it.
	ErrKeysOnly = errors.New("snapshot has keys only, which WarmKeys reads")
	// ErrFuture: the snapshot was made in the future, so that the ages of its entries are
	// not known. A clock is wrong.
	ErrFuture = errors.New("snapshot is ahead of the clock")
	// ErrRefused: all caches of the snapshot were passed over. The error has the reason for
	// the first one, the Report the reasons for all.
	ErrRefused = errors.New("snapshot: no cache of the snapshot fits")
	// ErrTime: the time of Options.Within was over.
	ErrTime = errors.New("the time is over")
	// ErrStalled: no bytes came for the time of Options.Stall.
	ErrStalled error = carrier.ErrStalled // read-only
)

// Error is the error of a damaged or cut snapshot. It says where reading has ended.
type Error struct {
	// Frame is the number of the frame that could not be read, from zero. Offset is the byte at
	// which the frame begins.
	Frame  int
	Offset int64
	// Section is the name of the cache that the frame belongs to, or empty if it is not known.
	Section string
	// Err is the cause. errors.Is finds ErrCorrupt and the like in it.
	Err error
}

// Error names the place and the cause.
func (e *Error) Error() string { return (*format.Error)(e).Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// placed returns err as an [Error] if it tells the place of damage.
func placed(err error) error {
	if at, ok := errors.AsType[*format.Error](err); ok {
		return (*Error)(at)
	}
	return err
}
