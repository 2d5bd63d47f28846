package redis_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/redis"
)

// slowly makes a command that takes d, and reports how many ran at once.
func slowly(s *fakes.Redis, d time.Duration) *atomic.Int64 {
	var now, most atomic.Int64
	s.Handle("SLOW", func(ss *fakes.RedisSession, _ [][]byte) {
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(d)
		now.Add(-1)
		ss.Status("OK")
	})
	return &most
}

// burst runs n calls at once.
func burst(t *testing.T, c *redis.Client, n int, args ...any) {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := c.Do(kit.Within(t, time.Hour), args...).Err(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestPoolIsBounded(t *testing.T) {
	change := func(_ *fakes.Redis, o *redis.Options) {
		o.MaxConns, o.MaxIdle, o.IdleTimeout, o.MaxLifetime = 4, 2, time.Minute, time.Hour
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		most := slowly(s, 10*time.Millisecond)
		burst(t, c, 100, "SLOW")
		synctest.Wait()
		if most.Load() != 4 || s.Open() != 2 {
			t.Errorf("%d at once, %d kept", most.Load(), s.Open())
		}
		if st := c.Stats(); st.Dials != 4 || st.Open != 2 || st.Idle != 2 || st.Waiting != 0 || st.Reused+st.Waited != 100 {
			t.Errorf("%+v", st)
		}
		// One is used, the other grows old.
		for range 3 {
			time.Sleep(40 * time.Second)
			c.Ping(t.Context())
		}
		synctest.Wait()
		if s.Open() != 1 || s.Dials() != 4 {
			t.Errorf("%d open after %d dials", s.Open(), s.Dials())
		}
		for range 100 {
			time.Sleep(40 * time.Second)
			c.Ping(t.Context())
		}
		synctest.Wait()
		if s.Open() != 1 || s.Dials() != 5 {
			t.Errorf("%d open after %d dials, lifetime ignored", s.Open(), s.Dials())
		}
	})
}

// TestConnectionInUseIsReplacedAfterItsLifetime: also a connection that is never
// idle for long, shared or not.
func TestConnectionInUseIsReplacedAfterItsLifetime(t *testing.T) {
	for _, u := range uses() {
		change := func(s *fakes.Redis, o *redis.Options) {
			keep(s)
			o.MaxLifetime = time.Second
		}
		fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			for range 1000 {
				if got, err := u.call(t.Context(), c, "k"); got != "own" || err != nil {
					t.Fatalf("%s: %q, %v", u.name, got, err)
				}
				time.Sleep(5 * time.Millisecond)
			}
			if n := s.Dials(); n < 4 || n > 6 {
				t.Errorf("%s: %d connections in 5 s", u.name, n)
			}
		})
	}
}

func TestWaitingForAConnectionObeysTheContext(t *testing.T) {
	fake(t, func(_ *fakes.Redis, o *redis.Options) { o.MaxConns = 1 }, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		slowly(s, time.Minute)
		var wg sync.WaitGroup
		wg.Go(func() { burst(t, c, 1, "SLOW") })
		synctest.Wait()

		start := time.Now()
		err := c.Ping(kit.Within(t, 50*time.Millisecond))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 50*time.Millisecond || !redis.SafeToRetry(err) {
			t.Errorf("deadline: %v after %v", err, time.Since(start))
		}
		start = time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if err := c.Ping(ctx); !errors.Is(err, context.Canceled) || time.Since(start) != 50*time.Millisecond {
			t.Errorf("cancel: %v after %v", err, time.Since(start))
		}
		start = time.Now()
		if err := c.Ping(context.Background()); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("no deadline: %v after %v", err, time.Since(start))
		}
		if err := c.Ping(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
		if st := c.Stats(); st.Expired != 3 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
		wg.Wait()
	})
}

func TestNoWaiterIsLost(t *testing.T) {
	fake(t, func(_ *fakes.Redis, o *redis.Options) { o.MaxConns = 2 }, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		s.Handle("LAST", func(ss *fakes.RedisSession, _ [][]byte) {
			time.Sleep(time.Millisecond)
			ss.Status("OK")
			ss.Hangup()
		})
		// Every connection dies after one call; calls that wait get new ones.
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for {
					err := c.Do(kit.Within(t, time.Minute), "LAST").Err()
					if err == nil {
						return
					}
					if errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestDialIsNotBoundToTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakes.NewRedis()
		defer s.Close()
		c, err := redis.New(redis.Options{DialTimeout: 2 * time.Second, DialContext: func(ctx context.Context, n, a string) (net.Conn, error) {
			time.Sleep(time.Second)
			return s.Dial(ctx, n, a)
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		start := time.Now()
		if err := c.Ping(kit.Within(t, 200*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 200*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		time.Sleep(time.Second)
		if err := c.Ping(kit.Within(t, time.Millisecond)); err != nil || s.Dials() != 1 {
			t.Errorf("%v, %d dials: the connection was not kept", err, s.Dials())
		}
	})
}

func TestDialTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := redis.New(redis.Options{DialTimeout: 3 * time.Second, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		err = c.Ping(kit.Within(t, time.Minute))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second || !redis.SafeToRetry(err) {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		time.Sleep(time.Second)
		// Close does not wait for the dial timeout.
		go c.Ping(t.Context())
		synctest.Wait()
		start = time.Now()
		c.Close()
		if time.Since(start) != 0 {
			t.Errorf("Close took %v", time.Since(start))
		}
	})
}

func TestDeadServerIsNotDialledInAStorm(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		s.Stop()
		start := time.Now()
		for time.Since(start) < 10*time.Second {
			at := time.Now()
			err := c.Ping(t.Context())
			if !errors.Is(err, fakes.ErrRefused) || !redis.SafeToRetry(err) {
				t.Fatal(err)
			}
			if time.Since(at) != 0 {
				t.Fatalf("a call took %v to fail", time.Since(at))
			}
			time.Sleep(time.Millisecond)
		}
		if n := s.Dials(); n < 10 || n > 30 {
			t.Errorf("%d dials in 10 s", n)
		}
		s.Start()
		at := time.Now()
		for c.Ping(t.Context()) != nil {
			time.Sleep(time.Millisecond)
		}
		if time.Since(at) > time.Second {
			t.Errorf("back after %v", time.Since(at))
		}
	})
}

func TestManyCallersFailTogetherOnADeadServer(t *testing.T) {
	fake(t, func(_ *fakes.Redis, o *redis.Options) { o.MaxConns = 8 }, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		s.Stop()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				for range 100 {
					if err := c.Ping(t.Context()); !errors.Is(err, fakes.ErrRefused) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := s.Dials(); n > 8 {
			t.Errorf("%d dials", n)
		}
	})
}

func TestRestartCostsNoFailedRead(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		slowly(s, time.Millisecond)
		burst(t, c, 6, "SLOW")
		if n := c.Stats().Idle; n != 6 {
			t.Fatalf("%d idle", n)
		}
		s.Drop()
		for range 10 {
			if v, err := get(t.Context(), c, "k"); v != "v" || err != nil {
				t.Errorf("%q, %v", v, err)
			}
		}
		// The shared connection notices on behalf of the six idle ones.
		if st := c.Stats(); st.Stale != 7 || st.Retried != 1 || st.Open != 1 || s.Dials() != 8 {
			t.Errorf("%+v, %d dials", st, s.Dials())
		}
	})
}

func TestOnlyHarmlessCallsAreSentTwice(t *testing.T) {
	calls := []struct {
		name string
		call func(ctx context.Context, c *redis.Client) error
		sent int
	}{
		{"GET", func(ctx context.Context, c *redis.Client) error { _, err := c.AppendGet(ctx, nil, "k"); return err }, 2},
		{"GET", func(ctx context.Context, c *redis.Client) error { return c.Do(ctx, "get", "k").Err() }, 2},
		{"GET", func(ctx context.Context, c *redis.Client) error { _, err := c.Stream(ctx, "GET", "k"); return err }, 2},
		{"GET", func(ctx context.Context, c *redis.Client) error {
			p := c.Pipeline()
			p.Add("GET", "k")
			_, err := p.Do(ctx)
			return err
		}, 2},
		{"INCR", func(ctx context.Context, c *redis.Client) error { return c.Do(ctx, "INCR", "k").Err() }, 1},
		{"EVALSHA", func(ctx context.Context, c *redis.Client) error { return c.Eval(ctx, redis.NewScript("x"), nil).Err() }, 1},
		{"GET", func(ctx context.Context, c *redis.Client) error {
			p := c.Pipeline()
			p.Add("GET", "k")
			p.Add("INCR", "k")
			_, err := p.Do(ctx)
			return err
		}, 1},
	}
	for _, tc := range calls {
		fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			// The shared connection and another have served before.
			if err := c.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			var refused *redis.Error
			if err := c.Do(t.Context(), "UNKNOWN").Err(); !errors.As(err, &refused) {
				t.Fatal(err)
			}
			// The server takes the command and goes away without a word.
			s.Handle(tc.name, func(ss *fakes.RedisSession, _ [][]byte) { ss.Hangup() })
			err := tc.call(t.Context(), c)
			if err == nil || redis.SafeToRetry(err) {
				t.Errorf("%s: error %v", tc.name, err)
			}
			if n := s.Calls(tc.name); n != tc.sent {
				t.Errorf("%s was sent %d times, want %d", tc.name, n, tc.sent)
			}
		})
	}
}

func TestClose(t *testing.T) {
	fake(t, func(_ *fakes.Redis, o *redis.Options) { o.MaxConns = 2 }, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		slowly(s, time.Minute)
		var wg sync.WaitGroup
		for range 4 { // two that run, two that wait
			wg.Go(func() {
				if err := c.Do(kit.Within(t, time.Hour), "SLOW").Err(); !errors.Is(err, redis.ErrClosed) || redis.SafeToRetry(err) {
					t.Errorf("running call: %v", err)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		c.Close()
		c.Close()
		wg.Wait()
		if time.Since(start) != 0 {
			t.Errorf("took %v", time.Since(start))
		}
		if err := c.Ping(t.Context()); !errors.Is(err, redis.ErrClosed) {
			t.Error(err)
		}
		if _, err := c.Subscribe(t.Context(), "x"); !errors.Is(err, redis.ErrClosed) {
			t.Error(err)
		}
		if st := c.Stats(); st.Open != 0 || st.Idle != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestReplyThatBeganIsNotAskedForAgain(t *testing.T) {
	var conn *netsim.Conn
	change := func(s *fakes.Redis, _ *redis.Options) {
		s.OnDial = func(_ int, client *netsim.Conn) { conn = client }
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "value")
		conn.CutAfter(conn.Received() + 3)
		if v, err := get(t.Context(), c, "k"); err == nil || redis.SafeToRetry(err) || s.Calls("GET") != 1 {
			t.Errorf("%q, %v after %d calls", v, err, s.Calls("GET"))
		}
	})
}

// TestDeadServerIsAnErrorAtOnceThoughAConnectionIsShared: the connection that
// all share is not known to be dead, and does not come back.
func TestDeadServerIsAnErrorAtOnceThoughAConnectionIsShared(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		p := c.Pipeline()
		p.Add("GET", "k")
		if _, err := p.Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Stop()
		time.Sleep(time.Second)
		start := time.Now()
		p.Add("GET", "k")
		if _, err := p.Do(kit.Within(t, 10*time.Second)); err == nil || time.Since(start) > 100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

func TestCallWaitsForAConnectionThoughAllAreShared(t *testing.T) {
	change := func(s *fakes.Redis, o *redis.Options) {
		o.MaxConns = 2
		s.Handle("STRLEN", func(ss *fakes.RedisSession, _ [][]byte) {
			time.Sleep(2500 * time.Millisecond) // in the bubble
			ss.Int(1)
		})
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := c.Do(kit.Within(t, 5*time.Second), "STRLEN", "k").Err(); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(1500 * time.Millisecond)
		mustSet(t, c, "k", "v") // the shared connection keeps silent: it gets one of its own
		var b strings.Builder
		if _, err := c.GetTo(kit.Within(t, 5*time.Second), "k", &b); err != nil || b.String() != "v" {
			t.Errorf("%q, %v", b.String(), err)
		}
		wg.Wait()
	})
}

// TestCallWaitsForItsWholeTimeThoughOthersHaveAllConnections: downloads have them for longer than a dial may take.
func TestCallWaitsForItsWholeTimeThoughOthersHaveAllConnections(t *testing.T) {
	change := func(_ *fakes.Redis, o *redis.Options) {
		o.MaxConns, o.DialTimeout, o.Timeout = 2, 100*time.Millisecond, 5*time.Second
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		open := []*redis.Stream{download(t, s, c), download(t, s, c)}
		time.AfterFunc(time.Second, func() {
			for _, b := range open {
				b.Close()
			}
		})
		for _, ctx := range []context.Context{t.Context(), kit.Within(t, time.Minute)} {
			if _, err := get(ctx, c, "k"); err != redis.ErrNil {
				t.Error(err)
			}
		}
	})
}
