package netpool

import (
	"errors"
	"os"
	"sync"
)

// Duplex runs write and read at the same time, so that neither end of a
// connection is blocked because the other one does not read. The first to fail
// interrupts the other, by making the connection's deadline pass. Both have
// returned when Duplex does.
func Duplex(write, read func() error, interrupt func()) error {
	var wg sync.WaitGroup
	var writeErr error
	wg.Go(func() {
		if writeErr = write(); writeErr != nil {
			interrupt()
		}
	})
	readErr := read()
	if readErr != nil {
		interrupt()
	}
	wg.Wait()
	if readErr == nil || writeErr != nil && errors.Is(readErr, os.ErrDeadlineExceeded) {
		return writeErr // the other one is only its consequence
	}
	return readErr
}
