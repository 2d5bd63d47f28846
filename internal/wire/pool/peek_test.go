//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package pool_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// sockets returns the two ends of a socket.
func sockets(t *testing.T, network, addr string) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial(network, l.Addr().String()); err != nil {
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

// wrapped is a connection that returns the one below it.
type wrapped struct{ net.Conn }

func (w wrapped) NetConn() net.Conn { return w.Conn }

func TestPeekerSeesBytesAtTheSocket(t *testing.T) {
	for network, addr := range map[string]string{"unix": filepath.Join(t.TempDir(), "s"), "tcp": "127.0.0.1:0"} {
		a, b := sockets(t, network, addr)
		bare, above := pool.NewPeeker(a), pool.NewPeeker(wrapped{wrapped{a}})
		look := func(want error) {
			t.Helper()
			for _, p := range []*pool.Peeker{bare, above} {
				if err := p.Socket(); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", network, err, want)
				}
			}
		}
		look(nil)
		a.SetDeadline(time.Unix(1, 0)) // left over from the last call
		look(nil)
		if n := testing.AllocsPerRun(100, func() { bare.Socket() }); n > 0 {
			t.Errorf("%s: a look allocates %v times", network, n)
		}
		b.Write([]byte("unasked"))
		look(pool.ErrUnasked)
		a.SetDeadline(time.Time{})
		if n, err := a.Read(make([]byte, 10)); n != 7 || err != nil {
			t.Errorf("%s: the look has taken bytes: %d, %v", network, n, err)
		}
		look(nil)
		b.Close()
		a.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := a.Read(make([]byte, 10)); err != io.EOF {
			t.Error(err)
		}
		look(io.EOF)
		a.Close()
		look(net.ErrClosed)
	}
}

func TestPeekerTrustsAnUnknownConnection(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if p := pool.NewPeeker(a); p.Socket() != nil {
		t.Error("a connection without a socket is refused")
	}
}

func TestPeekerSeesBytesInTheSimulation(t *testing.T) {
	a, b := netsim.Pair(0)
	p := pool.NewPeeker(a)
	if err := p.Socket(); err != nil {
		t.Error(err)
	}
	b.Write([]byte("unasked"))
	if err := p.Socket(); err != pool.ErrUnasked {
		t.Error(err)
	}
	a.Read(make([]byte, 10))
	b.Close()
	if err := p.Socket(); err != io.EOF {
		t.Error(err)
	}
	a.Close()
}

// TestPeekerSeesBytesThatTLSHolds: a record read together with the record in front
// of it, the rest of a partly read record, and a record that has come in part.
func TestPeekerSeesBytesThatTLSHolds(t *testing.T) {
	config, err := fakes.TLS()
	if err != nil {
		t.Fatal(err)
	}
	for _, tapped := range []bool{true, false} {
		a, b := sockets(t, "tcp", "127.0.0.1:0")
		below := a
		if tapped {
			below = pool.NewTap(a)
		}
		client := tls.Client(below, &tls.Config{InsecureSkipVerify: true})
		slow := &held{Conn: b}
		server := tls.Server(slow, config)
		go server.Handshake()
		if err := client.Handshake(); err != nil {
			t.Fatal(err)
		}
		p := pool.NewPeeker(client)
		read := func(n int) {
			t.Helper()
			client.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := io.ReadFull(client, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
			client.SetReadDeadline(time.Time{})
		}
		look := func(want bool) {
			t.Helper()
			if got, _ := p.Held(); got != want {
				t.Errorf("tapped %t: bytes are held: %t", tapped, got)
			}
		}
		server.Write([]byte("one"))
		read(3) // with the bytes of TLS itself
		look(false)
		look(false)
		server.Write([]byte("one"))
		read(2)
		look(true)
		slow.hold = true
		server.Write([]byte("one"))
		server.Write([]byte("two"))
		slow.release(0)
		read(3)
		look(true)
		read(2)
		slow.hold = true
		server.Write([]byte("one"))
		server.Write([]byte("two"))
		slow.release(9)
		read(3)
		look(tapped) // TLS is not known from above
	}
}

// held is a connection that keeps the bytes written while it is held, and sends
// all of them at once.
type held struct {
	net.Conn
	hold bool
	out  []byte
}

func (h *held) Write(p []byte) (int, error) {
	if !h.hold {
		return h.Conn.Write(p)
	}
	h.out = append(h.out, p...)
	return len(p), nil
}

// release sends all but the last bytes.
func (h *held) release(but int) {
	h.Conn.Write(h.out[:len(h.out)-but])
	h.hold, h.out = false, nil
}
