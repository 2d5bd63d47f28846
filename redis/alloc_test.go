package redis_test

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// echo is a connection that answers with the same bytes: to every need bytes,
// or to every write if need is zero.
type echo struct {
	net.Conn
	reply, rest []byte
	need, got   int
	greeted     bool
}

func (e *echo) Write(p []byte) (int, error) {
	if !e.greeted {
		e.greeted, e.rest = true, []byte("%0\r\n")
		return len(p), nil
	}
	if e.got += len(p); e.got >= e.need {
		e.rest, e.got = e.reply, 0
	}
	return len(p), nil
}

// TryWrite is Write: there is always room.
func (e *echo) TryWrite(p []byte) (int, error) { return e.Write(p) }

func (e *echo) RemoteAddr() net.Addr { return (*net.TCPAddr)(nil) }

func (e *echo) Read(p []byte) (int, error) {
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func (e *echo) SetDeadline(time.Time) error      { return nil }
func (e *echo) SetReadDeadline(time.Time) error  { return nil }
func (e *echo) SetWriteDeadline(time.Time) error { return nil }
func (e *echo) Close() error                     { return nil }

func echoClient(t testing.TB, reply string, need ...int) *redis.Client {
	c, err := redis.New(redis.Options{DialContext: func(context.Context, string, string) (net.Conn, error) {
		e := &echo{reply: []byte(reply)}
		for _, n := range need {
			e.need = n
		}
		return e, nil
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

// nodeEcho is an echo that plays a cluster of one node.
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
		return &nodeEcho{echo: echo{reply: []byte("$5\r\nhello\r\n")}}, nil
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

// wire is the length of a command.
func wire(args ...any) int {
	b, err := resp.AppendCommand(nil, args...)
	if err != nil {
		panic(err)
	}
	return len(b)
}

func TestTypedCallsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	ctx := context.Background()
	small, large := []byte("hello"), bytes.Repeat([]byte("x"), 20_000)
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = "key " + strconv.Itoa(i)
	}
	bulk := func(v []byte) string { return string(resp.AppendBulk(nil, v)) }
	total := 0
	each := func(_ int, r redis.Reply) error {
		b, err := r.Bytes()
		total += len(b)
		return err
	}
	ok := func(_ int, r redis.Reply) error { return r.Ok() }
	mget := func(_ int, v []byte, found bool) error {
		total += len(v)
		return nil
	}
	sets := func(v []byte) (n int) {
		for _, k := range keys {
			n += wire("SET", k, v, "PX", 1000)
		}
		return n
	}
	type call = func(c *redis.Client, p *redis.Pipeline) error
	getAll := func(_ *redis.Client, p *redis.Pipeline) error {
		for _, k := range keys {
			p.Get(k)
		}
		return p.Each(ctx, each)
	}
	setAll := func(v []byte) call {
		return func(_ *redis.Client, p *redis.Pipeline) error {
			for _, k := range keys {
				p.Set(k, v, time.Second)
			}
			return p.Each(ctx, ok)
		}
	}
	getMany := func(c *redis.Client, _ *redis.Pipeline) error { return c.MGet(ctx, keys, mget) }
	for _, tc := range []struct {
		name, reply string
		need        int
		call        call
	}{
		{"100 times Get", strings.Repeat(bulk(small), 100), 0, getAll},
		{"100 times Get, large", strings.Repeat(bulk(large), 100), 0, getAll},
		{"100 times Set", strings.Repeat("+OK\r\n", 100), sets(small), setAll(small)},
		{"100 times Set, large", strings.Repeat("+OK\r\n", 100), sets(large), setAll(large)},
		{"MGet", "*100\r\n" + strings.Repeat(bulk(small), 100), 0, getMany},
		{"MGet, large", "*100\r\n" + strings.Repeat(bulk(large), 100), 0, getMany},
		{"Set", "+OK\r\n", 0, func(c *redis.Client, _ *redis.Pipeline) error { return c.Set(ctx, "k", small, time.Second) }},
		{"Set, large", "+OK\r\n", wire("SET", "k", large), func(c *redis.Client, _ *redis.Pipeline) error { return c.Set(ctx, "k", large, 0) }},
	} {
		c := echoClient(t, tc.reply, tc.need)
		p := c.Pipeline()
		if n := testing.AllocsPerRun(100, func() {
			if err := tc.call(c, p); err != nil {
				t.Fatal(tc.name, err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", tc.name, n)
		}
	}
	if total == 0 {
		t.Error("nothing was read")
	}
}

// entryEcho is an echo that knows the word of a namespace apart.
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

// entryTier returns a tier over a server that answers at once, from memory.
func entryTier(t testing.TB) *redis.Tier {
	c, err := redis.New(redis.Options{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return &entryEcho{echo: echo{reply: []byte("*2\r\n$5\r\nhello\r\n$34\r\n90000 90000 fedcba9876543210 e.0.0\r\n")}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return redis.NewTier(c).Bind(remote.Space{Name: "n"}).(*redis.Tier)
}

// TestTierAllocatesWhatItReturns: the result of a read and the bytes of its
// value.
func TestTierAllocatesWhatItReturns(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	tier := entryTier(t)
	ctx, keys := context.Background(), []string{"some key"}
	if n := testing.AllocsPerRun(100, func() {
		if h, err := tier.Get(ctx, keys); err != nil || string(h[0].Data) != "hello" {
			t.Fatal(h, err)
		}
	}); n != 2 {
		t.Errorf("%v allocations; want 2", n)
	}
}

// batchEcho is an entryEcho with a reply for each batch, by the first key of it.
type batchEcho struct {
	entryEcho
	replies map[string][]byte
}

func (e *batchEcho) Write(p []byte) (int, error) {
	for first, reply := range e.replies {
		if bytes.Contains(p, []byte(first)) {
			e.reply = reply
		}
	}
	return e.entryEcho.Write(p)
}

// TryWrite is Write: there is always room.
func (e *batchEcho) TryWrite(p []byte) (int, error) { return e.Write(p) }

// TestGetManyOfAHundredHitsInL2AllocatesLittle reads two batches in turn with room for one entry in
// L1. A hundred values and a hundred entries are their own pieces of memory, since they live for
// different times. The names of the keys are strings already.
func TestGetManyOfAHundredHitsInL2AllocatesLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	schema := codec.Fingerprint(codec.Bytes())
	replies, batches := map[string][]byte{}, make([][]string, 2)
	for i := range batches {
		var reply []byte
		for j := range 100 {
			k := "batch" + strconv.Itoa(i) + "/" + strconv.Itoa(j)
			sealed := append(envelope.Begin(nil), bytes.Repeat([]byte(k), 20)...)
			envelope.Seal(sealed, k, schema, 0)
			reply = resp.AppendString(resp.AppendBulk(resp.AppendArray(reply, 2), sealed), "90000 90000 fedcba9876543210 e.0.0")
			batches[i] = append(batches[i], k)
		}
		replies[batches[i][0]] = reply
	}
	client, err := redis.New(redis.Options{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return &batchEcho{replies: replies}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	o := strata.Options[string, []byte]{Name: "n", TTL: time.Hour, Memory: strata.Memory[string, []byte]{MaxEntries: 1}}
	o.Remote.Tier = redis.NewTier(client)
	c, err := strata.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	i := 0
	if n := testing.AllocsPerRun(100, func() {
		found, err := c.GetMany(context.Background(), batches[i%2], nil)
		if k := batches[i%2][99]; err != nil || len(found) != 100 || !bytes.HasPrefix(found[k], []byte(k)) {
			t.Fatalf("%d values, %q, %v", len(found), found[k], err)
		}
		i++
	}); n > 240 {
		t.Errorf("%v allocations, want 240 at most", n)
	}
	if st := c.Stats(); st.L2.Hits < 10_000 {
		t.Errorf("%d hits in L2, want all", st.L2.Hits)
	}
}

func TestTierReadsIntoTheMemoryOfItsCaller(t *testing.T) {
	tier := entryTier(t)
	ctx, memory := context.Background(), []byte("something longer")
	read := func() {
		if h, err := tier.Read(ctx, time.Minute, "some key", memory); err != nil || string(h.Data) != "hello" || &h.Data[0] != &memory[0] {
			t.Fatalf("%q, %v", h.Data, err)
		}
	}
	if _, err := tier.Get(ctx, []string{"some key"}); err != nil { // reads the state of the namespace too
		t.Fatal(err)
	}
	if read(); raceEnabled {
		t.Skip("the race detector allocates")
	}
	if n := testing.AllocsPerRun(100, read); n != 0 {
		t.Errorf("%v allocations; want none", n)
	}
	if h, err := tier.Read(ctx, 0, "some key", memory[:0:2]); err != nil || string(h.Data) != "hello" || string(memory) != "hellohing longer" {
		t.Errorf("with too little memory: %q, %v, memory %q", h.Data, err, memory)
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

// TestGetToDoesNotAllocate: a small value comes over the shared connection, a large one
// piece by piece over one of its own.
func TestGetToDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, size := range []int{0, 5, 10_000, 20_000, 60_000, 300_000} {
		c := echoClient(t, "$"+strconv.Itoa(size)+"\r\n"+strings.Repeat("x", size)+"\r\n")
		var w kit.Length
		ctx := context.Background()
		if n := testing.AllocsPerRun(100, func() {
			w = 0
			if n, err := c.GetTo(ctx, "some key", &w); n != int64(size) || err != nil || int(w) != size {
				t.Fatal(n, w, err)
			}
		}); n != 0 {
			t.Errorf("%d bytes: %v allocations", size, n)
		}
	}
}
