package redis_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/redis"
)

// texts are replies in short.
func texts(replies []redis.Reply) string {
	s := ""
	for _, r := range replies {
		v, err := r.String()
		switch {
		case r.IsNull():
			s += "null;"
		case err != nil:
			s += "error;"
		default:
			s += v + ";"
		}
	}
	return s
}

func TestTransactionIsOneRoundTrip(t *testing.T) {
	windows(t, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		script := joins(s, "s")
		tx := c.Multi()
		if replies, err := tx.Do(t.Context()); replies != nil || err != nil {
			t.Errorf("empty: %v, %v", replies, err)
		}
		for range 2 {
			tx.Set("a", []byte("1"), 0)
			tx.Get("a")
			tx.Add("INCR", "a")
			tx.Get("none")
			tx.Add("SET", "b", "text")
			tx.Add("INCR", "b") // fails when it is executed
			tx.Eval(script, []string{"k"}, 1)
			if tx.Len() != 7 {
				t.Errorf("length %d", tx.Len())
			}
			replies, err := tx.Do(t.Context())
			if got := texts(replies); err != nil || got != "OK;1;2;null;OK;error;s:k,1;" {
				t.Errorf("%s, %v", got, err)
			}
		}
		tx.Add("ECHO", "x")
		if err := tx.Each(t.Context(), func(i int, r redis.Reply) error {
			if v, err := r.String(); i != 0 || v != "x" || err != nil {
				t.Errorf("%d: %q, %v", i, v, err)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		if n := s.Calls("MULTI"); n != 3 || s.Calls("EVALSHA") != 0 || s.Dials() != 1 {
			t.Errorf("MULTI was called %d times", n)
		}
	})
}

func TestTransactionWithARefusedCommandExecutesNothing(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		tx := c.Multi()
		tx.Add("SET", "k", "v")
		tx.Add("NOSUCH", "hidden")
		tx.Add("GET", "k")
		replies, err := tx.Do(t.Context())
		var se *redis.Error
		if !errors.Is(err, redis.ErrAborted) || !errors.As(err, &se) || se.Code != "ERR" || len(replies) != 3 {
			t.Fatalf("%v, %v", replies, err)
		}
		for i, r := range replies {
			if refused := errors.As(r.Err(), new(*redis.Error)); refused != (i == 1) || refused == errors.Is(r.Err(), redis.ErrAborted) {
				t.Errorf("reply %d: %v", i, r.Err())
			}
		}
		tx.Add("SET", "k", "v")
		tx.Add("NOSUCH")
		if err := tx.Each(t.Context(), func(int, redis.Reply) error { t.Error("called"); return nil }); !errors.Is(err, redis.ErrAborted) {
			t.Error(err)
		}
		if _, err := get(t.Context(), c, "k"); err != redis.ErrNil {
			t.Errorf("executed: %v", err)
		}
		if s.Dials() != 1 {
			t.Errorf("%d connections", s.Dials())
		}
	})
}

func TestTransactionThatTheServerDoesNotBegin(t *testing.T) {
	for _, tc := range []struct {
		name, others string
		aborted      bool
	}{
		{"refuses everything", "-LOADING busy\r\n", true},
		{"executes the commands one by one", "+OK\r\n", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
				s.Handle("MULTI", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("LOADING busy") })
				s.Handle("SET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Out = append(ss.Out, tc.others...) })
				tx := c.Multi()
				tx.Set("a", nil, 0)
				tx.Set("b", nil, 0)
				replies, err := tx.Do(t.Context())
				if err == nil || errors.Is(err, redis.ErrAborted) != tc.aborted || redis.SafeToRetry(err) != tc.aborted {
					t.Errorf("%v, %v", replies, err)
				}
				for _, r := range replies {
					if r.Err() == nil {
						t.Errorf("%v", replies)
					}
				}
				if err := c.Ping(t.Context()); err != nil || s.Dials() != 1 {
					t.Errorf("%v, %d connections", err, s.Dials())
				}
			})
		})
	}
}

func TestTransactionAnsweredByNonsenseIsBroken(t *testing.T) {
	for _, tc := range []struct{ name, multi, set, exec string }{
		{"MULTI by a string", "$2\r\nOK\r\n", "+QUEUED\r\n", "*1\r\n+OK\r\n"},
		{"command executed", "+OK\r\n", "+OK\r\n", "*1\r\n+OK\r\n"},
		{"command by a string", "+OK\r\n", "$6\r\nQUEUED\r\n", "*1\r\n+OK\r\n"},
		{"too few", "+OK\r\n", "+QUEUED\r\n", "*0\r\n"},
		{"too many", "+OK\r\n", "+QUEUED\r\n", "*2\r\n+OK\r\n+OK\r\n"},
		{"no array", "+OK\r\n", "+QUEUED\r\n", "+OK\r\n"},
		{"refused and executed", "+OK\r\n", "-ERR no\r\n", "*1\r\n+OK\r\n"},
		{"refused and null", "+OK\r\n", "-ERR no\r\n", "*-1\r\n"},
		{"broken element", "+OK\r\n", "+QUEUED\r\n", "*1\r\n$-9\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
				for name, raw := range map[string]string{"MULTI": tc.multi, "SET": tc.set, "EXEC": tc.exec} {
					s.Handle(name, func(ss *fakes.RedisSession, _ [][]byte) { ss.Out = append(ss.Out, raw...) })
				}
				tx := c.Multi()
				tx.Set("a", nil, 0)
				if replies, err := tx.Do(t.Context()); !errors.Is(err, redis.ErrProtocol) || redis.SafeToRetry(err) {
					t.Errorf("%v, %v", replies, err)
				}
				if err := c.Ping(t.Context()); err != nil || s.Dials() != 2 {
					t.Errorf("then %v over %d connections", err, s.Dials())
				}
			})
		})
	}
}

// increase adds one to a counter by reading and writing it.
func increase(ctx context.Context, c *redis.Client, meanwhile func()) error {
	replies, err := c.Watch(ctx, []string{"n"}, func(tx *redis.Tx) error {
		n, err := tx.Do("GET", "n").Int()
		if err != nil && err != redis.ErrNil {
			return err
		}
		meanwhile()
		tx.Queue().Add("SET", "n", n+1)
		tx.Queue().Get("n")
		return nil
	})
	if err == nil && (len(replies) != 2 || replies[0].Ok() != nil) {
		return fmt.Errorf("replies %v", replies)
	}
	return err
}

func TestWatchExecutesNothingIfAKeyHasChanged(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		ctx := t.Context()
		if err := increase(ctx, c, func() {}); err != nil {
			t.Error(err)
		}
		if err := increase(ctx, c, func() { mustSet(t, c, "other", "x") }); err != nil {
			t.Error(err)
		}
		if err := increase(ctx, c, func() { mustSet(t, c, "n", "10") }); err != redis.ErrChanged {
			t.Error(err)
		}
		if err := increase(ctx, c, func() {}); err != nil {
			t.Error(err)
		}
		if v, err := get(ctx, c, "n"); v != "11" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
		if s.Dials() != 2 {
			t.Errorf("%d connections", s.Dials())
		}
	})
}

func TestWatchLeavesTheConnectionAsItWas(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		ctx := t.Context()
		own := errors.New("own")
		var kept *redis.Tx
		for name, f := range map[string]func(*redis.Tx) error{
			"its error":    func(tx *redis.Tx) error { kept = tx; tx.Queue().Set("k", nil, 0); return own },
			"nothing":      func(*redis.Tx) error { return nil },
			"bad argument": func(tx *redis.Tx) error { tx.Queue().Add("SET", nil); return nil },
		} {
			replies, err := c.Watch(ctx, []string{"k"}, f)
			if replies != nil || (err == nil) != (name == "nothing") || name == "its error" && err != own {
				t.Errorf("%s: %v, %v", name, replies, err)
			}
		}
		if n := s.Calls("UNWATCH"); n != 3 || s.Calls("EXEC") != 0 || s.Dials() != 1 {
			t.Errorf("%d UNWATCH, %d EXEC, %d connections", n, s.Calls("EXEC"), s.Dials())
		}
		if err := kept.Do("GET", "k").Err(); err != redis.ErrClosed {
			t.Errorf("a Tx after its time: %v", err)
		}
		_, err := c.Watch(ctx, []string{"k"}, func(tx *redis.Tx) error {
			for _, args := range [][]any{{"UNWATCH"}, {"EXEC"}, {"SELECT", 1}, {}, {"SET", "k", struct{}{}}} {
				if err := tx.Do(args...).Err(); err == nil {
					t.Errorf("%v accepted", args)
				}
			}
			if _, err := tx.Queue().Do(ctx); err == nil {
				t.Error("the queue can be sent before its time")
			}
			if err := tx.Queue().Each(ctx, nil); err == nil {
				t.Error("the queue can be sent before its time")
			}
			return nil
		})
		if err != nil || s.Dials() != 1 {
			t.Errorf("%v, %d connections", err, s.Dials())
		}
		if _, err := c.Watch(ctx, nil, nil); err == nil {
			t.Error("no keys accepted")
		}
		s.Handle("WATCH", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("NOPERM no") })
		var se *redis.Error
		if _, err := c.Watch(ctx, []string{"k"}, nil); !errors.As(err, &se) || s.Dials() != 1 {
			t.Errorf("%v, %d connections", err, s.Dials())
		}
	})
}

func TestWatchEndsWithItsConnection(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for name, tc := range map[string]struct {
			ctx context.Context
			cut func()
		}{
			"lost":      {t.Context(), s.Drop},
			"cancelled": {ctx, cancel},
		} {
			_, err := c.Watch(tc.ctx, []string{"k"}, func(tx *redis.Tx) error {
				tx.Queue().Set("k", nil, 0)
				tc.cut()
				return nil
			})
			var ce *redis.ConnError
			if !errors.As(err, &ce) {
				t.Errorf("%s: %v", name, err)
			}
			_, err = c.Watch(t.Context(), []string{"k"}, func(tx *redis.Tx) error {
				s.Drop()
				first := tx.Do("GET", "k").Err()
				if second := tx.Do("GET", "k").Err(); first == nil || second != first {
					t.Errorf("%v, then %v", first, second)
				}
				return nil // although nothing can come of it
			})
			if !errors.As(err, &ce) {
				t.Errorf("%s: %v", name, err)
			}
			if err := c.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestTransactionIsNotRepeatedIfOnlyItsBeginWasRefused: a proxy may know the user again for the commands behind MULTI.
func TestTransactionIsNotRepeatedIfOnlyItsBeginWasRefused(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		if err := c.MGet(t.Context(), []string{"k", "l"}, func(int, []byte, bool) error { return nil }); err != nil { // over a connection of its own
			t.Fatal(err)
		}
		begin := s.Handle("MULTI", nil)
		s.Handle("MULTI", func(ss *fakes.RedisSession, _ [][]byte) {
			s.Handle("MULTI", begin)
			ss.Error("NOAUTH Authentication required.")
		})
		m := c.Multi()
		m.Add("INCR", "n")
		_, err := m.Do(t.Context())
		if err == nil || redis.SafeToRetry(err) {
			t.Errorf("%v, safe to retry: %v", err, redis.SafeToRetry(err))
		}
		mustGet(t, c, "n", "1")
	})
}
