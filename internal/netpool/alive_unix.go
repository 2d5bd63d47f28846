//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package netpool

import (
	"net"
	"syscall"
)

// Alive reports whether an idle connection can be used: the peer has neither
// closed it nor sent anything that nobody asked for. It looks at what the
// kernel knows and does not wait. Of connections that are no sockets it thinks
// well.
func Alive(nc net.Conn) bool {
	encrypted := false
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok {
		// TLS has messages of its own that arrive at any time.
		nc, encrypted = t.NetConn(), true
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return true
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	alive := true
	err = rc.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case n > 0:
			alive = encrypted
		case err == nil:
			alive = false // end of stream
		default:
			alive = err == syscall.EAGAIN || err == syscall.EINTR
		}
	})
	return alive && err == nil
}
