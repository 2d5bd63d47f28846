//go:build !unix

package pool

import "net"

// Trier writes as much as a connection takes at once.
type Trier struct {
	own interface{ TryWrite([]byte) (int, error) }
}

// NewTrier returns a Trier for nc, or nil if nc has no method TryWrite of its
// own: a socket cannot be asked here.
func NewTrier(nc net.Conn) *Trier {
	if own, ok := nc.(interface{ TryWrite([]byte) (int, error) }); ok {
		return &Trier{own: own}
	}
	return nil
}

// Write writes as many bytes as fit now and does not wait for room.
func (t *Trier) Write(p []byte) (n int, err error) { return t.own.TryWrite(p) }
