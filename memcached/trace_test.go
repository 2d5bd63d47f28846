package memcached_test

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
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/remote"
)

// traces returns commands of the only server.
func traces() *kit.Traces {
	return &kit.Traces{Text: func(c remote.Command) string {
		if c.System != "memcached" || c.Network != "tcp" || c.Addr != "localhost:11211" {
			return fmt.Sprint(c.Name, " of ", c)
		}
		return c.Name
	}}
}

func TestTraceIsToldOfEachCommand(t *testing.T) {
	for _, protocol := range []memcached.Protocol{memcached.Auto, memcached.Classic} {
		r := traces()
		fake(t, func(_ *fakes.Memcached, o *memcached.Options) { o.Trace, o.Protocol = r.Trace, protocol },
			func(t *testing.T, _ *fakes.Memcached, c *memcached.Client) {
				ctx := t.Context()
				mustSet(t, c, "key", "value")
				_, _ = c.Get(ctx, "key")
				_, _ = c.Get(ctx, "no key at all")
				_, _ = c.Get(ctx, "missing")
				_ = c.Add(ctx, memcached.Item{Key: "key"})
				_ = c.Delete(ctx, "key")
				_, _ = c.GetMany(ctx, []string{"key", "missing"})
				_ = c.SetMany(ctx, []memcached.Item{{Key: "a"}, {Key: "b"}})
				_ = c.SetMany(ctx, []memcached.Item{{Key: "a"}})
				_ = c.DeleteMany(ctx, []string{"x", "y"})
				_, _ = c.GetTo(ctx, "a", &bytes.Buffer{})
				_ = c.SetFrom(ctx, memcached.Item{Key: "large"}, strings.NewReader(strings.Repeat("x", 100_000)), 100_000)
				_ = c.Ping(ctx)
				_, _ = c.Stats(ctx, "items")
				if protocol == memcached.Classic {
					r.Expect(t, "set", "gets", "gets", "add", "delete", "gets", "PIPELINE set, 2 together", "set", "PIPELINE delete, 2 together", "get", "set", "get", "stats")
				} else {
					r.Expect(t, "ms", "mg", "mg", "ms", "md", "gets", "PIPELINE ms, 2 together", "ms", "PIPELINE md, 2 together", "mg", "ms", "mn", "stats")
				}
			})
	}
}

func TestTraceIsToldHowCommandsEnd(t *testing.T) {
	r := traces()
	fake(t, func(s *fakes.Memcached, o *memcached.Options) {
		o.Trace = r.Trace
		o.MaxValue = 2 << 20
	}, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		if err := c.Set(t.Context(), memcached.Item{Key: "large", Value: make([]byte, 3<<19)}); err == nil {
			t.Error("the server has stored too much")
		}
		r.Expect(t, "ms, SERVER_ERROR, error")
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if _, err := c.Get(ctx, "key"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		r.Expect(t, "mg, error")
	})
}

func TestTraceIsToldForWhichCacheCommandsAre(t *testing.T) {
	var o kit.Owners
	fake(t, func(_ *fakes.Memcached, opts *memcached.Options) { opts.Trace = o.Trace }, func(t *testing.T, _ *fakes.Memcached, c *memcached.Client) {
		mustSet(t, c, "key", "value")
		o.Only(t, " of , upkeep false")
		users := memcached.NewTier(c).Bind(remote.Space{Name: remote.SpaceName("shop", "users")}).(*memcached.Tier)
		for _, use := range []func(){
			func() { _, _ = users.Get(t.Context(), []string{"a"}) },
			func() { _, _ = users.Get(t.Context(), []string{"a", "b"}) },
			func() { _, _ = users.Acquire(t.Context(), []remote.Request{{Key: "a"}}, time.Second) },
			func() { _, _ = users.Drop(t.Context(), []remote.Drop{{Key: "a"}, {Key: "b"}}) },
			func() { _ = users.DropAll(t.Context(), false) },
			func() { _ = users.DropTags(t.Context(), []string{"t"}, false) },
		} {
			use()
			o.Only(t, "users of shop, upkeep false")
		}
	})
}

// TestTrialOfAnEjectedServerIsUpkeep has a server that comes back.
func TestTrialOfAnEjectedServerIsUpkeep(t *testing.T) {
	var o kit.Owners
	three(t, func(opts *memcached.Options) { opts.Trace = o.Trace }, func(t *testing.T, q *squad, c *memcached.Client) {
		q.members[1].Stop()
		eject(t, q, c, 1)
		q.members[1].Start()
		for len(c.Ejected()) > 0 {
			_, _ = get(t.Context(), c, q.keys(1, 1)[0])
			time.Sleep(time.Second)
		}
		o.These(t, " of , upkeep true", " of , upkeep false")
	})
}
