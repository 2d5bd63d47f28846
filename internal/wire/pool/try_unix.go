//go:build unix

package pool

import (
	"net"
	"os"
	"syscall"
)

// Trier writes as much as a connection takes at once.
type Trier struct {
	own  interface{ TryWrite([]byte) (int, error) }
	raw  syscall.RawConn
	once func(fd uintptr) bool
	// once writes p, and sets n and err.
	p   []byte
	n   int
	err error
}

// NewTrier returns a Trier for nc, or nil if nc is neither a plain socket nor has
// a method TryWrite of its own.
func NewTrier(nc net.Conn) *Trier {
	if own, ok := nc.(interface{ TryWrite([]byte) (int, error) }); ok {
		return &Trier{own: own}
	}
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn: // nothing that wraps one: its Write may do more
	default:
		return nil
	}
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil
	}
	t := &Trier{raw: raw}
	t.once = t.write
	return t
}

// Write writes as many bytes as fit now and does not wait for room. It fails if
// the write deadline of the connection has passed.
func (t *Trier) Write(p []byte) (n int, err error) {
	if t.own != nil {
		return t.own.TryWrite(p)
	}
	t.p = p
	err = t.raw.Write(t.once)
	t.p = nil
	if err != nil {
		return 0, err
	}
	return t.n, t.err
}

func (t *Trier) write(fd uintptr) bool {
	// The result is true in any case: with false, the runtime would wait for room and call again.
	n, err := syscall.Write(int(fd), t.p)
	for err == syscall.EINTR {
		n, err = syscall.Write(int(fd), t.p)
	}
	t.n, t.err = max(n, 0), nil
	if err != nil && err != syscall.EAGAIN {
		t.err = os.NewSyscallError("write", err)
	}
	return true
}
