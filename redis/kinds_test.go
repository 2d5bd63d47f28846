package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/redis"
)

// TestStringIsUnderstoodInEveryWay: attributes of a string change nothing, nor does
// the format of a string such as the reply to INFO.
func TestStringIsUnderstoodInEveryWay(t *testing.T) {
	const about = "|1\r\n+ttl\r\n:3\r\n"
	for _, conns := range []int{1, 8} { // one is not shared
		change := func(_ *fakes.Redis, o *redis.Options) { o.MaxConns, o.MaxIdle = conns, conns }
		fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			answer(s, about+"$2\r\nhi\r\n")
			s.Handle("INFO", func(ss *fakes.RedisSession, _ [][]byte) { ss.Out = append(ss.Out, about+"=6\r\ntxt:hi\r\n"...) })
			s.Handle("MGET", func(ss *fakes.RedisSession, _ [][]byte) {
				ss.Out = append(ss.Out, about+"*1\r\n"+about+"$2\r\nhi\r\n"...)
			})
			ctx := t.Context()
			stream := func(args ...any) (string, error) {
				st, err := c.Stream(ctx, args...)
				if err != nil {
					return "", err
				}
				defer st.Close()
				b, err := io.ReadAll(st)
				return string(b), err
			}
			for name, call := range map[string]func() (string, error){
				"Do":          func() (string, error) { return c.Do(ctx, "GET", "k").String() },
				"AppendGet":   func() (string, error) { return get(ctx, c, "k") },
				"GetTo":       func() (string, error) { var b strings.Builder; _, err := c.GetTo(ctx, "k", &b); return b.String(), err },
				"Stream":      func() (string, error) { return stream("GET", "k") },
				"Do INFO":     func() (string, error) { return c.Do(ctx, "INFO").String() },
				"Stream INFO": func() (string, error) { return stream("INFO") },
				"MGet": func() (v string, err error) {
					err = c.MGet(ctx, []string{"k"}, func(_ int, b []byte, _ bool) error { v = string(b); return nil })
					return v, err
				},
			} {
				if v, err := call(); v != "hi" || err != nil {
					t.Errorf("%d connections, %s: %q, %v", conns, name, v, err)
				}
			}
			if st := c.Stats(); st.Broken != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestNumbersReadTheSameInBothProtocols: callers do not know which protocol a
// server speaks.
func TestNumbersReadTheSameInBothProtocols(t *testing.T) {
	for _, tc := range []struct{ two, three string }{
		{"$3\r\n1.5\r\n", ",1.5\r\n"},
		{"$1\r\n5\r\n", ",5\r\n"},
		{"$2\r\n-5\r\n", ",-5\r\n"},
		{"$3\r\ninf\r\n", ",inf\r\n"},
		{"$4\r\n-inf\r\n", ",-inf\r\n"},
		{"$3\r\nnan\r\n", ",nan\r\n"},
		{"$5\r\n1e+30\r\n", ",1e+30\r\n"},
		{"$10\r\n1700000000\r\n", ",1700000000\r\n"},
		{"$11\r\n-12345678.9\r\n", ",-12345678.9\r\n"},
		{"$17\r\n10000000000000000\r\n", ",1e16\r\n"},
		{"$5\r\n1e+17\r\n", ",1e+17\r\n"},
		{"$6\r\n0.0001\r\n", ",0.0001\r\n"},
		{"$5\r\n1e-05\r\n", ",1e-05\r\n"},
		{"$20\r\n12345678901234567890\r\n", "(12345678901234567890\r\n"},
		{":1\r\n", "#t\r\n"},
		{":0\r\n", "#f\r\n"},
	} {
		fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			read := func(wire string) string {
				answer(s, wire)
				r := c.Do(context.Background(), "GET", "k")
				text, err1 := r.String()
				b, err2 := r.Append([]byte("x"))
				n, err3 := r.Int()
				f, err4 := r.Float()
				errs := []bool{err1 != nil, err2 != nil, err3 != nil, err4 != nil}
				return fmt.Sprint(text, string(b), n, f, errs)
			}
			if two, three := read(tc.two), read(tc.three); two != three {
				t.Errorf("%q: %s\n%q: %s", tc.two, two, tc.three, three)
			}
		})
	}
}

// TestLongestTimesAndLargestNumbersAreNoBounds: they are how "never" and "any"
// are usually written.
func TestLongestTimesAndLargestNumbersAreNoBounds(t *testing.T) {
	for _, conns := range []int{1, math.MaxInt} {
		change := func(_ *fakes.Redis, o *redis.Options) {
			o.MaxConns, o.MaxIdle, o.MaxValue, o.MaxReply = conns, conns, math.MaxInt, math.MaxInt
			o.Timeout, o.DialTimeout, o.IdleTimeout, o.MaxLifetime = math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64
		}
		fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			mustSet(t, c, "k", "v")
			if v, err := get(t.Context(), c, "k"); v != "v" || err != nil {
				t.Errorf("%q, %v", v, err)
			}
			p := c.Pipeline()
			p.Get("k")
			if _, err := p.Do(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := c.GetTo(t.Context(), "k", io.Discard); err != nil {
				t.Error(err)
			}
			sub, err := c.Subscribe(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			want(t, sub, redis.Subscribed, "")
			answer(s, fmt.Sprintf("$%d\r\nabc", math.MaxInt))
			p.Get("k")
			if err := p.Each(t.Context(), func(int, redis.Reply) error { return nil }); !errors.Is(err, redis.ErrProtocol) {
				t.Error(err)
			}
		})
	}
}

func TestReplyOfAnotherTypeIsTold(t *testing.T) {
	for _, shared := range []int{1, 8} {
		change := func(_ *fakes.Redis, o *redis.Options) { o.MaxConns, o.MaxIdle = shared, shared }
		fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			ctx := t.Context()
			answer(s, "*1\r\n:1\r\n")
			_, err1 := get(ctx, c, "k")
			_, err2 := c.GetTo(ctx, "k", io.Discard)
			_, err3 := c.Do(ctx, "GET", "k").Int()
			answer(s, "$6\r\nsecret\r\n")
			r := c.Do(ctx, "GET", "k")
			_, err4 := r.Int()
			_, err5 := r.Float()
			for i, err := range []error{err1, err2, err3, err4, err5, r.Ok(), r.JSON(new(int))} {
				if !errors.Is(err, redis.ErrType) || errors.Is(err, redis.ErrNil) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%d: %v", i, err)
				}
			}
			if st := c.Stats(); st.Broken != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}
