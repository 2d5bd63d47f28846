package redis_test

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/redis"
)

// verdict is the right judgement of a client about a reply.
type verdict int

const (
	broken verdict = iota // the protocol is broken: an error at once
	stalls                // the reply is not complete: an error at the deadline
	extra                 // the reply is sound, but there is more
	sound                 // the connection stays in use, also if the caller wanted another type
)

// hostile are replies that servers do not send.
var hostile = []struct { // read-only
	name, reply string
	verdict     verdict
}{
	{"negative length", "$-5\r\n", broken},
	{"length near 2^62", "$4611686018427387904\r\n", broken},
	{"length of 23 digits", "$99999999999999999999999\r\n", broken},
	{"4 GiB and three bytes", "$4294967296\r\nabc", broken},
	{"over the limit", "$536870913\r\nabc", broken},
	{"at the limit and three bytes", "$536870912\r\nabc", stalls},
	{"length that is no number", "$abc\r\n", broken},
	{"length with a sign", "$+3\r\nabc\r\n", broken},
	{"length without end", "$" + strings.Repeat("1", 100), broken},
	{"string without CRLF", "$3\r\nabcXX", broken},
	{"string cut short", "$5\r\nab", stalls},
	{"streamed string", "$?\r\n;3\r\nabc\r\n;0\r\n", broken},
	{"streamed array", "*?\r\n:1\r\n.\r\n", broken},
	{"a billion elements", "*1000000000\r\n", broken},
	{"negative count", "*-2\r\n", broken},
	{"count that overflows", "*99999999999999999999\r\n", broken},
	{"map of 2^62 pairs", "%4611686018427387904\r\n", broken},
	{"null map", "%-1\r\n", broken},
	{"array cut short", "*3\r\n:1\r\n", stalls},
	{"array of too many in all", "*2\r\n*1048576\r\n", broken},
	{"nested deep", strings.Repeat("*1\r\n", 10_000), broken},
	{"attributes nested deep", strings.Repeat("|1\r\n", 40) + ":1\r\n", broken},

	{"attribute without value", "|1\r\n+a\r\n+b\r\n", stalls},
	{"element of negative length", "*2\r\n:1\r\n$-7\r\n", broken},
	{"element without CRLF", "*1\r\n$3\r\nabcde", broken},
	{"push inside an array", "*2\r\n:1\r\n>1\r\n+x\r\n:2\r\n", broken},
	{"push and nothing else", ">1\r\n+x\r\n", stalls},
	{"status without end", "+" + strings.Repeat("x", 70_000), broken},
	{"status cut short", "+O", stalls},
	{"LF without CR", "+OK\n", broken},
	{"integer that overflows", ":9223372036854775808\r\n", broken},
	{"integer with a letter", ":1x\r\n", broken},
	{"bad boolean", "#x\r\n", broken},
	{"bad null", "_x\r\n", broken},
	{"bad double", ",0x1p4\r\n", broken},
	{"bad big number", "(12x\r\n", broken},
	{"verbatim without format", "=3\r\ntxt\r\n", broken},
	{"unknown type", "@3\r\n", broken},
	{"text of another protocol", "HTTP/1.1 400 Bad Request\r\n", broken},
	{"zeros", strings.Repeat("\x00", 1000), broken},
	{"one reply too many", "+OK\r\n+OK\r\n", extra},
	{"one string too many", "$2\r\nOK\r\n$2\r\nOK\r\n", extra},
	{"half a reply too many", "+OK\r\n$10\r\nab", extra},
	{"every kind nested", everyKind, sound},
	{"error", "-ERR no\r\n", sound},
	{"blob error", "!6\r\nERR no\r\n", sound},
	{"attribute in front", "|1\r\n+ttl\r\n:3\r\n$2\r\nhi\r\n", sound},
	{"push in front", ">2\r\n+news\r\n$100\r\n" + strings.Repeat("x", 100) + "\r\n$2\r\nhi\r\n", sound},
	{"empty array", "*0\r\n", sound},
	{"null of RESP2", "$-1\r\n", sound},
	{"null array", "*-1\r\n", sound},
	{"null of RESP3", "_\r\n", sound},
	{"double", ",-inf\r\n", sound},
	{"big number", "(123456789012345678901234567890\r\n", sound},
}

const everyKind = "*14\r\n+OK\r\n-ERR x\r\n:-42\r\n$3\r\nabc\r\n*2\r\n:1\r\n*0\r\n%1\r\n+k\r\n~1\r\n:7\r\n~0\r\n" +
	"_\r\n#t\r\n#f\r\n,-1.5e3\r\n,inf\r\n(99\r\n|1\r\n+a\r\n%0\r\n=5\r\ntxt:z\r\n"

// way is a way of calling the client. command is the one that gets the hostile
// reply. A strict way takes any other reply than it wants for a broken
// protocol.
type way struct {
	name, command string
	strict        bool
	call          func(ctx context.Context, c *redis.Client) error
}

func ways() []way {
	pipeline := func(c *redis.Client) *redis.Pipeline {
		p := c.Pipeline()
		p.Add("PING")
		p.Get("k")
		p.Add("PING")
		return p
	}
	return []way{
		{"Do", "GET", false, func(ctx context.Context, c *redis.Client) error { return c.Do(ctx, "GET", "k").Err() }},
		{"Do on its own", "LRANGE", false, func(ctx context.Context, c *redis.Client) error { return c.Do(ctx, "LRANGE", "k", 0, -1).Err() }},
		{"AppendGet", "GET", false, func(ctx context.Context, c *redis.Client) error { _, err := c.AppendGet(ctx, nil, "k"); return err }},
		{"AppendGet into room", "GET", false, func(ctx context.Context, c *redis.Client) error {
			_, err := c.AppendGet(ctx, make([]byte, 0, 10), "k")
			return err
		}},
		{"GetTo", "GET", false, func(ctx context.Context, c *redis.Client) error { _, err := c.GetTo(ctx, "k", io.Discard); return err }},
		{"Stream", "GET", false, func(ctx context.Context, c *redis.Client) error {
			s, err := c.Stream(ctx, "GET", "k")
			if err != nil {
				return err
			}
			defer s.Close()
			_, err = io.ReadAll(s)
			return err
		}},
		{"Pipeline", "GET", false, func(ctx context.Context, c *redis.Client) error {
			replies, err := pipeline(c).Do(ctx)
			if len(replies) != 3 || replies[0].Err() != nil || err != nil && replies[2].Err() == nil {
				return errors.New("replies do not fit the error")
			}
			return err
		}},
		{"Each", "GET", false, func(ctx context.Context, c *redis.Client) error {
			return pipeline(c).Each(ctx, func(i int, r redis.Reply) error {
				if i == 0 && r.Err() != nil {
					return r.Err()
				}
				return nil
			})
		}},
		{"MGet", "MGET", true, func(ctx context.Context, c *redis.Client) error {
			return c.MGet(ctx, []string{"a", "b"}, func(int, []byte, bool) error { return nil })
		}},
		{"Multi", "EXEC", true, func(ctx context.Context, c *redis.Client) error {
			tx := c.Multi()
			tx.Get("k")
			_, err := tx.Do(ctx)
			return err
		}},
		{"Multi, refused", "MULTI", true, func(ctx context.Context, c *redis.Client) error {
			tx := c.Multi()
			tx.Get("k")
			return tx.Each(ctx, func(int, redis.Reply) error { return nil })
		}},
		{"Watch", "WATCH", false, func(ctx context.Context, c *redis.Client) error {
			_, err := c.Watch(ctx, []string{"k"}, func(*redis.Tx) error { return nil })
			return err
		}},
		{"Tx", "GET", false, func(ctx context.Context, c *redis.Client) error {
			_, err := c.Watch(ctx, []string{"k"}, func(tx *redis.Tx) error { return tx.Do("GET", "k").Err() })
			return err
		}},
		{"Set", "SET", false, func(ctx context.Context, c *redis.Client) error { return c.Set(ctx, "k", []byte("v"), 0) }},
		{"SetFrom", "SET", false, func(ctx context.Context, c *redis.Client) error {
			return c.SetFrom(ctx, "k", strings.NewReader("v"), 1, 0)
		}},
		{"Eval", "EVALSHA", false, func(ctx context.Context, c *redis.Client) error {
			return c.Eval(ctx, redis.NewScript("x"), nil).Err()
		}},
	}
}

// TestHostileReplyEndsItsConnectionOnly: there is one typed error, nothing that
// others do is touched, and the next call works.
func TestHostileReplyEndsItsConnectionOnly(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			for _, tc := range hostile {
				fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
					judge(t, s, c, w, tc.name, tc.reply, tc.verdict)
				})
			}
		})
	}
}

func judge(t *testing.T, s *fakes.Redis, c *redis.Client, w way, name, reply string, verdict verdict) {
	var hit *fakes.RedisSession
	s.Handle(w.command, func(ss *fakes.RedisSession, _ [][]byte) {
		hit = ss
		ss.Out = append(ss.Out, reply...)
	})
	s.Handle("SLOW", func(ss *fakes.RedisSession, _ [][]byte) {
		time.Sleep(500 * time.Millisecond)
		ss.Status("OK")
	})
	var beside sync.WaitGroup
	beside.Go(func() {
		if err := c.Do(t.Context(), "SLOW").Ok(); err != nil {
			t.Errorf("%s: the call beside it: %v", name, err)
		}
	})
	synctest.Wait()
	start := time.Now()
	err := w.call(kit.Within(t, 200*time.Millisecond), c)
	took := time.Since(start)
	var ce *redis.ConnError
	typed := errors.As(err, &ce)
	switch verdict {
	case broken:
		if !errors.Is(err, redis.ErrProtocol) || !typed || took != 0 || redis.SafeToRetry(err) {
			t.Errorf("%s: %v after %v", name, err, took)
		}
	case stalls: // the next reply, taken for the rest of it, breaks the protocol
		timedOut := errors.Is(err, context.DeadlineExceeded) && took == 200*time.Millisecond
		if !timedOut && !errors.Is(err, redis.ErrProtocol) || !typed || redis.SafeToRetry(err) {
			t.Errorf("%s: %v after %v", name, err, took)
		}
		time.Sleep(time.Second) // no other caller of the connection waits any more
	default:
		if typed && !(w.strict && errors.Is(err, redis.ErrProtocol)) && verdict == sound {
			t.Errorf("%s: %v", name, err)
		}
	}
	beside.Wait()
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("%s: the next call: %v", name, err)
	}
	synctest.Wait()
	if hit == nil {
		t.Fatalf("%s: nothing was sent", name)
	}
	if kept := verdict == sound && !typed; hit.Open() != kept {
		t.Errorf("%s: the connection is open: %v; %v", name, hit.Open(), err)
	}
	if n := c.Stats().Open; n != s.Open() {
		t.Errorf("%s: %d connections counted, %d open", name, n, s.Open())
	}
}

func TestHostileReplyFailsTheCallsBehindIt(t *testing.T) {
	for _, tc := range hostile {
		if tc.verdict != broken {
			continue
		}
		fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			if err := c.Ping(t.Context()); err != nil { // there is one connection for all
				t.Fatal(err)
			}
			s.Handle("GET", func(ss *fakes.RedisSession, args [][]byte) {
				time.Sleep(10 * time.Millisecond)
				if string(args[1]) == "bad" {
					ss.Out = append(ss.Out, tc.reply...)
					return
				}
				ss.Bulk(string(args[1]))
			})
			var wg sync.WaitGroup
			for i, key := range []string{"first", "bad", "last", "bad", "last"} {
				time.Sleep(time.Millisecond)
				wg.Go(func() {
					v, err := get(t.Context(), c, key)
					if i == 0 && (v != key || err != nil) || i > 0 && !errors.Is(err, redis.ErrProtocol) {
						t.Errorf("%s: %s: %q, %v", tc.name, key, v, err)
					}
				})
			}
			wg.Wait()
			if v, err := get(t.Context(), c, "next"); v != "next" || err != nil {
				t.Errorf("%s: the next call: %q, %v", tc.name, v, err)
			}
			if n := s.Dials(); n != 2 {
				t.Errorf("%s: %d connections", tc.name, n)
			}
		})
	}
}

func TestHostileGreetingEndsItsConnectionOnly(t *testing.T) {
	for _, tc := range hostile {
		if tc.verdict == extra || tc.verdict == sound {
			continue
		}
		change := func(s *fakes.Redis, o *redis.Options) {
			o.DialTimeout = time.Second
			var sane fakes.RedisHandler
			sane = s.Handle("HELLO", func(ss *fakes.RedisSession, args [][]byte) {
				s.Handle("HELLO", sane) // from the second time on
				ss.Out = append(ss.Out, tc.reply...)
			})
		}
		fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			err := c.Do(kit.Within(t, 10*time.Second), "PING").Err()
			var ce *redis.ConnError
			if !errors.As(err, &ce) || errors.Is(err, redis.ErrProtocol) != (tc.verdict == broken) || !redis.SafeToRetry(err) {
				t.Errorf("%s: %v", tc.name, err)
			}
			time.Sleep(time.Second) // no dial follows a failed one at once
			if err := c.Ping(t.Context()); err != nil {
				t.Errorf("%s: the next call: %v", tc.name, err)
			}
			synctest.Wait()
			if s.Open() != 1 {
				t.Errorf("%s: %d connections", tc.name, s.Open())
			}
		})
	}
}

func TestHostileReplyToSubscribe(t *testing.T) {
	for _, tc := range hostile {
		if tc.verdict != broken {
			continue
		}
		fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			bad := func(ss *fakes.RedisSession, _ [][]byte) { ss.Out = append(ss.Out, tc.reply...) }
			sane := s.Handle("SUBSCRIBE", bad)
			sub, err := c.Subscribe(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			defer sub.Close()
			synctest.Wait()
			if err := sub.Err(); !errors.Is(err, redis.ErrProtocol) {
				t.Errorf("%s: %v", tc.name, err)
			}
			s.Handle("SUBSCRIBE", sane)
			want(t, sub, redis.Subscribed, "")
			ping := s.Handle("PING", bad)
			if e := want(t, sub, redis.Gap, ""); !errors.Is(e.Err, redis.ErrProtocol) {
				t.Errorf("%s: %v", tc.name, e.Err)
			}
			s.Handle("PING", ping)
			want(t, sub, redis.Subscribed, "")
			s.Publish("a", "x")
			want(t, sub, redis.Received, "a:x")
		})
	}
}

// rubbish is a connection on which the same bytes come once for every command
// after the greeting, and then the end.
type rubbish struct {
	net.Conn
	reply, rest string
	greeted     bool
	taken       *int // in all, after the greeting
}

func (r *rubbish) Write(p []byte) (int, error) {
	r.rest = r.reply
	if !r.greeted {
		r.greeted, r.rest = true, "%0\r\n"
		*r.taken -= len(r.rest)
	}
	return len(p), nil
}

func (r *rubbish) Read(p []byte) (int, error) {
	if r.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	*r.taken += n
	return n, nil
}

func (r *rubbish) RemoteAddr() net.Addr             { return (*net.TCPAddr)(nil) }
func (r *rubbish) SetDeadline(time.Time) error      { return nil }
func (r *rubbish) SetReadDeadline(time.Time) error  { return nil }
func (r *rubbish) SetWriteDeadline(time.Time) error { return nil }
func (r *rubbish) Close() error                     { return nil }

// TestHostileReplyTakesLittleMemory: memory grows with the bytes received, and
// not with the lengths that a reply announces.
func TestHostileReplyTakesLittleMemory(t *testing.T) {
	endless := []struct {
		name, reply string
		verdict     verdict
	}{
		{"nested 3 million deep", strings.Repeat("*1\r\n", 3_000_000), broken},
		{"attributes for ever", strings.Repeat("|0\r\n", 1<<20+1), broken},
	}
	if raceEnabled {
		endless = nil // takes long, and allocates the same
	}
	for _, tc := range append(endless, hostile...) {
		if tc.verdict == extra || tc.verdict == sound {
			continue
		}
		for _, w := range ways() {
			taken := 0
			c, err := redis.New(redis.Options{DialContext: func(context.Context, string, string) (net.Conn, error) {
				return &rubbish{reply: tc.reply, taken: &taken}, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Ping(t.Context()); err == nil { // the memory of a connection is there
				t.Errorf("%s: accepted", tc.name)
			}
			taken = 0
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err = w.call(t.Context(), c)
			runtime.ReadMemStats(&after)
			// The buffers of two connections, and a buffer that grows by twice.
			used := int(after.TotalAlloc - before.TotalAlloc)
			if most := 200<<10 + 4*taken; err == nil || used > most {
				t.Errorf("%s: %s: %d bytes allocated, %d arrived, %v", w.name, tc.name, used, taken, err)
			}
			c.Close()
		}
	}
}

func TestRepliesToAnotherProtocolSayNothingOfThemselves(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		for _, raw := range []string{"@hidden\r\n", ":hidden\r\n", "$hidden\r\n", "$3\r\nhidden"} {
			answer(s, raw)
			if _, err := get(t.Context(), c, "k"); err == nil || strings.Contains(err.Error(), "hidden") {
				t.Errorf("%v", err)
			}
		}
	})
}

func FuzzServerBytes(f *testing.F) {
	for _, tc := range hostile {
		f.Add([]byte(tc.reply[:min(len(tc.reply), 1000)]))
	}
	f.Add([]byte("*2\r\n$1\r\na\r\n:1\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		first, err := resp.NewReader(strings.NewReader(string(raw)), resp.Limits{}).Read()
		for _, w := range ways() {
			fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
				s.Handle(w.command, func(ss *fakes.RedisSession, _ [][]byte) {
					ss.Out = append(ss.Out, raw...)
					ss.Hangup()
				})
				got := w.call(context.Background(), c)
				// A whole value may come together with the end of the
				// connection, if the end was noticed early.
				if err != nil && got == nil {
					t.Errorf("%s: %q accepted", w.name, raw)
				}
				if w.name == "Do" && err == nil && first.Kind() != resp.Error && first.Kind() != resp.Push && got != nil {
					t.Errorf("%q: %v", raw, got)
				}
				if err := c.Ping(context.Background()); err != nil {
					t.Errorf("%s: after %q: %v", w.name, raw, err)
				}
			})
		}
	})
}
