package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/redis"
)

// plainConn hides that a connection can tell whether it has room.
type plainConn struct{ net.Conn }

// windows runs f with networks that hold almost nothing, with connections that
// can tell whether they have room and others.
func windows(t *testing.T, f func(t *testing.T, s *fakes.Redis, c *redis.Client)) {
	for _, window := range []int{1, 64, 1024, 4096} {
		for _, tells := range []bool{true, false} {
			t.Run(fmt.Sprintf("window=%d,tells=%v", window, tells), func(t *testing.T) {
				fake(t, func(s *fakes.Redis, o *redis.Options) {
					s.Window = window
					o.Timeout = time.Hour // of the bubble
					if tells {
						return
					}
					o.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
						nc, err := s.Dial(ctx, network, addr)
						return plainConn{nc}, err
					}
				}, f)
			})
		}
	}
}

func TestTypedPipelineCannotDeadlock(t *testing.T) {
	large := strings.Repeat("v", 10_000)
	size := func(i int) int { // most are small, the others are not copied
		if i%20 == 19 {
			return 5000
		}
		return i * 5
	}
	windows(t, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		p := c.Pipeline()
		for round := range 2 {
			for i := range 60 {
				p.Set(fmt.Sprint("k", i), []byte(fmt.Sprint(round, i, large[:size(i)])), 0)
				p.Get(fmt.Sprint("k", i))
			}
			if p.Len() != 120 {
				t.Errorf("length %d", p.Len())
			}
			next := 0
			if err := p.Each(t.Context(), func(i int, r redis.Reply) error {
				if i != next {
					t.Fatalf("reply %d instead of %d", i, next)
				}
				next++
				want := "OK"
				if i%2 == 1 {
					want = fmt.Sprint(round, i/2, large[:size(i/2)])
				}
				if got, err := r.String(); got != want || err != nil {
					t.Fatalf("reply %d: %d bytes, %v, want %d", i, len(got), err, len(want))
				}
				return nil
			}); err != nil || next != 120 || p.Len() != 0 {
				t.Fatalf("%v after %d replies, %d left", err, next, p.Len())
			}
		}
	})
}

func TestPipelineSetHasALife(t *testing.T) {
	fake(t, nil, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		p := c.Pipeline()
		p.Set("a", []byte("1"), 1500*time.Microsecond)
		p.Add("PTTL", "a")
		p.Set("b", nil, 0)
		p.Add("PTTL", "b")
		p.Get("b")
		p.Get("none")
		var got []string
		if err := p.Each(t.Context(), func(_ int, r redis.Reply) error {
			if r.IsNull() {
				got = append(got, "null")
				return nil
			}
			s, err := r.String()
			got = append(got, s)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if want := "OK 2 OK -1  null"; strings.Join(got, " ") != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestPipelineRefusesLargeValues(t *testing.T) {
	change := func(_ *fakes.Redis, o *redis.Options) { o.MaxValue = 1000 }
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		ctx := t.Context()
		fits, large := make([]byte, 1000), make([]byte, 1001)
		bad := map[string]func(p *redis.Pipeline){
			"Set":     func(p *redis.Pipeline) { p.Set("k", large, 0) },
			"life":    func(p *redis.Pipeline) { p.Set("k", fits, -1) },
			"Add":     func(p *redis.Pipeline) { p.Add("SET", "k", large) },
			"text":    func(p *redis.Pipeline) { p.Add("SET", "k", string(large)) },
			"in Eval": func(p *redis.Pipeline) { p.Eval(redis.NewScript("x"), nil, large) },
		}
		for name, add := range bad {
			for _, p := range []*redis.Pipeline{c.Pipeline(), c.Multi()} {
				p.Set("k", fits, 0)
				add(p)
				_, err := p.Do(ctx)
				if want := name != "life"; err == nil || errors.Is(err, redis.ErrTooLarge) != want {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		for name, err := range map[string]error{
			"Set":     c.Set(ctx, "k", large, 0),
			"Do":      c.Do(ctx, "SET", "k", large).Err(),
			"SetFrom": c.SetFrom(ctx, "k", strings.NewReader(""), 1001, 0),
			"Eval":    c.Eval(ctx, redis.NewScript("x"), nil, string(large)).Err(),
		} {
			if !errors.Is(err, redis.ErrTooLarge) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if s.Dials() != 0 {
			t.Errorf("%d connections opened", s.Dials())
		}
		if err := c.Set(ctx, "k", fits, 0); err != nil {
			t.Error(err)
		}
	})
}

func TestSet(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		for _, n := range []int{0, 1, 100, 16 << 10, 100_000} {
			want := strings.Repeat("v", n)
			if err := c.Set(t.Context(), "k", []byte(want), 0); err != nil {
				t.Error(err)
			}
			if got, err := get(t.Context(), c, "k"); got != want || err != nil {
				t.Errorf("%d of %d bytes, %v", len(got), n, err)
			}
		}
		if err := c.Set(t.Context(), "k", nil, time.Nanosecond); err != nil {
			t.Error(err)
		}
		if n, err := c.Do(t.Context(), "PTTL", "k").Int(); n != 1 || err != nil {
			t.Errorf("life %d, %v", n, err)
		}
		s.Handle("SET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("OOM full") })
		var se *redis.Error
		if err := c.Set(t.Context(), "k", nil, 0); !errors.As(err, &se) || se.Code != "OOM" {
			t.Error(err)
		}
	})
}

func TestEachStopsCallingAfterAnErrorAndKeepsTheConnection(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		own := errors.New("own")
		for _, p := range []*redis.Pipeline{c.Pipeline(), c.Multi()} {
			for range 700 {
				p.Add("ECHO", "x")
			}
			calls := 0
			if err := p.Each(t.Context(), func(i int, _ redis.Reply) error {
				if calls++; i == 2 {
					return own
				}
				return nil
			}); err != own || calls != 3 {
				t.Errorf("%v after %d calls", err, calls)
			}
		}
		if err := c.Ping(t.Context()); err != nil || s.Dials() != 1 {
			t.Errorf("%v, %d connections", err, s.Dials())
		}
	})
}

func TestEachPassesOnScriptsThatWereNotKnownLast(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		a, b := joins(s, "a"), joins(s, "b")
		c.Eval(t.Context(), b, nil) // known from before
		for _, order := range []string{"0 1 3 4 2 5 ", "0 1 2 3 4 5 "} {
			p := c.Pipeline()
			p.Add("ECHO", "0")
			p.Eval(b, nil, 1)
			p.Eval(a, nil, 2)
			p.Add("EVALSHA", "0000", 0) // is the caller's own
			p.Eval(b, nil, 4)
			p.Eval(a, []string{"k"}, 5)
			wants := []string{"0", "b:1", "a:2", "", "b:4", "a:k,5"}
			got := ""
			if err := p.Each(t.Context(), func(i int, r redis.Reply) error {
				got += fmt.Sprint(i, " ")
				if v, err := r.String(); v != wants[i] || (err != nil) != (i == 3) {
					t.Errorf("%d: %q, %v", i, v, err)
				}
				return nil
			}); err != nil || got != order {
				t.Errorf("order %q, want %q, %v", got, order, err)
			}
		}
		own := errors.New("own")
		p := c.Pipeline()
		p.Eval(joins(s, "new"), nil)
		p.Eval(joins(s, "newer"), nil)
		calls := 0
		if err := p.Each(t.Context(), func(int, redis.Reply) error { calls++; return own }); err != own || calls != 1 {
			t.Errorf("%v after %d calls", err, calls)
		}
		if n := s.Calls("EVAL"); n != 4 { // all of them are executed nevertheless
			t.Errorf("EVAL was called %d times", n)
		}
	})
}

func TestCallbackThatPanicsClosesItsConnectionOnly(t *testing.T) {
	change := func(_ *fakes.Redis, o *redis.Options) { o.MaxConns, o.MaxIdle = 1, 1 }
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for name, call := range map[string]func(){
			"Each": func() {
				p := c.Pipeline()
				p.Get("k")
				p.Get("k")
				p.Each(ctx, func(int, redis.Reply) error { panic("mine") })
			},
			"MGet":  func() { c.MGet(ctx, []string{"k", "k"}, func(int, []byte, bool) error { panic("mine") }) },
			"Watch": func() { c.Watch(ctx, []string{"k"}, func(*redis.Tx) error { panic("mine") }) },
			"GetTo": func() { c.GetTo(ctx, "k", panicking{}) },
		} {
			func() {
				defer func() {
					if recover() != "mine" && name != "GetTo" {
						t.Errorf("%s: the panic did not arrive", name)
					}
				}()
				call()
			}()
			// The only connection there may be is free again.
			if v, err := get(t.Context(), c, "k"); v != "v" || err != nil {
				t.Errorf("after %s: %q, %v", name, v, err)
			}
		}
		synctest.Wait()
		if n := s.Open(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

func TestMGet(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		var keys, want []string
		for i, n := range []int{0, 1, 10, 4096, 16 << 10, 16 << 10, 32 << 10, 63 << 10, 64 << 10, 200_000, 3} {
			key := fmt.Sprint("k", i)
			keys, want = append(keys, key, "none"), append(want, strings.Repeat(fmt.Sprint(i), n)[:n], "missing")
			mustSet(t, c, key, want[2*i])
		}
		for range 3 {
			next := 0
			if err := c.MGet(t.Context(), keys, func(i int, v []byte, found bool) error {
				got := string(v)
				if !found {
					got = "missing"
				}
				if i != next || got != want[i] || found != (v != nil) {
					t.Errorf("%d (want %d): %d bytes, found %v, want %d", i, next, len(v), found, len(want[i]))
				}
				next++
				return nil
			}); err != nil || next != len(keys) {
				t.Errorf("%v after %d values", err, next)
			}
		}
		own := errors.New("own")
		calls := 0
		if err := c.MGet(t.Context(), keys, func(int, []byte, bool) error { calls++; return own }); err != own || calls != 1 {
			t.Errorf("%v after %d calls", err, calls)
		}
		if err := c.MGet(t.Context(), nil, nil); err != nil {
			t.Error(err)
		}
		s.Handle("MGET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("NOPERM no") })
		var se *redis.Error
		if err := c.MGet(t.Context(), keys, nil); !errors.As(err, &se) || se.Code != "NOPERM" || redis.SafeToRetry(err) {
			t.Error(err)
		}
		if n := s.Dials(); n > 2 {
			t.Errorf("%d connections", n)
		}
	})
}

func TestMGetOfAWrongShapeIsBroken(t *testing.T) {
	for _, raw := range []string{
		"*1\r\n$1\r\nx\r\n", "*3\r\n$1\r\nx\r\n$1\r\nx\r\n$1\r\nx\r\n", "*0\r\n", "*-1\r\n", "_\r\n", "$1\r\nx\r\n", "+OK\r\n",
		"*2\r\n$1\r\nx\r\n:1\r\n", "*2\r\n$1\r\nx\r\n*0\r\n", "*2\r\n$1\r\nx\r\n-ERR x\r\n", "%1\r\n$1\r\nx\r\n$1\r\ny\r\n",
		"*2\r\n$1\r\nx\r\n>1\r\n+news\r\n$1\r\ny\r\n", "*2\r\n$1\r\nx\r\n$-2\r\n",
	} {
		fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			s.Handle("MGET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Out = append(ss.Out, raw...) })
			err := c.MGet(t.Context(), []string{"a", "b"}, func(i int, v []byte, found bool) error {
				if i != 0 || string(v) != "x" || !found {
					t.Errorf("%q: %d, %q, %v", raw, i, v, found)
				}
				return nil
			})
			if !errors.Is(err, redis.ErrProtocol) {
				t.Errorf("%q: %v", raw, err)
			}
			if err := c.Ping(t.Context()); err != nil || s.Dials() != 2 {
				t.Errorf("%q: then %v over %d connections", raw, err, s.Dials())
			}
		})
	}
	// A push does not belong to the reply and is ignored, like an attribute.
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		s.Handle("MGET", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Out = append(ss.Out, ">1\r\n+news\r\n*2\r\n|1\r\n+a\r\n+b\r\n$1\r\nx\r\n$-1\r\n"...)
		})
		got := ""
		err := c.MGet(t.Context(), []string{"a", "b"}, func(i int, v []byte, found bool) error {
			got += fmt.Sprintf("%d %q %v;", i, v, found)
			return nil
		})
		if got != `0 "x" true;1 "" false;` || err != nil {
			t.Errorf("%s %v", got, err)
		}
	})
}
