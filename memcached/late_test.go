package memcached_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/testing/fakememcached"
	"github.com/strata-cache/strata/memcached"
)

// TestErrorAfterTheDeadlineIsThatOfTheContext has all limits of a client end, and its
// connections fail, at the instant of the deadline of its caller.
func TestErrorAfterTheDeadlineIsThatOfTheContext(t *testing.T) {
	calls := map[string]func(context.Context, *memcached.Client) error{
		"AppendGet": func(ctx context.Context, c *memcached.Client) error { _, err := get(ctx, c, "key"); return err },
		"Set": func(ctx context.Context, c *memcached.Client) error {
			return c.Set(ctx, memcached.Item{Key: "key", Value: []byte("v")})
		},
		"large Set": func(ctx context.Context, c *memcached.Client) error {
			return c.Set(ctx, memcached.Item{Key: "key", Value: []byte(strings.Repeat("x", 100_000))})
		},
		"GetTo": func(ctx context.Context, c *memcached.Client) error {
			_, err := c.GetTo(ctx, "key", &bytes.Buffer{})
			return err
		},
		"GetMany": func(ctx context.Context, c *memcached.Client) error {
			_, err := c.GetMany(ctx, []string{"key", "other"})
			return err
		},
	}
	silent := func(s *fakememcached.Server) {
		s.Gate = func(_ *fakememcached.Session, c *meta.Command) bool { return c.Name == "mg" || c.Name == "ms" }
	}
	for event, change := range map[string]func(*fakememcached.Server, *memcached.Options){
		"no reply": func(s *fakememcached.Server, _ *memcached.Options) { silent(s) },
		"no connection": func(_ *fakememcached.Server, o *memcached.Options) {
			o.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, errors.New("no route to the host")
			}
		},
		"dead server": func(_ *fakememcached.Server, o *memcached.Options) {
			o.Fleet.Dead = memcached.DeadMisses
			o.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, errors.New("no route to the host")
			}
		},
		"connection lost": func(s *fakememcached.Server, o *memcached.Options) {
			silent(s)
			dial := o.DialContext
			o.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := dial(ctx, network, addr)
				if err == nil {
					time.AfterFunc(time.Second, func() { nc.Close() })
				}
				return mute{nc}, err
			}
		},
	} {
		for name, call := range calls {
			t.Run(event+"/"+name, func(t *testing.T) {
				for range 20 { // the timer that runs first is chosen at random
					fake(t, func(s *fakememcached.Server, o *memcached.Options) {
						o.Timeout, o.DialTimeout = time.Second, time.Second
						change(s, o)
					}, func(t *testing.T, _ *fakememcached.Server, c *memcached.Client) {
						ctx := within(t, time.Second)
						if event != "no reply" {
							ctx = hasty{t.Context(), time.Now().Add(time.Second)}
						}
						if err := call(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
						}
					})
				}
			})
		}
	}
}

// hasty is a context with a deadline that seems far until it has passed: it stands for a
// call that runs late, after an event of the same instant.
type hasty struct {
	context.Context
	until time.Time
}

func (h hasty) Deadline() (time.Time, bool) {
	if time.Now().Before(h.until) {
		return h.until.Add(time.Hour), true
	}
	return h.until, true
}

// mute is a connection that fails like one closed by the peer.
type mute struct{ net.Conn }

func (m mute) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if errors.Is(err, net.ErrClosed) {
		err = io.EOF
	}
	return n, err
}
