package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/redis"
)

func TestDo(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprintf("old=%v", old), func(t *testing.T) {
			fake(t, func(s *fakes.Redis, _ *redis.Options) { s.Old = old }, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
				ctx := t.Context()
				if err := c.Ping(ctx); err != nil {
					t.Error(err)
				}
				if err := c.Do(ctx, "SET", "n", 41, "NX").Ok(); err != nil {
					t.Error(err)
				}
				if err := c.Do(ctx, "SET", "n", 42, "NX").Ok(); err != redis.ErrNil {
					t.Errorf("SET NX of a held key: %v", err)
				}
				if n, err := c.Do(ctx, "INCR", "n").Int(); n != 42 || err != nil {
					t.Errorf("INCR: %d, %v", n, err)
				}
				if v, err := get(ctx, c, "n"); v != "42" || err != nil {
					t.Errorf("AppendGet: %q, %v", v, err)
				}
				if r := c.Do(ctx, "GET", "none"); !r.IsNull() || r.Err() != nil {
					t.Errorf("missing key: null %v, %v", r.IsNull(), r.Err())
				}
				if s.Dials() != 1 {
					t.Errorf("%d connections", s.Dials())
				}
			})
		})
	}
}

func TestEmptyAndMissingAreToldApart(t *testing.T) {
	fake(t, nil, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "empty", "")
		dst := []byte("head")
		got, err := c.AppendGet(t.Context(), dst, "empty")
		if string(got) != "head" || err != nil {
			t.Errorf("empty: %q, %v", got, err)
		}
		got, err = c.AppendGet(t.Context(), dst, "missing")
		if string(got) != "head" || err != redis.ErrNil {
			t.Errorf("missing: %q, %v", got, err)
		}
		if b, err := c.Do(t.Context(), "GET", "empty").Bytes(); b == nil || len(b) != 0 || err != nil {
			t.Errorf("Do of empty: %v, %v", b, err)
		}
		if _, err := c.Do(t.Context(), "GET", "missing").Bytes(); err != redis.ErrNil {
			t.Errorf("Do of missing: %v", err)
		}
	})
}

func TestServerErrorsKeepTheConnection(t *testing.T) {
	for _, code := range []string{"WRONGTYPE", "NOAUTH", "NOPERM", "LOADING", "READONLY", "BUSY", "MOVED", "OOM", "MASTERDOWN", "ERR"} {
		t.Run(code, func(t *testing.T) {
			fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
				answer(s, "-"+code+" some text\r\n")
				_, err := c.AppendGet(t.Context(), nil, "k")
				for _, err := range []error{err, c.Do(t.Context(), "GET", "k").Err()} {
					var se *redis.Error
					if !errors.As(err, &se) || se.Code != code || se.Message != "some text" {
						t.Errorf("error %v", err)
					}
					safe := strings.Contains("LOADING READONLY BUSY MASTERDOWN", code)
					if redis.SafeToRetry(err) != safe {
						t.Errorf("safe to retry: %v", !safe)
					}
				}
				dials := 1
				if code == "READONLY" || code == "NOAUTH" {
					dials = 2
				}
				if err := c.Ping(t.Context()); err != nil || s.Dials() != dials {
					t.Errorf("then %v over %d connections", err, s.Dials())
				}
			})
		})
	}
}

func TestErrorsDoNotRepeatArguments(t *testing.T) {
	fake(t, nil, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		err := c.Do(t.Context(), "NOSUCH", "hidden").Err()
		var se *redis.Error
		if !errors.As(err, &se) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("error %v", err)
		}
		err = c.Do(t.Context(), "SET", "k", struct{ s string }{"hidden"}).Err()
		if err == nil || strings.Contains(err.Error(), "hidden") || !strings.HasPrefix(err.Error(), "redis: ") {
			t.Errorf("error %v", err)
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestCommandsThatChangeTheConnectionAreRefused(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		for _, args := range [][]any{
			{}, {""}, {1}, {"select", 1}, {[]byte("SUBSCRIBE"), "a"}, {"MULTI"}, {"client", "reply", "off"}, {"MONITOR"}, {"HELLO", 3},
		} {
			if err := c.Do(t.Context(), args...).Err(); err == nil {
				t.Errorf("%v accepted", args)
			}
			p := c.Pipeline()
			p.Add("PING")
			p.Add(args...)
			if replies, err := p.Do(t.Context()); err == nil || replies != nil {
				t.Errorf("%v accepted in a pipeline", args)
			}
			if _, err := c.Stream(t.Context(), args...); err == nil {
				t.Errorf("%v accepted as a stream", args)
			}
		}
		if s.Dials() != 0 {
			t.Errorf("%d connections opened", s.Dials())
		}
	})
}

func TestGreeting(t *testing.T) {
	tests := []struct {
		name           string
		old            bool
		user, password string // the server's
		o              redis.Options
		code           string
	}{
		{name: "nothing to say"},
		{name: "nothing to say, old", old: true},
		{name: "database and name", o: redis.Options{DB: 3, ClientName: "me"}},
		{name: "database and name, old", old: true, o: redis.Options{DB: 3, ClientName: "me"}},
		{name: "password", password: "secret", o: redis.Options{Password: "secret", DB: 1}},
		{name: "password, old", old: true, password: "secret", o: redis.Options{Password: "secret", DB: 1}},
		{name: "user", user: "u", password: "secret", o: redis.Options{Username: "u", Password: "secret", ClientName: "me"}},
		{name: "user, old", old: true, user: "u", password: "secret", o: redis.Options{Username: "u", Password: "secret"}},
		{name: "wrong password", password: "other", o: redis.Options{Password: "secret"}, code: "WRONGPASS"},
		{name: "wrong password, old", old: true, password: "other", o: redis.Options{Password: "secret"}, code: "WRONGPASS"},
		{name: "wrong user", user: "u", password: "secret", o: redis.Options{Username: "v", Password: "secret"}, code: "WRONGPASS"},
		{name: "password missing", password: "secret", code: "NOAUTH"},
		{name: "no such database", o: redis.Options{DB: 99}, code: "ERR"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			change := func(s *fakes.Redis, o *redis.Options) {
				s.Old, s.Username, s.Password = tc.old, tc.user, tc.password
				tc.o.DialContext = s.Dial
				*o = tc.o
			}
			fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
				s.Handle("STATE", func(ss *fakes.RedisSession, _ [][]byte) { ss.Bulk(fmt.Sprint(ss.DB, ss.Name, ss.RESP3)) })
				r := c.Do(t.Context(), "STATE")
				if tc.code == "" && tc.old && r.Err() != nil {
					t.Fatal(r.Err())
				}
				if tc.code != "" {
					var se *redis.Error
					if !errors.As(r.Err(), &se) || se.Code != tc.code || strings.Contains(r.Err().Error(), "secret") {
						t.Errorf("error %v, want %s", r.Err(), tc.code)
					}
					return
				}
				// Again on a second connection: each connection has the state.
				s.Drop()
				for range 2 {
					want := fmt.Sprint(tc.o.DB, tc.o.ClientName, !tc.old)
					if got, err := c.Do(t.Context(), "STATE").String(); got != want || err != nil {
						t.Errorf("state %q, %v, want %q", got, err, want)
					}
				}
			})
		})
	}
}

func TestGreetingErrorsHoldNoCredentials(t *testing.T) {
	change := func(s *fakes.Redis, o *redis.Options) {
		o.Username, o.Password = "hiddenuser", "hiddenword"
		repeat := func(ss *fakes.RedisSession, args [][]byte) { ss.Error("ERR unknown " + fmt.Sprintf("%s", args)) }
		s.Handle("HELLO", repeat)
		s.Handle("AUTH", repeat)
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		for range 2 { // the second one fails in the pause after the dial
			err := c.Ping(t.Context())
			if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), "hidden") {
				t.Errorf("error %v", err)
			}
		}
	})
}

func TestUnaskedBytesAreNeverAReply(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "right")
		s.Handle("TWICE", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Status("one")
			ss.Bulk("two")
		})
		if v, err := c.Do(t.Context(), "TWICE").String(); v != "one" || err != nil {
			t.Errorf("got %q, %v", v, err)
		}
		if v, err := get(t.Context(), c, "k"); v != "right" || err != nil {
			t.Errorf("the next call got %q, %v", v, err)
		}
		s.Handle("PUSHED", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Out = append(resp.AppendPush(ss.Out, 1), "+news\r\n"...)
			ss.Bulk("reply")
		})
		if v, err := c.Do(t.Context(), "PUSHED").String(); v != "reply" || err != nil {
			t.Errorf("behind a push: %q, %v", v, err)
		}
	})
}

func TestMaxValue(t *testing.T) {
	change := func(_ *fakes.Redis, o *redis.Options) { o.MaxValue, o.MaxReply = 1000, 5000 }
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "fits", strings.Repeat("x", 1000))
		s.Handle("GET", func(ss *fakes.RedisSession, args [][]byte) {
			if string(args[1]) == "fits" {
				ss.Bulk(strings.Repeat("x", 1000))
			} else {
				ss.Bulk(strings.Repeat("x", 1001))
			}
		})
		if v, err := get(t.Context(), c, "fits"); len(v) != 1000 || err != nil {
			t.Errorf("%d, %v", len(v), err)
		}
		if _, err := get(t.Context(), c, "large"); !errors.Is(err, redis.ErrProtocol) {
			t.Error(err)
		}
		if err := c.Do(t.Context(), "MGET", "fits", "fits", "fits", "fits", "fits").Err(); !errors.Is(err, redis.ErrProtocol) {
			t.Error(err)
		}
	})
}

// converse calls everything once and checks the results.
func converse(t *testing.T, c *redis.Client) (errs []error) {
	t.Helper()
	ctx := t.Context()
	check := func(what, got, want string, err error) {
		if err == nil && got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
		errs = append(errs, err)
	}
	long := strings.Repeat("0123456789", 30)
	ok, err := c.Do(ctx, "SET", "k", long).String()
	check("SET", ok, "OK", err)
	v, err := get(ctx, c, "k")
	check("GET", v, long, err)
	r := c.Do(ctx, "MGET", "k", "none", "k")
	text := ""
	for _, e := range r.All() {
		s, _ := e.String()
		text += s + ","
	}
	check("MGET", text, long+",,"+long+",", r.Err())
	p := c.Pipeline()
	p.Add("GET", "k")
	p.Add("ECHO", "hi")
	replies, err := p.Do(ctx)
	for i, want := range []string{long, "hi"} {
		got, rerr := replies[i].String()
		check("pipeline", got, want, rerr)
	}
	errs = append(errs, err)
	var b strings.Builder
	n, err := c.GetTo(ctx, "k", &b)
	if !strings.HasPrefix(long, b.String()) || int(n) != b.Len() || err == nil && b.Len() != len(long) {
		t.Errorf("GetTo: %d, %q, %v", n, b.String(), err)
	}
	errs = append(errs, err)
	return errs
}

func TestEveryCutGivesAnErrorOrTheWholeValue(t *testing.T) {
	cut := -1
	change := func(s *fakes.Redis, _ *redis.Options) {
		s.OnDial = func(n int, client *netsim.Conn) {
			if cut >= 0 {
				client.CutAfter(cut)
			}
		}
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		for at := 0; ; at++ {
			cut = at
			failed := false
			for _, err := range converse(t, c) {
				failed = failed || err != nil
			}
			cut = -1
			// Past the pause after a failed dial, and past the life of an idle
			// connection that has its cut still before it.
			time.Sleep(time.Hour)
			if err := c.Ping(t.Context()); err != nil {
				t.Fatalf("cut at %d: the next call: %v", at, err)
			}
			if !failed {
				// The conversation fits in front of the cut.
				if at < 500 {
					t.Errorf("only %d bytes were cut", at)
				}
				return
			}
			time.Sleep(time.Hour) // the next round begins on a fresh connection
		}
	})
}

func TestSlicedRepliesAreWhole(t *testing.T) {
	change := func(s *fakes.Redis, _ *redis.Options) {
		s.Window = 3
		s.OnDial = func(_ int, client *netsim.Conn) { client.Slice(1) }
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		for i, err := range converse(t, c) {
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
	})
}

func TestRepliesThatStopHalfWay(t *testing.T) {
	stall := func(s *fakes.Redis, _ *redis.Options) {
		answer(s, "$100\r\nabc")
	}
	calls := map[string]func(ctx context.Context, c *redis.Client) error{
		"Do":        func(ctx context.Context, c *redis.Client) error { return c.Do(ctx, "GET", "k").Err() },
		"AppendGet": func(ctx context.Context, c *redis.Client) error { _, err := c.AppendGet(ctx, nil, "k"); return err },
		"GetTo":     func(ctx context.Context, c *redis.Client) error { _, err := c.GetTo(ctx, "k", io.Discard); return err },
		"Pipeline": func(ctx context.Context, c *redis.Client) error {
			p := c.Pipeline()
			p.Add("GET", "k")
			_, err := p.Do(ctx)
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			fake(t, stall, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
				start := time.Now()
				err := call(kit.Within(t, 200*time.Millisecond), c)
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 200*time.Millisecond || redis.SafeToRetry(err) {
					t.Errorf("deadline: %v after %v", err, time.Since(start))
				}
				start = time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(200*time.Millisecond, cancel)
				if err := call(ctx, c); !errors.Is(err, context.Canceled) || time.Since(start) != 200*time.Millisecond {
					t.Errorf("cancel: %v after %v", err, time.Since(start))
				}
				start = time.Now()
				err = call(context.Background(), c)
				if took := time.Since(start); err == nil || took < time.Second || took > 1125*time.Millisecond {
					t.Errorf("no deadline: %v after %v", err, took)
				}
				if err := c.Ping(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestWritesThatStopHalfWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		defer close(done)
		// The server greets, and then reads nothing.
		deaf := func(context.Context, string, string) (net.Conn, error) {
			client, server := netsim.Pair(1000)
			go func() {
				defer server.Close()
				r := resp.NewReader(server, resp.Limits{})
				r.ReadCommand()
				server.Write(resp.AppendMap(nil, 0))
				<-done
			}()
			return client, nil
		}
		c, err := redis.New(redis.Options{DialContext: deaf})
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range []any{make([]byte, 1<<20), strings.Repeat("x", 1<<20)} {
			start := time.Now()
			err := c.Do(kit.Within(t, 200*time.Millisecond), "SET", "k", value).Err()
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 200*time.Millisecond || !redis.SafeToRetry(err) {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			p := c.Pipeline()
			p.Add("SET", "small", 1)
			p.Add("SET", "k", value)
			start = time.Now()
			_, err = p.Do(kit.Within(t, 200*time.Millisecond))
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 200*time.Millisecond || redis.SafeToRetry(err) {
				t.Errorf("pipeline: %v after %v", err, time.Since(start))
			}
		}
		c.Close()
	})
}

// hooked is a connection that calls a function after each read.
type hooked struct {
	net.Conn
	after *func()
}

func (h hooked) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	(*h.after)()
	return n, err
}

func TestCancelAfterTheLastByteHarmsNoOtherCall(t *testing.T) {
	after := func() {}
	change := func(s *fakes.Redis, o *redis.Options) {
		o.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := s.Dial(ctx, network, addr)
			return hooked{nc, &after}, err
		}
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			after = cancel
			// Which of the two is noticed first is open.
			if v, err := get(ctx, c, "k"); !errors.Is(err, context.Canceled) && (v != "v" || err != nil) {
				t.Errorf("the reply was there, but: %q, %v", v, err)
			}
			after = func() {}
			synctest.Wait() // all effects of the cancel have happened
			if v, err := get(context.Background(), c, "k"); v != "v" || err != nil {
				t.Errorf("the next call: %q, %v", v, err)
			}
		}
	})
}
