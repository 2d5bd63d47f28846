package memcached_test

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/memcached"
)

// echo is a connection that answers the probe, and then each command with a value and
// its opaque.
type echo struct {
	net.Conn
	value     []byte
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
		e.out = strconv.AppendInt(append(e.out, "VALUE key 0 "...), int64(len(e.value)), 10)
		e.out = append(append(append(e.out, "\r\n"...), e.value...), "\r\nEND\r\n"...)
	case e.classic:
		e.out = append(e.out, "STORED\r\n"...)
	default:
		opaque := p[bytes.LastIndex(p[:bytes.IndexByte(p, '\r')], []byte(" O")):]
		opaque = opaque[:bytes.IndexByte(opaque, '\n')+1]
		if p[1] != 'g' {
			e.out = append(append(e.out, "HD"...), opaque...)
			break
		}
		e.out = strconv.AppendInt(append(e.out, "VA "...), int64(len(e.value)), 10)
		e.out = append(append(append(e.out, opaque...), e.value...), "\r\n"...)
	}
	e.rest = e.out
	return len(p), nil
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
		value := []byte("hello")
		c, err := memcached.New(memcached.Options{Protocol: mode, DialContext: func(context.Context, string, string) (net.Conn, error) {
			return &echo{classic: mode == memcached.Classic, value: value}, nil
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

func TestAppendGetOfALargeValueDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	value := bytes.Repeat([]byte("large"), 8<<10)
	c, err := memcached.New(memcached.Options{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return &echo{value: value}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	dst, ctx := make([]byte, 0, len(value)), context.Background()
	if n := testing.AllocsPerRun(100, func() {
		if v, err := c.AppendGet(ctx, dst, "key"); !bytes.Equal(v, value) || err != nil {
			t.Fatal(len(v), err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestGetToDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, size := range []int{5, 0, 10_000, 20_000, 60_000, 300_000} {
		c, err := memcached.New(memcached.Options{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return &echo{value: bytes.Repeat([]byte("x"), size)}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		var w kit.Length
		ctx := context.Background()
		if n := testing.AllocsPerRun(100, func() {
			w = 0
			if n, err := c.GetTo(ctx, "key", &w); n != int64(size) || err != nil || int(w) != size {
				t.Fatal(n, w, err)
			}
		}); n != 0 {
			t.Errorf("%d bytes: %v allocations", size, n)
		}
	}
}
