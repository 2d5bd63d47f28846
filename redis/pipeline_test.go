package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/redis"
)

func TestPipelineAnswersInOrder(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		p := c.Pipeline()
		if replies, err := p.Do(t.Context()); replies != nil || err != nil {
			t.Errorf("empty: %v, %v", replies, err)
		}
		for round := range 2 { // a pipeline can be used again
			value := []byte(fmt.Sprint("v", round))
			p.Add("SET", "k", value)
			value[0] = 'x' // arguments were copied
			p.Add("GET", "k")
			p.Add("NOSUCH")
			p.Add("GET", "none")
			if p.Len() != 4 {
				t.Errorf("length %d", p.Len())
			}
			replies, err := p.Do(t.Context())
			if err != nil || len(replies) != 4 || p.Len() != 0 {
				t.Fatal(len(replies), err)
			}
			v, verr := replies[1].String()
			var se *redis.Error
			if replies[0].Ok() != nil || v != fmt.Sprint("v", round) || verr != nil || !errors.As(replies[2].Err(), &se) || !replies[3].IsNull() {
				t.Errorf("%v", replies)
			}
		}
		if s.Dials() != 1 {
			t.Errorf("%d connections", s.Dials())
		}
	})
}

func TestPipelineWithABadArgumentSendsNothing(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		p := c.Pipeline()
		p.Add("SET", "k", "v")
		p.Add("SET", "k", nil)
		p.Eval(redis.NewScript("x"), nil, struct{}{})
		if replies, err := p.Do(t.Context()); err == nil || replies != nil || s.Dials() != 0 {
			t.Errorf("%v, %v, %d connections", replies, err, s.Dials())
		}
		p.Add("PING")
		if replies, err := p.Do(t.Context()); err != nil || len(replies) != 1 {
			t.Errorf("the next use: %v, %v", replies, err)
		}
	})
}

func TestLargePipelineCannotDeadlock(t *testing.T) {
	// The windows hold less than a command; the server does not read on while
	// a reply waits to be taken.
	for _, window := range []int{64, 4096} {
		fake(t, func(s *fakes.Redis, _ *redis.Options) { s.Window = window }, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
			p := c.Pipeline()
			value := strings.Repeat("x", 1000)
			for i := range 1000 {
				p.Add("ECHO", fmt.Sprint(i, value))
			}
			replies, err := p.Do(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range replies {
				if v, err := r.String(); v != fmt.Sprint(i, value) || err != nil {
					t.Fatalf("%d: %d bytes, %v", i, len(v), err)
				}
			}
		})
	}
}

func TestLargePipelineThatFailsReturnsTheRepliesThatCame(t *testing.T) {
	fake(t, func(s *fakes.Redis, _ *redis.Options) { s.Window = 4096 }, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		s.Handle("LAST", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Status("bye")
			ss.Hangup()
		})
		p := c.Pipeline()
		for i := range 1000 {
			if i == 500 {
				p.Add("LAST")
				continue
			}
			p.Add("ECHO", strings.Repeat("x", 100))
		}
		replies, err := p.Do(t.Context())
		var ce *redis.ConnError
		if !errors.As(err, &ce) || !ce.Sent || len(replies) != 1000 {
			t.Fatal(len(replies), err)
		}
		for i, r := range replies {
			if came := r.Err() == nil; came != (i <= 500) {
				t.Fatalf("reply %d: %v", i, r.Err())
			}
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// joins is a script that returns its keys and arguments.
func joins(s *fakes.Redis, text string) *redis.Script {
	s.Script(text, func(ss *fakes.RedisSession, args [][]byte) {
		var all []string
		for _, a := range args {
			all = append(all, string(a))
		}
		ss.Bulk(text + ":" + strings.Join(all, ","))
	})
	return redis.NewScript(text)
}

func TestEvalSendsTheTextOnce(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		script := joins(s, "a")
		for range 3 {
			if v, err := c.Eval(t.Context(), script, []string{"k"}, 1, "x").String(); v != "a:k,1,x" || err != nil {
				t.Errorf("%q, %v", v, err)
			}
		}
		if s.Calls("EVAL") != 1 || s.Calls("EVALSHA") != 3 {
			t.Errorf("%d EVAL, %d EVALSHA", s.Calls("EVAL"), s.Calls("EVALSHA"))
		}
		var se *redis.Error
		if err := c.Eval(t.Context(), redis.NewScript("bad"), nil).Err(); !errors.As(err, &se) || se.Code != "ERR" {
			t.Error(err)
		}
		if err := c.Eval(t.Context(), script, nil, struct{}{}).Err(); err == nil {
			t.Error("bad argument accepted")
		}
	})
}

func TestPipelineSendsScriptsThatTheServerDoesNotKnow(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		a, b := joins(s, "a"), joins(s, "b")
		c.Eval(t.Context(), b, nil) // known from before
		p := c.Pipeline()
		for i := range 5 {
			p.Eval(a, []string{"k"}, i)
			p.Add("ECHO", i)
			p.Eval(b, nil, i)
		}
		replies, err := p.Do(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			for j, want := range []string{fmt.Sprint("a:k,", i), fmt.Sprint(i), fmt.Sprint("b:", i)} {
				if v, err := replies[3*i+j].String(); v != want || err != nil {
					t.Errorf("%d: %q, %v, want %q", 3*i+j, v, err, want)
				}
			}
		}
		if n := s.Calls("EVAL"); n != 2 {
			t.Errorf("EVAL was called %d times", n)
		}
	})
}

func TestReplies(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		raw := func(wire string) redis.Reply {
			s.Handle("RAW", func(ss *fakes.RedisSession, _ [][]byte) { ss.Out = append(ss.Out, wire...) })
			return c.Do(t.Context(), "RAW")
		}
		ints := map[string]int64{":7\r\n": 7, "$2\r\n-3\r\n": -3, "#t\r\n": 1, "#f\r\n": 0, "+12\r\n": 12}
		for wire, want := range ints {
			if n, err := raw(wire).Int(); n != want || err != nil {
				t.Errorf("Int of %q: %d, %v", wire, n, err)
			}
		}
		floats := map[string]float64{":7\r\n": 7, "$3\r\n1.5\r\n": 1.5, ",-2.5\r\n": -2.5}
		for wire, want := range floats {
			if f, err := raw(wire).Float(); f != want || err != nil {
				t.Errorf("Float of %q: %v, %v", wire, f, err)
			}
		}
		texts := map[string]string{":7\r\n": "7", "+OK\r\n": "OK", "$2\r\nhi\r\n": "hi", "=6\r\ntxt:hi\r\n": "hi", "(123\r\n": "123"}
		for wire, want := range texts {
			if v, err := raw(wire).String(); v != want || err != nil {
				t.Errorf("String of %q: %q, %v", wire, v, err)
			}
		}
		for _, wire := range []string{"$1\r\nx\r\n", "*0\r\n", "-ERR x\r\n", "_\r\n"} {
			r := raw(wire)
			_, err1 := r.Int()
			_, err2 := r.Float()
			if err1 == nil || err2 == nil || r.Ok() == nil {
				t.Errorf("%q is taken for a number or OK", wire)
			}
		}
		var v struct{ A int }
		if err := raw("$7\r\n{\"A\":3}\r\n").JSON(&v); v.A != 3 || err != nil {
			t.Errorf("JSON: %v, %v", v, err)
		}
		if err := raw("$6\r\nhidden\r\n").JSON(&v); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("JSON: %v", err)
		}
		if err := raw("$-1\r\n").JSON(&v); err != redis.ErrNil {
			t.Errorf("JSON: %v", err)
		}
		for _, wire := range []string{"%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n", "*4\r\n+a\r\n:1\r\n+b\r\n:2\r\n"} {
			got := ""
			for k, v := range raw(wire).Pairs() {
				ks, _ := k.String()
				n, _ := v.Int()
				got += fmt.Sprint(ks, n)
			}
			if got != "a1b2" {
				t.Errorf("Pairs of %q: %s", wire, got)
			}
		}
		r := raw("*3\r\n:1\r\n-ERR inner\r\n*1\r\n:2\r\n")
		for i, e := range r.All() {
			if i == 1 && e.Err() == nil || i == 2 && e.Len() != 1 {
				t.Errorf("element %d: %v", i, e)
			}
		}
		if m := raw("%1\r\n+a\r\n:1\r\n"); r.Len() != 3 || m.Len() != 1 {
			t.Errorf("lengths %d and %d", r.Len(), m.Len())
		}
	})
}
