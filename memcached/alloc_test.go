package memcached_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/memcached"
)

// echo is a connection that answers the probe, and then each command with the value
// "hello" and its opaque.
type echo struct {
	net.Conn
	out, rest []byte
	classic   bool
}

func (e *echo) Write(p []byte) (int, error) {
	e.out = e.out[:0]
	switch {
	case bytes.HasPrefix(p, []byte("mg c3R")):
		e.out = append(e.out, "EN\r\nNF\r\nNF\r\nMN\r\n"...)
	case bytes.HasPrefix(p, []byte("get stratas/")):
		e.out = append(e.out, "END\r\n"...)
	case e.classic && p[0] == 'g':
		e.out = append(e.out, "VALUE key 0 5\r\nhello\r\nEND\r\n"...)
	case e.classic:
		e.out = append(e.out, "STORED\r\n"...)
	default:
		e.out = append(e.out, choose(p[1] == 'g', "VA 5", "HD")...)
		opaque := p[bytes.LastIndex(p[:bytes.IndexByte(p, '\r')], []byte(" O")):]
		e.out = append(e.out, opaque[:bytes.IndexByte(opaque, '\n')+1]...)
		e.out = append(e.out, choose(p[1] == 'g', "hello\r\n", "")...)
	}
	e.rest = e.out
	return len(p), nil
}

func choose(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

func (e *echo) Read(p []byte) (int, error) {
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func (e *echo) RemoteAddr() net.Addr             { return (*net.TCPAddr)(nil) }
func (e *echo) SetDeadline(time.Time) error      { return nil }
func (e *echo) SetReadDeadline(time.Time) error  { return nil }
func (e *echo) SetWriteDeadline(time.Time) error { return nil }
func (e *echo) Close() error                     { return nil }

func TestAppendGetAndSetDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, mode := range []memcached.Protocol{memcached.Meta, memcached.Classic} {
		c, err := memcached.New(memcached.Options{Protocol: mode, DialContext: func(context.Context, string, string) (net.Conn, error) {
			return &echo{classic: mode == memcached.Classic}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		dst := make([]byte, 0, 64)
		item := memcached.Item{Key: "key", Value: []byte(strings.Repeat("x", 100)), TTL: time.Hour}
		ctx := context.Background()
		if n := testing.AllocsPerRun(100, func() {
			if v, err := c.AppendGet(ctx, dst, "key"); len(v) != 5 || err != nil {
				t.Fatal(v, err)
			}
		}); n != 0 {
			t.Errorf("AppendGet, mode %d: %v allocations", mode, n)
		}
		if n := testing.AllocsPerRun(100, func() {
			if err := c.Set(ctx, item); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("Set, mode %d: %v allocations", mode, n)
		}
	}
}
