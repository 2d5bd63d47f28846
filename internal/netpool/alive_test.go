//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package netpool_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/netpool"
	"github.com/strata-cache/strata/internal/netsim"
)

// sockets returns the two ends of a unix socket.
func sockets(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Close()
		b.Close()
	})
	return a, b
}

// encrypted looks like a TLS connection.
type encrypted struct{ net.Conn }

func (e encrypted) NetConn() net.Conn { return e.Conn }

func TestAlive(t *testing.T) {
	a, b := sockets(t)
	if !netpool.Alive(a) {
		t.Error("an idle connection is taken for dead")
	}
	a.SetDeadline(time.Unix(1, 0)) // left over from the last call
	if !netpool.Alive(a) {
		t.Error("a passed deadline is taken for death")
	}
	b.Write([]byte("unasked"))
	if netpool.Alive(a) {
		t.Error("unasked bytes are not seen")
	}
	if !netpool.Alive(encrypted{a}) {
		t.Error("TLS has messages of its own")
	}
	a.SetDeadline(time.Time{})
	if n, err := a.Read(make([]byte, 10)); n != 7 || err != nil {
		t.Errorf("the look has taken bytes: %d, %v", n, err)
	}
	b.Close()
	if netpool.Alive(a) || netpool.Alive(encrypted{a}) {
		t.Error("the end of the stream is not seen")
	}
	a.Close()
	if netpool.Alive(a) {
		t.Error("a closed connection is taken for alive")
	}
	c, d := netsim.Pair(0)
	if !netpool.Alive(c) {
		t.Error("what is no socket must be trusted")
	}
	c.Close()
	d.Close()
}
