package redis_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// traces returns commands with the server and the database of each.
func traces() *kit.Traces {
	return &kit.Traces{Text: func(c remote.Command) string {
		line := fmt.Sprintf("%s at %s/%d", c.Name, c.Addr, c.DB)
		if c.System != "redis" || c.Network != "tcp" {
			line += fmt.Sprint(" of ", c)
		}
		return line
	}}
}

// traced runs f with a client that traces its commands.
func traced(t *testing.T, f func(t *testing.T, r *kit.Traces, s *fakes.Redis, c *redis.Client)) {
	t.Helper()
	r := traces()
	fake(t, func(_ *fakes.Redis, o *redis.Options) { o.Addr, o.Trace = "cache.example:6379", r.Trace },
		func(t *testing.T, s *fakes.Redis, c *redis.Client) { f(t, r, s, c) })
}

func TestTraceIsToldOfEachCommand(t *testing.T) {
	traced(t, func(t *testing.T, r *kit.Traces, s *fakes.Redis, c *redis.Client) {
		const at = " at cache.example:6379/0"
		ctx := t.Context()
		mustSet(t, c, "key", "value")
		_ = c.Set(ctx, "key", []byte("value"), time.Minute)
		_, _ = get(ctx, c, "key")
		_, _ = get(ctx, c, "no key")
		_ = c.MGet(ctx, []string{"key", "no key"}, func(int, []byte, bool) error { return nil })
		_, _ = c.GetTo(ctx, "key", &bytes.Buffer{})
		_ = c.SetFrom(ctx, "large", strings.NewReader(strings.Repeat("x", 100_000)), 100_000, 0)
		r.Expect(t, "SET"+at, "SET"+at, "GET"+at, "GET"+at, "MGET"+at, "GET"+at, "SET"+at)

		p := c.Pipeline()
		p.Get("key")
		p.Get("no key")
		_, _ = p.Do(ctx)
		p = c.Multi()
		p.Add("INCR", "n")
		_, _ = p.Do(ctx)
		_, _ = c.Watch(ctx, []string{"key"}, func(tx *redis.Tx) error {
			_ = tx.Do("GET", "key")
			tx.Queue().Add("INCR", "n")
			return nil
		})
		r.Expect(t, "PIPELINE"+at+", 2 together", "MULTI"+at+", 1 together", "WATCH"+at, "GET"+at, "MULTI"+at+", 1 together")

		const text = "return 1"
		s.Script(text, func(ss *fakes.RedisSession, _ [][]byte) { ss.Out = append(ss.Out, ":1\r\n"...) })
		_ = c.Eval(ctx, redis.NewScript(text), []string{"key"})
		_ = c.Eval(ctx, redis.NewScript(text), []string{"key"})
		const digest = ", script e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
		r.Expect(t, "EVALSHA"+at+digest+", NOSCRIPT, error", "EVAL"+at+digest, "EVALSHA"+at+digest)
	})
}

func TestTraceIsToldHowCommandsEnd(t *testing.T) {
	traced(t, func(t *testing.T, r *kit.Traces, s *fakes.Redis, c *redis.Client) {
		const at = " at cache.example:6379/0"
		answer(s, "-WRONGTYPE Operation against a key\r\n")
		_, _ = get(t.Context(), c, "key")
		_ = c.Do(t.Context(), "GET", "key")
		_, _ = c.GetTo(t.Context(), "key", &bytes.Buffer{})
		r.Expect(t, "GET"+at+", WRONGTYPE, error", "GET"+at+", WRONGTYPE, error", "GET"+at+", WRONGTYPE, error")
		s.Handle("GET", func(*fakes.RedisSession, [][]byte) {}) // no answer
		if _, err := get(kit.Within(t, time.Second), c, "key"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		r.Expect(t, "GET"+at+", error")
		func() {
			defer func() { _ = recover() }()
			mustSet(t, c, "a", "b")
			_ = c.MGet(t.Context(), []string{"a"}, func(int, []byte, bool) error { panic("a callback") })
		}()
		r.Expect(t, "SET"+at, "MGET"+at+", error")
	})
}

func TestTraceMayLeaveCommandsOut(t *testing.T) {
	asked := 0
	fake(t, func(_ *fakes.Redis, o *redis.Options) {
		o.Trace = func(context.Context, remote.Command) func(remote.CommandEnd) {
			asked++
			return nil
		}
	}, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "key", "value")
		if v, err := get(t.Context(), c, "key"); v != "value" || err != nil || asked != 2 {
			t.Errorf("got %q, %v; the Trace was asked %d times", v, err, asked)
		}
	})
}

func TestTraceNamesTheScriptsOfATier(t *testing.T) {
	traced(t, func(t *testing.T, r *kit.Traces, _ *fakes.Redis, c *redis.Client) {
		tier := redis.NewTier(c).Bind(remote.Space{Name: "users"})
		_, _ = tier.Get(t.Context(), []string{"key-of-ann"})
		_, _ = tier.Drop(t.Context(), []remote.Drop{{Key: "key-of-ann"}})
		all := strings.Join(r.Take(), "\n")
		for _, want := range []string{"PIPELINE at cache.example:6379/0, 2 together", "EVALSHA at cache.example:6379/0, script strata.drop, NOSCRIPT", "EVAL at cache.example:6379/0, script strata.drop"} {
			if !strings.Contains(all, want) {
				t.Errorf("%q is missing in\n%s", want, all)
			}
		}
		if strings.Contains(all, "ann") {
			t.Errorf("a key in\n%s", all)
		}
	})
}

func TestTraceIsToldForWhichCacheCommandsAre(t *testing.T) {
	var o kit.Owners
	fake(t, func(_ *fakes.Redis, opts *redis.Options) { opts.Trace = o.Trace }, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "key", "value")
		o.Only(t, " of , upkeep false")
		tier, bus := redis.NewTier(c), redis.NewBus(c)
		users := tier.Bind(remote.Space{Name: remote.SpaceName("shop", "users")}).(*redis.Tier)
		for _, use := range []func(){
			func() { _, _ = users.Get(t.Context(), []string{"a"}) },
			func() { _, _ = users.Get(t.Context(), []string{"a", "b"}) },
			func() { _, _ = users.Read(t.Context(), 0, "a", nil) },
			func() { _, _ = users.Acquire(t.Context(), []remote.Request{{Key: "a"}}, time.Second) },
			func() { _, _ = users.Drop(t.Context(), []remote.Drop{{Key: "a"}, {Key: "b"}}) },
			func() { _ = users.DropAll(t.Context(), false) },
			func() { _, _ = users.Position(t.Context()) },
			func() { _, _ = users.Probe(t.Context()) },
			func() { _ = bus.Publish(t.Context(), []remote.Message{{Name: "shop{users", Kind: remote.Beat}}) },
		} {
			use()
			o.Only(t, "users of shop, upkeep false")
		}
		_, _ = tier.Bind(remote.Space{Name: "sessions"}).Get(t.Context(), []string{"a", "b"})
		o.Only(t, "sessions of , upkeep false")
		defer bus.Follow("shop{users", func(remote.Event) {})()
		time.Sleep(time.Minute)
		o.Only(t, " of , upkeep true") // the bus proves that messages arrive
	})
}

// TestTraceIsToldTheCauseAndKeepsIt lets a server fall silent in the middle of a call, and looks at
// the told errors when the call has ended: a slow Trace reads them as late.
func TestTraceIsToldTheCauseAndKeepsIt(t *testing.T) {
	type end struct {
		err  error
		text string
	}
	var told []end
	trace := func(context.Context, remote.Command) func(remote.CommandEnd) {
		return func(e remote.CommandEnd) { told = append(told, end{e.Err, fmt.Sprint(e.Err)}) }
	}
	fake(t, func(_ *fakes.Redis, o *redis.Options) { o.Trace = trace }, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		tier := redis.NewTier(c).Bind(remote.Space{Name: "users"}).(*redis.Tier)
		mustSet(t, c, "a", "b")
		silent := func(*fakes.RedisSession, [][]byte) {}
		for _, name := range []string{"HMGET", "HGETALL", "GET"} {
			s.Handle(name, silent)
		}
		for name, call := range map[string]func(context.Context) error{
			"Tags": func(ctx context.Context) error { _, err := tier.Tags(ctx, []string{"t"}); return err },
			"Watch": func(ctx context.Context) error {
				_, err := c.Watch(ctx, []string{"a"}, func(tx *redis.Tx) error { return tx.Do("GET", "a").Err() })
				return err
			},
		} {
			told = nil
			if err := call(kit.Within(t, time.Second)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			if len(told) == 0 {
				t.Errorf("%s: the Trace was told nothing", name)
			}
			for i, e := range told {
				if e.err != nil && !errors.Is(e.err, context.DeadlineExceeded) || fmt.Sprint(e.err) != e.text {
					t.Errorf("%s: the Trace was told %q as end %d of %d, which became %v", name, e.text, i+1, len(told), e.err)
				}
			}
		}
	})
}
