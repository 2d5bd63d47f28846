package redis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/redis"
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// TestFunctionsOfOptionsThatPanicOrExitAreAnError: they run on goroutines of
// the client, not of callers. They block no call that makes them run.
func TestFunctionsOfOptionsThatPanicOrExitAreAnError(t *testing.T) {
	for name, bad := range map[string]dialFunc{
		"panics":  func(context.Context, string, string) (net.Conn, error) { panic("hidden") },
		"exits":   func(context.Context, string, string) (net.Conn, error) { runtime.Goexit(); return nil, nil },
		"nothing": func(context.Context, string, string) (net.Conn, error) { return nil, nil },
	} {
		for _, cluster := range []bool{false, true} {
			var works atomic.Bool
			change := func(s *fakes.Redis, o *redis.Options) {
				o.MaxConns, o.MaxIdle, o.Cluster = 1, 1, cluster
				o.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if !works.Load() {
						return bad(ctx, network, addr)
					}
					return s.Dial(ctx, network, addr)
				}
			}
			fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
				sub, err := c.Subscribe(t.Context(), "a")
				if err != nil {
					t.Fatal(err)
				}
				err = c.Ping(kit.Within(t, 10*time.Second))
				if !errors.As(err, new(*redis.ConnError)) || !redis.SafeToRetry(err) || strings.Contains(err.Error(), "hidden") {
					t.Errorf("%s: %v", name, err)
				}
				if cluster {
					return // the model is no cluster
				}
				works.Store(true)
				time.Sleep(2 * time.Second) // of holding back
				if err := c.Ping(t.Context()); err != nil {
					t.Errorf("%s, then: %v", name, err)
				}
				want(t, sub, redis.Subscribed, "")
			})
		}
	}
}

func TestCallbackOfTLSThatPanicsIsAnErrorAndClosesTheConnection(t *testing.T) {
	change := func(_ *fakes.Redis, o *redis.Options) {
		o.TLS = &tls.Config{ServerName: "x", ClientSessionCache: panickingCache{}}
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		if err := c.Ping(t.Context()); !errors.As(err, new(*redis.ConnError)) {
			t.Error(err)
		}
		synctest.Wait()
		if n := s.Open(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
	})
}

type panickingCache struct{ tls.ClientSessionCache }

func (panickingCache) Get(string) (*tls.ClientSessionState, bool) { panic("mine") }

// TestCallbackThatPanicsLeavesNoWriter: the pipeline and the values in it
// are the caller's again.
func TestCallbackThatPanicsLeavesNoWriter(t *testing.T) {
	change := func(s *fakes.Redis, o *redis.Options) {
		o.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := s.Dial(ctx, network, addr)
			return plainConn{Conn: nc}, err
		}
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		p := c.Pipeline()
		value := make([]byte, 256<<10)
		for range 3 {
			for range 20 {
				p.Set("k", value, 0)
			}
			func() {
				defer func() { _ = recover() }()
				p.Each(t.Context(), func(int, redis.Reply) error { panic("mine") })
			}()
			if p.Len() != 0 {
				t.Errorf("%d commands are left", p.Len())
			}
			value[0]++ // the race detector looks
		}
	})
}

// TestPanicLeavesNothingAtTheContext: a context may live much longer.
func TestPanicLeavesNothingAtTheContext(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		ctx := &counting{Context: t.Context(), done: make(chan struct{})}
		for range 3 {
			func() {
				defer func() { _ = recover() }()
				c.MGet(ctx, []string{"k"}, func(int, []byte, bool) error { panic("mine") })
			}()
		}
		if ctx.left != 0 || ctx.came == 0 {
			t.Errorf("%d of %d functions are left at the context", ctx.left, ctx.came)
		}
	})
}

// counting counts the functions that wait for the end of a context.
type counting struct {
	context.Context
	done       chan struct{}
	came, left int
}

func (c *counting) Done() <-chan struct{} { return c.done }

// AfterFunc is called by package context.
func (c *counting) AfterFunc(func()) (stop func() bool) {
	c.came++
	c.left++
	first := true
	return func() bool {
		if first {
			first = false
			c.left--
		}
		return true
	}
}
