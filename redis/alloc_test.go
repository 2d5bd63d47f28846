package redis_test

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// echo is a connection that answers every write with the same bytes.
type echo struct {
	net.Conn
	reply, rest []byte
	greeted     bool
}

func (e *echo) Write(p []byte) (int, error) {
	e.rest = e.reply
	if !e.greeted {
		e.greeted, e.rest = true, []byte("%0\r\n")
	}
	return len(p), nil
}

func (e *echo) Read(p []byte) (int, error) {
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func (e *echo) SetDeadline(time.Time) error      { return nil }
func (e *echo) SetReadDeadline(time.Time) error  { return nil }
func (e *echo) SetWriteDeadline(time.Time) error { return nil }
func (e *echo) Close() error                     { return nil }

func echoClient(t testing.TB, reply string) *redis.Client {
	c, err := redis.New(redis.Options{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return &echo{reply: []byte(reply)}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestAppendGetDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := echoClient(t, "$5\r\nhello\r\n")
	dst := make([]byte, 0, 64)
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		if v, err := c.AppendGet(ctx, dst, "some key"); len(v) != 5 || err != nil {
			t.Fatal(v, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// nodeEcho is an echo that is a cluster of one.
type nodeEcho struct{ echo }

func (e *nodeEcho) Write(p []byte) (int, error) {
	n, err := e.echo.Write(p)
	if bytes.Contains(p, []byte("SHARDS")) {
		e.rest = []byte("*1\r\n%2\r\n+slots\r\n*2\r\n:0\r\n:16383\r\n+nodes\r\n*1\r\n%3\r\n+endpoint\r\n+h\r\n+port\r\n:1\r\n+role\r\n+master\r\n")
	}
	return n, err
}

func TestAppendGetFromAClusterDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c, err := redis.New(redis.Options{Cluster: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return &nodeEcho{echo{reply: []byte("$5\r\nhello\r\n")}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	dst := make([]byte, 0, 64)
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		if v, err := c.AppendGet(ctx, dst, "some key"); len(v) != 5 || err != nil {
			t.Fatal(v, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// entryEcho is an echo that knows the word of a name space apart.
type entryEcho struct{ echo }

func (e *entryEcho) Write(p []byte) (int, error) {
	n, err := e.echo.Write(p)
	if bytes.Contains(p, []byte("EVAL")) {
		e.rest = []byte("*5\r\n$1\r\ne\r\n:0\r\n:0\r\n:0\r\n:1000\r\n")
		if bytes.Contains(p, []byte("$5\r\nHMGET\r\n")) {
			e.rest = append(e.rest, e.reply...)
		}
	}
	return n, err
}

// TestTierAllocatesWhatItReturns: the result of a read and the bytes of its
// value.
func TestTierAllocatesWhatItReturns(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c, err := redis.New(redis.Options{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return &entryEcho{echo{reply: []byte("*2\r\n$5\r\nhello\r\n$34\r\n90000 90000 fedcba9876543210 e.0.0\r\n")}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	tier := redis.NewTier(c).Bind(remote.Space{Name: "n"})
	ctx, keys := context.Background(), []string{"some key"}
	if n := testing.AllocsPerRun(100, func() {
		if h, err := tier.Get(ctx, keys); err != nil || string(h[0].Data) != "hello" {
			t.Fatal(h, err)
		}
	}); n != 2 {
		t.Errorf("%v allocations; want 2", n)
	}
}

func TestDoAllocatesLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := echoClient(t, ":1\r\n")
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		if v, err := c.Do(ctx, "INCRBY", "some key", 7).Int(); v != 1 || err != nil {
			t.Fatal(v, err)
		}
	}); n > 4 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkAppendGet counts the client's own work: the connection answers at
// once, from memory.
func BenchmarkAppendGet(b *testing.B) {
	c := echoClient(b, "$5\r\nhello\r\n")
	dst := make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.AppendGet(context.Background(), dst, "some key"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDo is BenchmarkAppendGet with arguments of any type.
func BenchmarkDo(b *testing.B) {
	c := echoClient(b, "$5\r\nhello\r\n")
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Do(context.Background(), "GET", "some key").Err(); err != nil {
			b.Fatal(err)
		}
	}
}
