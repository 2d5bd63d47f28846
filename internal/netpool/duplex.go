package netpool

import (
	"errors"
	"os"
	"sync"
)

// Duplex runs write and read at the same time, so that neither end of a
// connection is blocked because the other one does not read. When read fails it
// interrupts write, by making the connection's deadline pass; when write fails,
// read goes on, because what the peer has sent before is still to come. Both
// have returned when Duplex does.
func Duplex(write, read func() error, interrupt func()) error {
	var wg sync.WaitGroup
	var writeErr error
	wg.Go(func() { writeErr = write() })
	readErr := read()
	if readErr != nil {
		interrupt()
	}
	wg.Wait()
	if readErr == nil || writeErr != nil && errors.Is(readErr, os.ErrDeadlineExceeded) {
		return writeErr // the more telling of the two
	}
	return readErr
}
