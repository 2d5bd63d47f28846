package pool

import (
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
)

// A conversation writes many commands on one connection and reads their
// replies: in turn (everything is written first), by pieces (replies are read
// between writes that do not wait), or at once (a goroutine writes while the
// caller reads). Invariant: neither end waits for ever for the other one to
// read, and when Converse returns no goroutine uses the commands.

const (
	// duplexFrom is the size, in bytes, up to which commands are simply written
	// before replies are read: less than this fits between two ends that do not
	// read.
	duplexFrom = 4 << 10
	// mostOwed is the number of replies read at once, while they are still in
	// the processor's cache. The same number is outstanding then.
	mostOwed = 512
)

// Commands are the bytes that one end of a conversation writes.
type Commands interface {
	// Next returns the next bytes, none at the end. They stay as they are
	// until it is called again.
	Next() []byte
	// Size is the length of all commands in bytes.
	Size() int64
	// Len returns the number of commands, EndOf the position at which the i-th
	// ends.
	Len() int
	EndOf(i int) int64
}

// WriteError says that commands could not be written.
type WriteError struct {
	// Written is the number of bytes written before the error.
	Written int64
	// Err is the reason.
	Err error
}

// Error implements error.
func (e *WriteError) Error() string {
	return "pool: after " + strconv.FormatInt(e.Written, 10) + " bytes: " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *WriteError) Unwrap() error { return e.Err }

// Wire is a connection in a conversation.
type Wire struct {
	Conn net.Conn
	// Try is [NewTrier] of Conn.
	Try *Trier
	// Interrupt makes everything fail that waits for the connection.
	Interrupt func()
}

// Converse writes commands and calls read for the reply to each, so that
// neither end of the connection is blocked because the other one does not read.
// A goroutine writes where the connection has no room for the commands, or
// cannot tell whether it has. The error comes from read, or is a [*WriteError];
// replies to commands written before are still read.
func (w *Wire) Converse(c Commands, read func() error) error {
	t := talk{wire: w, c: c}
	small := c.Size() < duplexFrom && w.roomy()
	switch {
	case small || c.Len() == 1:
		return t.inTurn(read)
	case w.Try == nil:
		return t.atOnce(nil, read)
	}
	return t.byPieces(read)
}

// roomy reports whether there is a kernel between the two ends, which takes
// some bytes before the other end reads them.
func (w *Wire) roomy() bool {
	addr := w.Conn.RemoteAddr()
	if addr == nil {
		return false
	}
	switch addr.Network() {
	case "tcp", "unix":
		return true
	}
	return false
}

// talk is a conversation.
type talk struct {
	wire    *Wire
	c       Commands
	rest    []byte // to be written before the next piece
	written int64
	heard   int // replies read
	failed  *WriteError
}

// inTurn writes everything before it reads.
func (t *talk) inTurn(read func() error) error {
	if err := t.write(); err != nil {
		return t.last(read)
	}
	return t.hear(t.c.Len(), read)
}

// atOnce writes p and everything behind it, and reads at the same time.
func (t *talk) atOnce(p []byte, read func() error) error {
	writer := *t // t itself stays on the stack
	writer.rest = p
	return Duplex(writer.write, func() error { return t.hear(t.c.Len()-t.heard, read) }, t.wire.Interrupt)
}

func (t *talk) write() error {
	if len(t.rest) == 0 {
		t.rest = t.c.Next()
	}
	for len(t.rest) > 0 {
		n, err := t.wire.Conn.Write(t.rest)
		if err := t.wrote(n, err); err != nil {
			return err
		}
		t.rest = t.c.Next()
	}
	return nil
}

func (t *talk) wrote(n int, err error) error {
	t.written += int64(n)
	if err == nil {
		return nil
	}
	t.failed = &WriteError{Written: t.written, Err: err}
	return t.failed
}

// hear reads n replies.
func (t *talk) hear(n int, read func() error) error {
	for ; n > 0; n-- {
		if err := read(); err != nil {
			return err
		}
		t.heard++
	}
	return nil
}

// byPieces writes as long as there is room. In between it reads the replies to
// one half of the outstanding commands, at times when the server has the other
// half whole and can work on it: some servers do not answer while they have a
// part of a command.
func (t *talk) byPieces(read func() error) error {
	for p := t.c.Next(); len(p) > 0; {
		rows := min(2*mostOwed, t.c.Len()-t.heard)
		end := t.c.EndOf(t.heard + rows - 1)
		part := p[:min(int64(len(p)), end-t.written)]
		n, err := t.wire.Try.Write(part)
		if err := t.wrote(n, err); err != nil {
			return t.last(read)
		}
		if p = p[n:]; n < len(part) {
			return t.atOnce(p, read)
		}
		if t.written == end {
			if err := t.hear(min(mostOwed, rows), read); err != nil {
				return err
			}
		}
		if len(p) == 0 {
			p = t.c.Next()
		}
	}
	return t.hear(t.c.Len()-t.heard, read)
}

// last reads the replies still to come after a write has failed.
func (t *talk) last(read func() error) error {
	whole := t.heard
	for whole < t.c.Len() && t.c.EndOf(whole) <= t.written {
		whole++
	}
	err := t.hear(whole-t.heard, read)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return t.failed // the more telling of the two
	}
	return err
}

// errUnread stands for the error of a read that did not return.
var errUnread = errors.New("pool: reading did not return")

// Duplex runs write and read at the same time, so that neither end of a
// connection is blocked because the other one does not read. When read fails it
// interrupts write, by making the connection's deadline pass; when write fails,
// read goes on, because the bytes that the peer has sent before are still to
// come. Both have returned when Duplex does, also if read panics.
func Duplex(write, read func() error, interrupt func()) error {
	var wg sync.WaitGroup
	var writeErr error
	wg.Go(func() { writeErr = write() })
	readErr := errUnread
	func() {
		defer func() { // also if read panics: the memory of write is the caller's afterwards
			if readErr != nil {
				interrupt()
			}
			wg.Wait()
		}()
		readErr = read()
	}()
	if readErr == nil || writeErr != nil && errors.Is(readErr, os.ErrDeadlineExceeded) {
		return writeErr // the more telling of the two
	}
	return readErr
}
