//go:build unix

package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
)

// refusal fails the test unless the server has answered with this code.
func refusal(t *testing.T, err error, code string) {
	t.Helper()
	var refused *redis.Error
	if !errors.As(err, &refused) || refused.Code != code {
		t.Errorf("%v; want %s", err, code)
	}
}

// spread opens n connections that serve one call at a time, and leaves them
// idle.
func spread(t *testing.T, c *redis.Client, n int) {
	t.Helper()
	mustDo(t, c, "SET", "spread", "x")
	var streams []*redis.Stream
	for range n {
		s, err := c.Stream(t.Context(), "GET", "spread")
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	for _, s := range streams {
		if _, err := io.Copy(io.Discard, s); err != nil {
			t.Error(err)
		}
		s.Close()
	}
}

// awaitDial waits until a client may dial: while the server was away, it may have tried in vain.
func awaitDial(t *testing.T, c *redis.Client) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; <-time.After(10 * time.Millisecond) {
		err := c.Do(t.Context(), "PING").Err()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestRestartOfTheServerCostsNoCall: each of the idle connections is dead, and
// no call fails because of that.
func TestRestartOfTheServerCostsNoCall(t *testing.T) {
	server := servers.StartRedis(t)
	c := server.Client(t)
	for round := range 3 {
		spread(t, c, 10)
		if n := c.Stats().Open; n < 10 {
			t.Fatalf("%d connections", n)
		}
		server.Kill()
		server.Restart()
		awaitDial(t, c)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				key := fmt.Sprint("k", i)
				if err := c.Set(t.Context(), key, []byte("v"), 0); err != nil {
					t.Errorf("round %d: Set: %v", round, err)
				}
				var b strings.Builder
				if _, err := c.GetTo(t.Context(), key, &b); err != nil || b.String() != "v" {
					t.Errorf("round %d: GetTo: %q, %v", round, b.String(), err)
				}
				p := c.Pipeline()
				p.Get(key)
				if err := p.Each(t.Context(), func(_ int, r redis.Reply) error { return r.Err() }); err != nil {
					t.Errorf("round %d: pipeline: %v", round, err)
				}
			})
		}
		wg.Wait()
	}
}

// TestStoppedServerIsLeftInTime: a call has 200 ms, and returns with the error of its context. The exact time is tested
// with fake servers: here a busy machine may take a second.
func TestStoppedServerIsLeftInTime(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	server := servers.StartRedis(t)
	c := server.Client(t)
	value := strings.Repeat("v", 100_000)
	mustDo(t, c, "SET", "k", value)
	mustDo(t, c, "SET", "small", "v")
	spread(t, c, 2)
	for name, call := range map[string]func(ctx context.Context) error{
		"AppendGet": func(ctx context.Context) error { _, err := c.AppendGet(ctx, nil, "small"); return err },
		"GetTo":     func(ctx context.Context) error { _, err := c.GetTo(ctx, "k", io.Discard); return err },
		"Set":       func(ctx context.Context) error { return c.Set(ctx, "other", []byte(value), 0) },
		"SetFrom": func(ctx context.Context) error {
			return c.SetFrom(ctx, "other", io.LimitReader(neverEnding{}, 64<<20), 64<<20, 0)
		},
		"Each": func(ctx context.Context) error {
			p := c.Pipeline()
			for range 1000 {
				p.Set("other", []byte(value), 0)
			}
			return p.Each(ctx, func(int, redis.Reply) error { return nil })
		},
		"MGet": func(ctx context.Context) error {
			return c.MGet(ctx, []string{"k", "k"}, func(int, []byte, bool) error { return nil })
		},
	} {
		server.Stop()
		for _, cancelled := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			want := context.Canceled
			if cancelled {
				time.AfterFunc(200*time.Millisecond, cancel)
			} else {
				ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
				want = context.DeadlineExceeded
			}
			start := time.Now()
			err := call(ctx)
			cancel()
			if took := time.Since(start); !errors.Is(err, want) || took < 190*time.Millisecond || took > 5*time.Second {
				t.Errorf("%s, cancelled %v: %v after %v", name, cancelled, err, took)
			}
		}
		server.Continue()
		if b, err := c.AppendGet(t.Context(), nil, "k"); string(b) != value || err != nil {
			t.Errorf("after %s: %d bytes, %v", name, len(b), err)
		}
	}
}

// neverEnding is a reader without an end.
type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestServerWithoutMemoryAnswersOOM(t *testing.T) {
	server := servers.StartRedis(t, "--maxmemory-policy", "noeviction")
	c := server.Client(t)
	mustDo(t, c, "SET", "held", "v")
	mustDo(t, c, "SET", "filler", strings.Repeat("x", 4<<20))
	mustDo(t, c, "CONFIG", "SET", "maxmemory", "1mb")
	refusal(t, c.Set(t.Context(), "k", []byte("v"), 0), "OOM")
	refusal(t, c.SetFrom(t.Context(), "k", io.LimitReader(neverEnding{}, 1<<20), 1<<20, 0), "OOM")
	p := c.Pipeline()
	p.Set("k", nil, 0)
	p.Get("held")
	replies, err := p.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	refusal(t, replies[0].Err(), "OOM")
	if v, err := replies[1].String(); v != "v" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	tx := c.Multi()
	tx.Set("k", nil, 0)
	_, err = tx.Do(t.Context())
	refusal(t, err, "OOM")
	if !errors.Is(err, redis.ErrAborted) {
		t.Errorf("transaction: %v", err)
	}
	if s := c.Stats(); s.Broken != 0 {
		t.Errorf("%d connections were closed for it", s.Broken)
	}
}

func TestUserWithoutPasswordIsLetIn(t *testing.T) {
	server := servers.StartRedis(t)
	mustDo(t, server.Client(t), "ACL", "SETUSER", "open", "on", "nopass", "~*", "+@all")
	for _, protocol := range []int{2, 3} {
		c := server.Client(t, func(o *redis.Options) { o.Username, o.Protocol = "open", protocol })
		if got, err := c.Do(t.Context(), "ACL", "WHOAMI").String(); got != "open" || err != nil {
			t.Errorf("RESP%d: %q, %v", protocol, got, err)
		}
	}
}

func TestUserWithoutTheRightIsRefused(t *testing.T) {
	server := servers.StartRedis(t)
	admin := server.Client(t)
	mustDo(t, admin, "SET", "k:1", "v")
	mustDo(t, admin, "ACL", "SETUSER", "reader", "on", ">hidden", "~k:*", "+get", "+mget", "+hello", "&news")
	c := server.Client(t, func(o *redis.Options) { o.Username, o.Password = "reader", "hidden" })
	if b, err := c.AppendGet(t.Context(), nil, "k:1"); string(b) != "v" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	refusal(t, c.Set(t.Context(), "k:1", nil, 0), "NOPERM")
	_, err := c.AppendGet(t.Context(), nil, "other")
	refusal(t, err, "NOPERM")
	refusal(t, c.MGet(t.Context(), []string{"k:1", "other"}, nil), "NOPERM")
	refusal(t, c.Eval(t.Context(), redis.NewScript("return 1"), nil).Err(), "NOPERM")
	refusal(t, c.SetFrom(t.Context(), "k:1", io.LimitReader(neverEnding{}, 1<<20), 1<<20, 0), "NOPERM")
	tx := c.Multi()
	tx.Get("k:1")
	_, err = tx.Do(t.Context()) // MULTI is not permitted, GET is
	if err == nil || redis.SafeToRetry(err) {
		t.Errorf("transaction: %v", err)
	}
	sub, err := c.Subscribe(t.Context(), "news")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the subscription is refused", func() bool {
		var refused *redis.Error
		return errors.As(sub.Err(), &refused) && refused.Code == "NOPERM"
	})
	sub.Close()
	// Rights and passwords change under a client that asks for them.
	user, password := "reader", "wrong"
	var mu sync.Mutex
	asks := server.Client(t, func(o *redis.Options) {
		o.Credentials = func(context.Context) (string, string, error) {
			mu.Lock()
			defer mu.Unlock()
			return user, password, nil
		}
	})
	err = asks.Do(t.Context(), "GET", "k:1").Err()
	refusal(t, err, "WRONGPASS")
	mu.Lock()
	password = "hidden"
	mu.Unlock()
	eventually(t, "the right password is used", func() bool { return asks.Do(t.Context(), "GET", "k:1").Err() == nil })
}

func TestReplicaThatTakesOverIsWrittenTo(t *testing.T) {
	primary := servers.StartRedis(t)
	_, port, _ := strings.Cut(primary.Addr, ":")
	replica := servers.StartRedis(t, "--replicaof", "127.0.0.1", port)
	addr := replica.Addr
	var mu sync.Mutex
	var line servers.Line
	c := primary.Client(t, func(o *redis.Options) {
		o.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			mu.Lock()
			at := addr
			mu.Unlock()
			return line.DialContext(ctx, network, at)
		}
	})
	for _, err := range []error{
		c.Set(t.Context(), "k", []byte("v"), 0),
		c.Set(t.Context(), "k", make([]byte, 100_000), 0),
	} {
		refusal(t, err, "READONLY")
	}
	mu.Lock()
	addr = primary.Addr
	mu.Unlock()
	eventually(t, "the connections to the replica are left", func() bool { return c.Set(t.Context(), "k", []byte("v"), 0) == nil })
	if b, err := primary.Client(t).AppendGet(t.Context(), nil, "k"); string(b) != "v" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

func TestValueThatTheServerDoesNotTakeIsAnError(t *testing.T) {
	server := servers.StartRedis(t, "--proto-max-bulk-len", "1mb")
	c := server.Client(t)
	mustDo(t, c, "SET", "k", "old")
	for name, call := range map[string]func() error{
		"Set":     func() error { return c.Set(t.Context(), "k", make([]byte, 2<<20), 0) },
		"SetFrom": func() error { return c.SetFrom(t.Context(), "k", io.LimitReader(neverEnding{}, 2<<20), 2<<20, 0) },
	} {
		err := call()
		var refused *redis.Error
		var broken *redis.ConnError
		if !errors.As(err, &refused) && !errors.As(err, &broken) {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := c.AppendGet(t.Context(), nil, "k"); string(b) != "old" || err != nil {
			t.Errorf("after %s: %d bytes, %v", name, len(b), err)
		}
	}
	limited := server.Client(t, func(o *redis.Options) { o.MaxValue = 1 << 20 })
	if err := limited.Set(t.Context(), "k", make([]byte, 2<<20), 0); !errors.Is(err, redis.ErrTooLarge) || limited.Stats().Dials != 0 {
		t.Errorf("%v, %d connections", err, limited.Stats().Dials)
	}
}

// TestValuesGoBothWays: each way of reading returns the value that any way of
// writing has stored, over both kinds of sockets.
func TestValuesGoBothWays(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	server := servers.StartRedis(t)
	for _, network := range []string{"tcp", "unix"} {
		c := server.Client(t, func(o *redis.Options) {
			if network == "unix" {
				o.Network, o.Addr = network, server.Socket
			}
		})
		for _, n := range []int{0, 1, 1000, 4096, 16 << 10, 17_000, 64 << 10, 65<<10 + 3, 1 << 20, 5<<20 + 1} {
			want := bytes.Repeat([]byte("0123456789abcde"), n/15+1)[:n]
			for name, write := range writings(t.Context(), c, "k", want) {
				mustDo(t, c, "DEL", "k")
				if err := write(); err != nil {
					t.Fatalf("%s, %s, %d bytes: %v", network, name, n, err)
				}
				holds(t, c, "k", want, fmt.Sprintf("%s, %s", network, name))
			}
		}
	}
}

// writings are the ways of writing a value.
func writings(ctx context.Context, c *redis.Client, key string, value []byte) map[string]func() error {
	n := int64(len(value))
	return map[string]func() error{
		"Set": func() error { return c.Set(ctx, key, value, time.Hour) },
		"Do":  func() error { return c.Do(ctx, "SET", key, value).Ok() },
		"pipeline": func() error {
			p := c.Pipeline()
			p.Set(key, value, 0)
			return p.Each(ctx, func(_ int, r redis.Reply) error { return r.Ok() })
		},
		"SetFrom":                   func() error { return c.SetFrom(ctx, key, io.MultiReader(bytes.NewReader(value)), n, 0) },
		"SetFrom of a known reader": func() error { return c.SetFrom(ctx, key, bytes.NewReader(value), n, 0) },
		"SetFrom of unknown size":   func() error { return c.SetFrom(ctx, key, bytes.NewReader(value), -1, 0) },
	}
}

// holds reads a key in all ways.
func holds(t *testing.T, c *redis.Client, key string, want []byte, where string) {
	t.Helper()
	for how, got := range readings(t, c, key) {
		if !bytes.Equal(got, want) {
			t.Errorf("%s, %s: %d of %d bytes", where, how, len(got), len(want))
		}
	}
}

// readings reads a key in all ways.
func readings(t *testing.T, c *redis.Client, key string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	note := func(how string, b []byte, err error) {
		if err != nil {
			t.Errorf("%s: %v", how, err)
		}
		all[how] = b
	}
	b, err := c.AppendGet(t.Context(), nil, key)
	note("AppendGet", b, err)
	b, err = c.AppendGet(t.Context(), make([]byte, 0, 6<<20), key)
	note("AppendGet into room", b, err)
	b, err = c.Do(t.Context(), "GET", key).Bytes()
	note("Do", b, err)
	var to bytes.Buffer
	_, err = c.GetTo(t.Context(), key, &to)
	note("GetTo", to.Bytes(), err)
	s, err := c.Stream(t.Context(), "GET", key)
	if err == nil {
		b, err = io.ReadAll(s)
		s.Close()
	}
	note("Stream", b, err)
	p := c.Pipeline()
	p.Get(key)
	p.Get(key)
	note("Each", nil, p.Each(t.Context(), func(i int, r redis.Reply) error {
		v, err := r.Append(nil)
		note(fmt.Sprint("Each ", i), v, err)
		return err
	}))
	delete(all, "Each")
	note("MGet", nil, c.MGet(t.Context(), []string{key, key, key}, func(i int, v []byte, found bool) error {
		note(fmt.Sprint("MGet ", i), bytes.Clone(v), nil)
		if !found {
			return errors.New("not found")
		}
		return nil
	}))
	delete(all, "MGet")
	return all
}

func TestReaderThatBreaksOffLeavesTheOldValue(t *testing.T) {
	server := servers.StartRedis(t)
	c := server.Client(t)
	mustDo(t, c, "SET", "k", "old")
	for _, n := range []int64{100, 100_000, 3 << 20} {
		broken := io.MultiReader(io.LimitReader(neverEnding{}, n), failing{})
		if err := c.SetFrom(t.Context(), "k", broken, 5<<20, 0); !errors.Is(err, os.ErrPermission) {
			t.Errorf("after %d bytes: %v", n, err)
		}
		if v, err := c.Do(t.Context(), "GET", "k").String(); v != "old" || err != nil {
			t.Errorf("after %d bytes: %d of them, %v", n, len(v), err)
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, os.ErrPermission }

func TestSubscriptionsOfAllKindsOutliveARestart(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	server := servers.StartRedis(t)
	for name, tc := range map[string]struct {
		subscribe func(c *redis.Client, ctx context.Context) (*redis.Subscription, error)
		publish   string
	}{
		"channels": {func(c *redis.Client, ctx context.Context) (*redis.Subscription, error) {
			return c.Subscribe(ctx, "news:eu")
		}, "PUBLISH"},
		"patterns": {func(c *redis.Client, ctx context.Context) (*redis.Subscription, error) {
			return c.PSubscribe(ctx, "news:*")
		}, "PUBLISH"},
		"sharded": {func(c *redis.Client, ctx context.Context) (*redis.Subscription, error) {
			return c.SSubscribe(ctx, "news:eu")
		}, "SPUBLISH"},
	} {
		for _, protocol := range []int{2, 3} {
			c := server.Client(t, func(o *redis.Options) { o.Protocol = protocol })
			sub, err := tc.subscribe(c, t.Context())
			if err != nil {
				t.Fatal(err)
			}
			event := func(kind redis.EventKind) redis.Event {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				e, err := sub.Next(ctx)
				if err != nil || e.Kind != kind {
					t.Fatalf("%s, protocol %d: %+v, %v; want %d", name, protocol, e, err, kind)
				}
				return e
			}
			for round := range 2 {
				event(redis.Subscribed)
				if n, err := c.Do(t.Context(), tc.publish, "news:eu", "text").Int(); n != 1 || err != nil {
					t.Errorf("%s: %d subscribers, %v", name, n, err)
				}
				if e := event(redis.Received); e.Channel != "news:eu" || string(e.Payload) != "text" || (e.Pattern != "") != (name == "patterns") {
					t.Errorf("%s: %+v", name, e)
				}
				if round == 0 {
					server.Kill()
					server.Restart()
					event(redis.Gap)
				}
			}
			sub.Close()
		}
	}
}
