package redis_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/redis"
)

// foreign is a reply that no call has asked for.
const foreign = "$7\r\nforeign\r\n"

// use is a way of reading a key. A use that reads no value returns "own".
type use struct {
	name string
	call func(ctx context.Context, c *redis.Client, key string) (string, error)
}

// uses are all kinds of calls. The value of each key is "own".
func uses() []use {
	one := func(replies []redis.Reply, err error) (string, error) {
		if err != nil {
			return "", err
		}
		return replies[0].String()
	}
	return []use{
		{"AppendGet", func(ctx context.Context, c *redis.Client, key string) (string, error) { return get(ctx, c, key) }},
		{"Do", func(ctx context.Context, c *redis.Client, key string) (string, error) {
			return c.Do(ctx, "GET", key).String()
		}},
		{"Do on its own", func(ctx context.Context, c *redis.Client, key string) (string, error) {
			return c.Do(ctx, "SLOW", key).String()
		}},
		{"MGet", func(ctx context.Context, c *redis.Client, key string) (got string, err error) {
			err = c.MGet(ctx, []string{key}, func(_ int, v []byte, _ bool) error { got = string(v); return nil })
			return got, err
		}},
		{"GetTo", func(ctx context.Context, c *redis.Client, key string) (string, error) {
			var b bytes.Buffer
			_, err := c.GetTo(ctx, key, &b)
			return b.String(), err
		}},
		{"Stream", func(ctx context.Context, c *redis.Client, key string) (string, error) {
			s, err := c.Stream(ctx, "GET", key)
			if err != nil {
				return "", err
			}
			defer s.Close()
			b, err := io.ReadAll(s)
			return string(b), err
		}},
		{"Pipeline", func(ctx context.Context, c *redis.Client, key string) (string, error) {
			p := c.Pipeline()
			p.Get(key)
			return one(p.Do(ctx))
		}},
		{"Each", func(ctx context.Context, c *redis.Client, key string) (got string, err error) {
			p := c.Pipeline()
			p.Get(key)
			err = p.Each(ctx, func(_ int, r redis.Reply) error { got, err = r.String(); return err })
			return got, err
		}},
		{"Multi", func(ctx context.Context, c *redis.Client, key string) (string, error) {
			p := c.Multi()
			p.Get(key)
			return one(p.Do(ctx))
		}},
		{"Watch", func(ctx context.Context, c *redis.Client, key string) (got string, err error) {
			_, err = c.Watch(ctx, []string{key}, func(tx *redis.Tx) error {
				got, err = tx.Do("GET", key).String()
				return err
			})
			return got, err
		}},
		{"Set", func(ctx context.Context, c *redis.Client, key string) (string, error) {
			return "own", c.Set(ctx, key, []byte("own"), 0)
		}},
		{"SetFrom", func(ctx context.Context, c *redis.Client, key string) (string, error) {
			return "own", c.SetFrom(ctx, "other", strings.NewReader(strings.Repeat("x", 100_000)), 100_000, 0)
		}},
	}
}

// keep makes every key have the value "own".
func keep(s *fakes.Redis) {
	s.Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Bulk("own") })
	s.Handle("SLOW", func(ss *fakes.RedisSession, _ [][]byte) { ss.Bulk("own") })
	s.Handle("MGET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Out = append(ss.Out, "*1\r\n$3\r\nown\r\n"...) })
}

// front makes a model server reachable by sockets.
type front struct {
	s   *fakes.Redis
	tls *tls.Config // nil without TLS
	// greets, if set, sends the first reply on the n-th connection.
	greets func(n int, out *outlet, reply []byte)
	wg     sync.WaitGroup

	mu    sync.Mutex // guards below
	dials int
	open  map[*outlet]struct{}
}

// outlet is the server's end of a connection. Frames written while held leave
// together.
type outlet struct {
	net.Conn // with TLS, if there is any
	raw      *held
	inUse    atomic.Bool // a command has come behind the greeting

	mu sync.Mutex // one writer at a time
}

// held is a connection that can hold back writes.
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

// together sends all texts in one piece, each in a record of its own.
func (o *outlet) together(texts ...[]byte) {
	o.raw.hold = true
	for _, p := range texts {
		o.Write(p)
	}
	o.raw.hold = false
	o.raw.Write(o.raw.out)
	o.raw.out = nil
}

func (o *outlet) say(p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.Write(p)
	return err
}

// say sends unasked bytes over all used connections.
func (f *front) say(raw string) {
	f.mu.Lock()
	open := slices.Collect(maps.Keys(f.open))
	f.mu.Unlock()
	for _, o := range open {
		if o.inUse.Load() {
			o.say([]byte(raw))
		}
	}
}

func (f *front) serve(nc net.Conn) {
	raw := &held{Conn: nc}
	o := &outlet{Conn: raw, raw: raw}
	if f.tls != nil {
		o.Conn = tls.Server(raw, f.tls)
	}
	behind, err := f.s.Dial(context.Background(), "", "")
	if err != nil {
		nc.Close()
		return
	}
	f.mu.Lock()
	n := f.dials
	f.dials++
	f.open[o] = struct{}{}
	f.mu.Unlock()
	f.wg.Go(func() {
		defer behind.Close()
		p := make([]byte, 64<<10)
		for greeted := false; ; greeted = true {
			m, err := o.Read(p)
			if err != nil {
				return
			}
			o.inUse.Store(greeted)
			behind.Write(p[:m])
		}
	})
	f.wg.Go(func() {
		defer nc.Close()
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.open, o)
		}()
		p := make([]byte, 64<<10)
		for first := true; ; first = false {
			m, err := behind.Read(p)
			if err != nil {
				return
			}
			if first && f.greets != nil {
				f.greets(n, o, p[:m])
			} else if o.say(p[:m]) != nil {
				return
			}
		}
	})
}

// fronted runs f with a client that reaches a model server over each kind of
// socket.
func fronted(t *testing.T, greets func(n int, out *outlet, reply []byte), f func(t *testing.T, s *front, c *redis.Client)) {
	t.Helper()
	for _, kind := range []string{"tcp", "unix", "tls", "own tls"} {
		t.Run(kind, func(t *testing.T) {
			network, addr := "tcp", "127.0.0.1:0"
			if kind == "unix" {
				network, addr = kind, filepath.Join(t.TempDir(), "s")
			}
			l, err := net.Listen(network, addr)
			if err != nil {
				t.Fatal(err)
			}
			s := &front{s: fakes.NewRedis(), greets: greets, open: map[*outlet]struct{}{}}
			keep(s.s)
			o := redis.Options{Network: network, Addr: l.Addr().String(), Timeout: 20 * time.Second}
			trusting := &tls.Config{InsecureSkipVerify: true}
			switch kind {
			case "tls":
				o.TLS = trusting
			case "own tls":
				o.DialContext = (&tls.Dialer{Config: trusting}).DialContext
			}
			if kind == "tls" || kind == "own tls" {
				if s.tls, err = fakes.TLS(); err != nil {
					t.Fatal(err)
				}
			}
			s.wg.Go(func() {
				for {
					nc, err := l.Accept()
					if err != nil {
						return
					}
					s.serve(nc)
				}
			})
			c, err := redis.New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.wg.Wait()
			defer s.s.Close()
			defer l.Close()
			defer c.Close()
			f(t, s, c)
		})
	}
}

// TestUnaskedReplyReachesNoCall: whenever it comes after the last use
// of a connection, and for any next use.
func TestUnaskedReplyReachesNoCall(t *testing.T) {
	fronted(t, nil, func(t *testing.T, s *front, c *redis.Client) {
		for _, u := range uses() {
			for _, pause := range []time.Duration{time.Millisecond, time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond} {
				for range 2 { // there is a connection to go wrong, and one to be used next
					if got, err := u.call(t.Context(), c, "k"); got != "own" || err != nil {
						t.Errorf("%s: %q, %v", u.name, got, err)
					}
				}
				s.say(foreign)
				<-time.After(pause)
				for range 2 {
					if got, err := u.call(t.Context(), c, "k"); got != "own" || err != nil {
						t.Errorf("%s: %v after a foreign reply: %q, %v", u.name, pause, got, err)
					}
				}
			}
		}
	})
}

// TestReplyBehindTheGreetingReachesNoCall: whether it comes in one piece with
// the greeting, in a record of its own, or in part.
func TestReplyBehindTheGreetingReachesNoCall(t *testing.T) {
	for name, greets := range map[string]func(n int, o *outlet, reply []byte){
		"joined":  func(n int, o *outlet, reply []byte) { o.say(append(bytes.Clone(reply), foreign...)) },
		"beside":  func(n int, o *outlet, reply []byte) { o.together(reply, []byte(foreign)) },
		"in part": func(n int, o *outlet, reply []byte) { o.together(reply, []byte(foreign[:9])) },
	} {
		t.Run(name, func(t *testing.T) {
			bad := func(n int, o *outlet, reply []byte) {
				if n%2 == 1 {
					o.say(reply)
					return
				}
				greets(n, o, reply)
				if name == "in part" {
					o.say([]byte(foreign[9:]))
				}
			}
			for _, u := range uses() {
				fronted(t, bad, func(t *testing.T, s *front, c *redis.Client) {
					for range 5 {
						got, err := u.call(t.Context(), c, "k")
						var ce *redis.ConnError
						if err == nil && got != "own" || err != nil && !errors.As(err, &ce) {
							t.Errorf("%s: %q, %v", u.name, got, err)
						}
						<-time.After(time.Millisecond)
					}
				})
			}
		})
	}
}

// TestForeignReplyBetweenTheCommandsOfATransactionEndsIt: it looks like the reply
// to the next command.
func TestForeignReplyBetweenTheCommandsOfATransactionEndsIt(t *testing.T) {
	fronted(t, nil, func(t *testing.T, s *front, c *redis.Client) {
		_, err := c.Watch(t.Context(), []string{"k"}, func(tx *redis.Tx) error {
			if got, err := tx.Do("GET", "k").String(); got != "own" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			s.say(foreign)
			<-time.After(time.Millisecond) // the other end has it
			got, err := tx.Do("GET", "k").String()
			if !errors.Is(err, redis.ErrProtocol) {
				t.Errorf("%q, %v", got, err)
			}
			return err
		})
		if !errors.Is(err, redis.ErrProtocol) {
			t.Error(err)
		}
	})
}

// TestForeignReplyReachesNoCallInACluster: nor behind ASKING.
func TestForeignReplyReachesNoCallInACluster(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		for _, s := range k.Servers {
			keep(s)
		}
		for _, u := range uses() {
			for _, pause := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond} {
				if got, err := u.call(t.Context(), c, "k"); got != "own" || err != nil {
					t.Errorf("%s: %q, %v", u.name, got, err)
				}
				for _, s := range k.Servers {
					s.Say(foreign)
				}
				time.Sleep(pause)
				if got, err := u.call(t.Context(), c, "k"); got != "own" || err != nil {
					t.Errorf("%s: %v after a foreign reply: %q, %v", u.name, pause, got, err)
				}
			}
		}
	})
}

// TestForeignReplyReachesNoneOfManyCalls: many callers at once, and foreign replies
// whenever none of them waits.
func TestForeignReplyReachesNoneOfManyCalls(t *testing.T) {
	fronted(t, nil, func(t *testing.T, s *front, c *redis.Client) {
		all := uses()
		for range 20 {
			var wg sync.WaitGroup
			for g := range 16 {
				wg.Go(func() {
					u := all[g%len(all)]
					if got, err := u.call(t.Context(), c, fmt.Sprint("k", g)); got != "own" || err != nil {
						t.Errorf("%s: %q, %v", u.name, got, err)
					}
				})
			}
			wg.Wait()
			s.say(foreign)
			<-time.After(time.Millisecond) // the other end has it
		}
	})
}

// TestForeignReplyEndsASubscriptionWithAGap: it is neither a message nor an
// acknowledgement, nor a heartbeat.
func TestForeignReplyEndsASubscriptionWithAGap(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		for _, raw := range []string{foreign, "+PONG\r\n", ":1\r\n", "-ERR x\r\n", "*2\r\n$4\r\npong\r\n$0\r\n\r\n"} {
			if protocol == 3 && raw[0] == '*' {
				continue
			}
			change := func(_ *fakes.Redis, o *redis.Options) { o.Protocol = protocol }
			fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
				sub, err := c.Subscribe(t.Context(), "a")
				if err != nil {
					t.Fatal(err)
				}
				defer sub.Close()
				want(t, sub, redis.Subscribed, "")
				time.Sleep(10 * time.Second) // in the bubble, with heartbeats
				synctest.Wait()
				s.Say(raw)
				want(t, sub, redis.Gap, "")
				want(t, sub, redis.Subscribed, "")
				s.Publish("a", "x")
				want(t, sub, redis.Received, "a:x")
				if n := s.Dials(); n != 2 {
					t.Errorf("%d connections", n)
				}
			})
		}
	}
}

// TestLargePushesCostNoCall: they come behind each greeting, in more pieces than one read takes.
func TestLargePushesCostNoCall(t *testing.T) {
	for _, greeted := range []func(int, *outlet, []byte){
		func(_ int, out *outlet, reply []byte) { out.say([]byte(string(reply) + bigPush + bigPush)) },
		// TLS receives both pushes, and hands out one at a time.
		func(_ int, out *outlet, reply []byte) { out.together(reply, []byte(push), []byte(push)) },
	} {
		fronted(t, greeted, func(t *testing.T, _ *front, c *redis.Client) {
			for _, u := range uses() {
				for range 3 {
					if got, err := u.call(t.Context(), c, "k"); got != "own" || err != nil {
						t.Errorf("%s: %q, %v", u.name, got, err)
					}
				}
			}
			if n := c.Stats().Dials; n > 5 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// TestPushWithoutAnEndBetweenCallsIsNotReadToItsEnd: the connection is given up.
func TestPushWithoutAnEndBetweenCallsIsNotReadToItsEnd(t *testing.T) {
	fronted(t, nil, func(t *testing.T, s *front, c *redis.Client) {
		call := func() {
			t.Helper()
			if got, err := c.Do(kit.Within(t, 5*time.Second), "SLOW", "k").String(); got != "own" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		}
		call()
		begun := make(chan struct{})
		s.wg.Go(func() {
			s.say(">2\r\n$10\r\ninvalidate\r\n$60000000\r\n")
			close(begun)
			s.say(strings.Repeat("x", 60_000_000)) // ends with the connection
		})
		<-begun
		call()
		if n := c.Stats().Dials; n != 2 {
			t.Errorf("%d connections, want another one", n)
		}
	})
}

// TestPushesBetweenCallsCostNothing: they may come at any time.
func TestPushesBetweenCallsCostNothing(t *testing.T) {
	fronted(t, nil, func(t *testing.T, s *front, c *redis.Client) {
		for _, u := range uses() {
			for range 3 {
				if got, err := u.call(t.Context(), c, "k"); got != "own" || err != nil {
					t.Errorf("%s: %q, %v", u.name, got, err)
				}
				s.say(push)
			}
		}
		// Bytes in TLS are not read to be judged: there a push costs a connection.
		if n := c.Stats().Dials; n != 2 && s.tls == nil {
			t.Errorf("%d connections", n)
		}
	})
}
