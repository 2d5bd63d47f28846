//go:build linux

package cluster_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/strata-cache/strata/test/internal/cluster"
)

// echo starts a server that sends back each line that it gets, with name before it.
func echo(t *testing.T, name string) (addr string) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewScanner(c); in.Scan(); {
					io.WriteString(c, name+in.Text()+"\n")
				}
			}()
		}
	}()
	return l.Addr().String()
}

func proxy(t *testing.T, target string) *cluster.Proxy {
	t.Helper()
	p, err := cluster.StartProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// caller is a connection to a proxy.
type caller struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, p *cluster.Proxy) *caller {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(context.Background(), "tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &caller{c, bufio.NewReader(c)}
}

func (c *caller) send(text string) {
	io.WriteString(c, text+"\n") // an error shows when nothing comes back
}

// hears reads a line for as long as that.
func (c *caller) hears(within time.Duration) (string, error) {
	c.SetReadDeadline(time.Now().Add(within))
	return c.in.ReadString('\n')
}

const (
	soon = 20 * time.Second       // bounds the wait for an expected event
	not  = 100 * time.Millisecond // is the wait for an event that must not come
)

func (c *caller) must(t *testing.T, want string) {
	t.Helper()
	if got, err := c.hears(soon); got != want+"\n" {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestBlackHoleHoldsBytesAndEndsBackWithoutAWord(t *testing.T) {
	for _, way := range []cluster.Way{cluster.BothWays, cluster.Requests, cluster.Replies} {
		p := proxy(t, echo(t, ""))
		c := dial(t, p)
		c.send("a")
		c.must(t, "a")
		p.BlackHole(way)
		c.send("b")
		if got, err := c.hears(not); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("way %d: got %q, %v through a black hole", way, got, err)
		}
		late := dial(t, p) // it can be opened
		late.send("c")
		if got, err := late.hears(not); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("way %d: got %q, %v through a black hole from a new connection", way, got, err)
		}
		p.BlackHole(0)
		c.must(t, "b")
		late.must(t, "c")
	}
}

func TestBlackHoleKeepsAnEndToItself(t *testing.T) {
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	p := proxy(t, target.Addr().String())
	c := dial(t, p)
	server, err := target.Accept()
	if err != nil {
		t.Fatal(err)
	}
	p.BlackHole(cluster.BothWays)
	server.Close()
	if _, err := c.hears(not); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the end of the server's connection came through a black hole: %v", err)
	}
	p.BlackHole(0)
	if _, err := c.hears(soon); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the end of the server's connection did not come: %v", err)
	}
}

func TestResetBreaksConnectionsAndRefuseNewOnes(t *testing.T) {
	p := proxy(t, echo(t, ""))
	c := dial(t, p)
	c.send("a")
	c.must(t, "a")
	p.Reset()
	if _, err := c.hears(soon); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection was reset, and reads %v", err)
	}
	c = dial(t, p)
	c.send("b")
	c.must(t, "b")
	p.Refuse(true)
	c.send("c")
	c.must(t, "c") // an open connection stays open
	refused := dial(t, p)
	if _, err := refused.hears(soon); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection that was to be refused reads %v", err)
	}
	p.Refuse(false)
	c = dial(t, p)
	c.send("d")
	c.must(t, "d")
}

func TestSlowProxyIsLate(t *testing.T) {
	p := proxy(t, echo(t, ""))
	c := dial(t, p)
	const d = 60 * time.Millisecond
	p.Slow(d)
	start := time.Now()
	c.send("a")
	c.must(t, "a")
	if took := time.Since(start); took < 2*d {
		t.Errorf("an echo took %v through a line that takes %v each way", took, d)
	}
}

func TestAimedProxyPassesNewConnectionsElsewhere(t *testing.T) {
	p := proxy(t, echo(t, "1"))
	c := dial(t, p)
	c.send("a")
	c.must(t, "1a")
	p.Aim(echo(t, "2"))
	c.send("b")
	c.must(t, "1b")
	c = dial(t, p)
	c.send("c")
	c.must(t, "2c")
}
