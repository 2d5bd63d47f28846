//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package pool

import (
	"io"
	"syscall"
)

// peek looks for bytes at a socket, without taking them and without waiting.
func peek(fd uintptr, p []byte) error {
	n, _, err := syscall.Recvfrom(int(fd), p, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	switch {
	// A connection that owes nothing has no bytes to offer: these would be taken for the reply to
	// the next call.
	case n > 0:
		return ErrUnasked
	case err == nil:
		return io.EOF
	case err == syscall.EAGAIN || err == syscall.EINTR:
		return nil
	}
	return err
}
