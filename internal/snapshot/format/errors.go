package format

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Causes of an [Error]. A failed read of the stream is a cause as well, as it is.
var (
	// ErrFormat: the stream is not a snapshot.
	ErrFormat = errors.New("not a snapshot of strata")
	// ErrVersion: the snapshot was written by a newer version.
	ErrVersion = errors.New("snapshot from a newer version")
	// ErrCorrupt: a checksum or the structure of a frame is wrong.
	ErrCorrupt = errors.New("snapshot is damaged")
	// ErrTruncated: the stream ends before the snapshot does. It wraps
	// io.ErrUnexpectedEOF.
	ErrTruncated = fmt.Errorf("snapshot ends early: %w", io.ErrUnexpectedEOF)
	// ErrTooLarge: an entry is over the limit. It is also the cause of a SkipError, and
	// the error of a Writer for sections and names without room in a frame.
	ErrTooLarge = errors.New("over the limit")
	// ErrCounts: the numbers at the end of a section or of the snapshot are not those
	// of its entries.
	ErrCounts = errors.New("counts do not match the entries")
	// ErrAborted: the writer has given up, as the record before the error says.
	ErrAborted = errors.New("snapshot was aborted by its writer")
)

// Errors of a wrong use of a Writer.
var (
	// ErrUse: the calls of a Writer are in a wrong order, or its Header, a Section or
	// the index of one is not valid.
	ErrUse = errors.New("format: wrong use of a Writer")
	// ErrClosed: the Writer was closed or aborted.
	ErrClosed = errors.New("format: closed")
)

// Error says where and why the reading of a snapshot has ended.
type Error struct {
	// Frame is the number of the frame that could not be read, from zero, and Offset
	// the byte of the stream at which that frame begins.
	Frame  int
	Offset int64
	// Section is the name of the section that the frame belongs to. It is empty if
	// the section is not known.
	Section string
	// Err is the cause; errors.Is finds ErrCorrupt and the like in it.
	Err error
}

// Error returns the text of the Error.
func (e *Error) Error() string {
	of := ""
	if e.Section != "" {
		of = ", section " + strconv.Quote(e.Section)
	}
	return fmt.Sprintf("frame %d at byte %d%s: %v", e.Frame, e.Offset, of, e.Err)
}

// Unwrap returns the cause of the Error.
func (e *Error) Unwrap() error { return e.Err }

// SkipError says that a Writer has left out one entry, and goes on.
type SkipError struct {
	// Err is the error of the function that appends the value, or the reason why
	// the entry cannot be written, such as ErrTooLarge.
	Err error
}

// Error returns the text of the SkipError.
func (e *SkipError) Error() string { return "entry left out: " + e.Err.Error() }

// Unwrap returns the cause of the SkipError.
func (e *SkipError) Unwrap() error { return e.Err }

func corrupt(why string) error { return fmt.Errorf("%w: %s", ErrCorrupt, why) }

func misuse(why string) error { return fmt.Errorf("%w: %s", ErrUse, why) }
