package netpool

import (
	"errors"
	"os"
	"sync"
)

// errUnread stands for the error of a read that did not return.
var errUnread = errors.New("netpool: reading did not return")

// Duplex runs write and read at the same time, so that neither end of a
// connection is blocked because the other one does not read. When read fails it
// interrupts write, by making the connection's deadline pass; when write fails,
// read goes on, because what the peer has sent before is still to come. Both
// have returned when Duplex does, also if read panics.
func Duplex(write, read func() error, interrupt func()) error {
	var wg sync.WaitGroup
	var writeErr error
	wg.Go(func() { writeErr = write() })
	readErr := errUnread
	func() {
		defer func() { // also if read panics: what is written is the caller's then
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
