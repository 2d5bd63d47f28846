package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
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

func TestCredentialsAreAskedForEachConnection(t *testing.T) {
	for _, old := range []bool{false, true} {
		asked := 0
		change := func(s *fakes.Redis, o *redis.Options) {
			s.Old, s.Username, s.Password = old, "u1", "hidden1"
			o.Credentials = func(context.Context) (string, string, error) {
				asked++
				return fmt.Sprint("u", asked), fmt.Sprint("hidden", asked), nil
			}
		}
		fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			if err := c.Ping(t.Context()); err != nil || asked != 1 {
				t.Errorf("%v, asked %d times", err, asked)
			}
			// They change, and older connections stay in use.
			s.Username, s.Password = "u2", "hidden2"
			if err := c.Ping(t.Context()); err != nil || asked != 1 {
				t.Errorf("%v, asked %d times", err, asked)
			}
			sub, err := c.Subscribe(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			want(t, sub, redis.Subscribed, "")
			s.Username, s.Password = "u3", "hidden3"
			s.Drop()
			sub.Close()
			if err := c.Ping(t.Context()); err != nil || asked != 3 {
				t.Errorf("%v, asked %d times", err, asked)
			}
			s.Drop()
			err = c.Ping(t.Context()) // by now they are wrong
			var se *redis.Error
			if !errors.As(err, &se) || se.Code != "WRONGPASS" || strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "u4") {
				t.Error(err)
			}
		})
	}
}

func TestCredentialsThatCannotBeHadAreAnErrorInTime(t *testing.T) {
	own := errors.New("vault is sealed")
	for name, tc := range map[string]struct {
		ask  func(ctx context.Context) (string, string, error)
		want error
		took time.Duration
	}{
		"error":  {func(context.Context) (string, string, error) { return "", "", own }, own, 0},
		"hangs":  {func(ctx context.Context) (string, string, error) { <-ctx.Done(); return "", "", ctx.Err() }, context.DeadlineExceeded, time.Second},
		"panics": {func(context.Context) (string, string, error) { panic("mine") }, nil, 0},
	} {
		change := func(_ *fakes.Redis, o *redis.Options) { o.Credentials, o.DialTimeout = tc.ask, time.Second }
		fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			start := time.Now()
			err := c.Ping(kit.Within(t, 10*time.Second))
			var ce *redis.ConnError
			if !errors.As(err, &ce) || tc.want != nil && !errors.Is(err, tc.want) || strings.Contains(err.Error(), "hidden") || !redis.SafeToRetry(err) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(start); took != tc.took || s.Dials() != 0 {
				t.Errorf("%s: after %v, %d connections", name, took, s.Dials())
			}
		})
	}
}

func TestProtocolIsSpokenAsWanted(t *testing.T) {
	for _, tc := range []struct {
		protocol int
		old      bool
		want     string // version of the protocol; empty: an error
		hellos   int
	}{
		{0, false, "3", 1}, {0, true, "2", 1}, {2, false, "2", 0}, {2, true, "2", 0}, {3, false, "3", 1}, {3, true, "", 1},
	} {
		change := func(s *fakes.Redis, o *redis.Options) {
			s.Old, s.Username, s.Password = tc.old, "u", "p"
			o.Protocol, o.Username, o.Password, o.DB, o.ClientName = tc.protocol, "u", "p", 2, "me"
			s.Handle("STATE", func(ss *fakes.RedisSession, _ [][]byte) {
				spoken := "2"
				if ss.RESP3 {
					spoken = "3"
				}
				ss.Bulk(fmt.Sprint(spoken, ss.DB, ss.Name))
			})
		}
		fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			got, err := c.Do(t.Context(), "STATE").String()
			var se *redis.Error
			if tc.want == "" && !errors.As(err, &se) || tc.want != "" && (got != tc.want+"2me" || err != nil) {
				t.Errorf("%+v: %q, %v", tc, got, err)
			}
			if n := s.Calls("HELLO"); n != tc.hellos {
				t.Errorf("%+v: HELLO was called %d times", tc, n)
			}
		})
	}
}

// TestConnectionsToADeposedPrimaryAreLeft: however a call learns of it, the next call
// reaches the server that has taken over.
func TestConnectionsToADeposedPrimaryAreLeft(t *testing.T) {
	for name, write := range map[string]func(ctx context.Context, c *redis.Client) error{
		"Set": func(ctx context.Context, c *redis.Client) error { return c.Set(ctx, "k", []byte("v"), 0) },
		"large Set": func(ctx context.Context, c *redis.Client) error {
			return c.Set(ctx, "k", make([]byte, 100_000), 0)
		},
		"Do": func(ctx context.Context, c *redis.Client) error { return c.Do(ctx, "SET", "k", "v").Ok() },
		"Pipeline": func(ctx context.Context, c *redis.Client) error {
			p := c.Pipeline()
			p.Set("k", nil, 0)
			p.Get("k")
			return p.Each(ctx, func(i int, r redis.Reply) error { return r.Err() })
		},
		"Multi": func(ctx context.Context, c *redis.Client) error {
			tx := c.Multi()
			tx.Set("k", nil, 0)
			_, err := tx.Do(ctx)
			return err
		},
		"Watch": func(ctx context.Context, c *redis.Client) error {
			_, err := c.Watch(ctx, []string{"k"}, func(tx *redis.Tx) error { return tx.Do("SET", "k", "v").Err() })
			return err
		},
		"Body": func(ctx context.Context, c *redis.Client) error {
			return c.SetFrom(ctx, "k", strings.NewReader(strings.Repeat("x", 100_000)), 100_000, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				was, is := fakes.NewRedis(), fakes.NewRedis()
				defer was.Close()
				defer is.Close()
				refuse := func(ss *fakes.RedisSession, _ [][]byte) {
					ss.Error("READONLY You can't write against a read only replica.")
				}
				var now atomic.Pointer[fakes.Redis]
				now.Store(was)
				c, err := redis.New(redis.Options{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					return now.Load().Dial(ctx, network, addr)
				}})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				// There is a shared connection, and then an idle one.
				if err := c.Ping(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := write(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				was.Handle("SET", refuse)
				was.Handle("EXEC", refuse)
				now.Store(is)
				var se *redis.Error
				if err := write(t.Context(), c); !errors.As(err, &se) || se.Code != "READONLY" || !redis.SafeToRetry(err) {
					t.Errorf("%v", err)
				}
				if err := write(t.Context(), c); err != nil {
					t.Errorf("the next call: %v", err)
				}
				if err := c.Ping(t.Context()); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if n := was.Open(); n != 0 {
					t.Errorf("%d connections outlive the role of their server", n)
				}
			})
		})
	}
}

func TestServerThatStaysReadOnlyIsNotDialledAllTheTime(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		s.Handle("SET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("READONLY no") })
		for range 100 {
			c.Set(t.Context(), "k", nil, 0)
			c.Set(t.Context(), "k", make([]byte, 20_000), 0)
			time.Sleep(100 * time.Millisecond)
		}
		if n := s.Dials(); n > 25 {
			t.Errorf("%d connections in 10 s", n)
		}
	})
}

// TestConnectionThatIsNotAuthenticatedIsGreetedAnew: any kind of call may learn it. A call
// of one command is repeated over another connection.
func TestConnectionThatIsNotAuthenticatedIsGreetedAnew(t *testing.T) {
	for _, u := range uses() {
		password := ""
		change := func(s *fakes.Redis, o *redis.Options) {
			keep(s)
			o.Credentials = func(context.Context) (string, string, error) { return "", password, nil }
		}
		fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			if got, err := u.call(t.Context(), c, "k"); got != "own" || err != nil {
				t.Errorf("%s: %q, %v", u.name, got, err)
			}
			password, s.Password = "hidden", "hidden"
			got, err := u.call(t.Context(), c, "k")
			if u.name != "SetFrom" { // its body cannot be read again
				if got != "own" || err != nil {
					t.Errorf("%s: %q, %v", u.name, got, err)
				}
			} else if se := new(redis.Error); !errors.As(err, &se) || se.Code != "NOAUTH" {
				t.Errorf("%s: %v", u.name, err)
			}
			if got, err := u.call(t.Context(), c, "k"); got != "own" || err != nil {
				t.Errorf("%s: the next call: %q, %v", u.name, got, err)
			}
		})
	}
}

// TestConnectionsThatAreNotAuthenticatedOneAfterTheOtherFailNoCall: each connection learns it at
// a moment of its own.
func TestConnectionsThatAreNotAuthenticatedOneAfterTheOtherFailNoCall(t *testing.T) {
	calls := 0
	change := func(s *fakes.Redis, o *redis.Options) {
		keep(s)
		s.Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) {
			if calls++; calls%5 == 0 {
				ss.Error("NOAUTH Authentication required.")
				return
			}
			ss.Bulk("own")
		})
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		for i := range 100 {
			if got, err := c.Do(t.Context(), "GET", "k").String(); got != "own" || err != nil {
				t.Fatalf("call %d: %q, %v", i, got, err)
			}
		}
	})
}

// TestServerThatKnowsNoUserIsNotDialledAllTheTime: it greets, and then refuses all.
func TestServerThatKnowsNoUserIsNotDialledAllTheTime(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		refuse := func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("NOAUTH Authentication required.") }
		s.Handle("SET", refuse)
		s.Handle("GET", refuse)
		for range 100 {
			for _, err := range []error{c.Set(t.Context(), "k", nil, 0), c.Set(t.Context(), "k", make([]byte, 20_000), 0), c.Do(t.Context(), "GET", "k").Err()} {
				if se := new(redis.Error); !errors.As(err, &se) || se.Code != "NOAUTH" {
					t.Fatal(err)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := s.Dials(); n > 25 {
			t.Errorf("%d connections in 10 s", n)
		}
	})
}

// TestGreetingThatIsCutRefusesNoCall: a server was there, and the next greeting
// may be answered.
func TestGreetingThatIsCutRefusesNoCall(t *testing.T) {
	for _, at := range []int{0, 3} { // before the answer, and in the middle of it
		for _, in := range []int{2, 4} { // of so many connections one gets through
			change := func(s *fakes.Redis, _ *redis.Options) {
				keep(s)
				s.OnDial = func(n int, client *netsim.Conn) {
					if n%in < in-1 {
						client.CutAfter(at)
					}
				}
			}
			fake(t, change, allReadAgainAndAgain)
		}
	}
}

// allReadAgainAndAgain has many callers read over new connections.
func allReadAgainAndAgain(t *testing.T, s *fakes.Redis, c *redis.Client) {
	for range 50 {
		var wg sync.WaitGroup
		for i := range 24 {
			u := uses()[i%len(uses())]
			wg.Go(func() {
				if got, err := u.call(t.Context(), c, "k"); got != "own" || err != nil {
					t.Errorf("%s: %q, %v", u.name, got, err)
				}
			})
		}
		wg.Wait()
		s.Drop() // nothing is under way
	}
}

// TestServerThatCutsEveryGreetingIsNotDialledInAStorm: it is as good as dead.
func TestServerThatCutsEveryGreetingIsNotDialledInAStorm(t *testing.T) {
	change := func(s *fakes.Redis, _ *redis.Options) {
		s.OnDial = func(_ int, client *netsim.Conn) { client.CutAfter(0) }
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		for start := time.Now(); time.Since(start) < 10*time.Second; time.Sleep(time.Millisecond) {
			at := time.Now()
			if err := c.Ping(t.Context()); err == nil || !redis.SafeToRetry(err) || time.Since(at) > 100*time.Millisecond {
				t.Fatalf("%v after %v", err, time.Since(at))
			}
		}
		if n := s.Dials(); n > 200 {
			t.Errorf("%d dials in 10 s", n)
		}
	})
}

// TestRefusedGreetingIsNotTriedAgain: the server has said no.
func TestRefusedGreetingIsNotTriedAgain(t *testing.T) {
	change := func(s *fakes.Redis, o *redis.Options) { s.Password, o.Password = "right", "wrong" }
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		if err := c.Ping(t.Context()); err == nil || s.Dials() != 1 {
			t.Errorf("%v, %d dials", err, s.Dials())
		}
	})
}

// TestCloseDoesNotWaitForADialThatHangs: though its function ignores its context.
// A connection that it opens in the end is closed.
func TestCloseDoesNotWaitForADialThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakes.NewRedis()
		defer s.Close()
		answer := make(chan struct{})
		c, err := redis.New(redis.Options{DialContext: func(_ context.Context, network, addr string) (net.Conn, error) {
			<-answer
			return s.Dial(context.Background(), network, addr)
		}})
		if err != nil {
			t.Fatal(err)
		}
		sub, err := c.Subscribe(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Ping(kit.Within(t, 200*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		start := time.Now()
		c.Close()
		if took := time.Since(start); took > 200*time.Millisecond || !errors.Is(sub.Err(), redis.ErrClosed) {
			t.Errorf("Close took %v; %v", took, sub.Err())
		}
		close(answer)
		synctest.Wait()
		if n := s.Open(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
	})
}

// TestCloseWaitsForAllDialsThatHangTogether has ten subscriptions, and then the nodes of a cluster, dial by a
// function that ignores its context.
func TestCloseWaitsForAllDialsThatHangTogether(t *testing.T) {
	deaf := func(context.Context, string, string) (net.Conn, error) {
		time.Sleep(time.Minute) // in the bubble of its caller
		return nil, errors.New("too late")
	}
	closes := func(t *testing.T, c *redis.Client) {
		t.Helper()
		start := time.Now()
		c.Close()
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
		time.Sleep(2 * time.Minute) // in the bubble of its caller
	}
	synctest.Test(t, func(t *testing.T) {
		c, err := redis.New(redis.Options{DialContext: deaf})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			if _, err := c.Subscribe(t.Context(), strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		closes(t, c)
	})
	var hang atomic.Bool
	cluster(t, 3, func(k *fakes.RedisCluster, o *redis.Options) {
		dial := o.DialContext
		o.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if hang.Load() {
				return deaf(ctx, network, addr)
			}
			return dial(ctx, network, addr)
		}
	}, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		for _, key := range keysOf(k) {
			mustSet(t, c, key, "v")
		}
		hang.Store(true)
		for _, s := range k.Servers {
			s.Drop()
		}
		var calls sync.WaitGroup
		for _, key := range keysOf(k) {
			calls.Go(func() { _, _ = get(kit.Within(t, 10*time.Second), c, key) })
		}
		time.Sleep(500 * time.Millisecond)
		closes(t, c)
		calls.Wait()
	})
}
