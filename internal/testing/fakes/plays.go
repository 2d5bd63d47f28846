package fakes

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/strata-cache/strata/redis"
)

// Call makes one call and records its result.
type Call func(f func(ctx context.Context) (string, error))

// Play is the client's part of a conversation. It makes the same calls in the
// same order for any results.
type Play struct {
	Name string
	// Change sets options. It may be nil.
	Change func(o *redis.Options)
	// Prepare brings the real server into the state that the play expects. It
	// may be nil.
	Prepare func(ctx context.Context, c *redis.Client) error
	Run     func(call Call, c *redis.Client)
}

// Plays returns all plays.
func Plays() []Play {
	resp2 := func(o *redis.Options) { o.Protocol = 2 }
	return []Play{
		{Name: "greeting", Change: func(o *redis.Options) { o.Protocol, o.ClientName, o.DB = 3, "strata", 3 }, Run: greeting},
		{Name: "greeting2", Change: func(o *redis.Options) { o.Protocol, o.ClientName, o.DB = 2, "strata", 3 }, Run: greeting},
		{Name: "strings", Prepare: values, Run: stringsPlay},
		{Name: "mget", Prepare: values, Run: playMget},
		{Name: "aggregates", Prepare: values, Run: aggregates},
		{Name: "aggregates2", Change: resp2, Prepare: values, Run: aggregates},
		{Name: "pipeline", Prepare: values, Run: pipeline},
		{Name: "scripts", Run: scripts},
		{Name: "transactions", Prepare: values, Run: transactions},
		{Name: "published", Run: published},
		{Name: "published2", Change: resp2, Run: published},
		{Name: "errors", Prepare: values, Run: refusals},
		{Name: "large", Prepare: values, Run: large},
	}
}

// Short returns a result, or the length and checksum of a long one.
func Short(result string) string {
	if len(result) <= 500 {
		return result
	}
	return fmt.Sprintf("%d bytes of sum %08x", len(result), crc32.ChecksumIEEE([]byte(result)))
}

// long returns a text of n bytes.
func long(n int) string { return strings.Repeat("0123456789abcdef", n/16+1)[:n] }

func values(ctx context.Context, c *redis.Client) error {
	p := c.Pipeline()
	p.Add("SET", "empty", "")
	p.Add("SET", "text", "some text\r\nin two lines")
	p.Add("SET", "long", long(300))
	p.Add("SET", "longer", long(2000))
	p.Add("SET", "large", long(17_000))
	p.Add("HSET", "hash", "a", 1, "b", "two", "c", "")
	p.Add("ZADD", "sorted", 1.5, "one", 2, "two")
	p.Add("SADD", "set", "only")
	p.Add("RPUSH", "list", "x", "", "z")
	_, err := p.Do(ctx)
	return err
}

func greeting(call Call, c *redis.Client) {
	call(func(ctx context.Context) (string, error) { return "pong", c.Ping(ctx) })
	call(func(ctx context.Context) (string, error) { return c.Do(ctx, "CLIENT", "GETNAME").String() })
	call(func(ctx context.Context) (string, error) { return c.Do(ctx, "ECHO", "hello").String() })
}

// playGet returns the result of AppendGet. A missing key is a result too.
func playGet(ctx context.Context, c *redis.Client, key string) (string, error) {
	b, err := c.AppendGet(ctx, nil, key)
	if errors.Is(err, redis.ErrNil) {
		return "missing", nil
	}
	return string(b), err
}

func stringsPlay(call Call, c *redis.Client) {
	for _, key := range []string{"none", "empty", "text", "long"} {
		call(func(ctx context.Context) (string, error) { return playGet(ctx, c, key) })
	}
	call(func(ctx context.Context) (string, error) { return "", c.Set(ctx, "new", []byte("value"), time.Hour) })
	call(func(ctx context.Context) (string, error) { return c.Do(ctx, "GET", "new").String() })
	call(func(ctx context.Context) (string, error) { return describe(c.Do(ctx, "STRLEN", "long")) })
	call(func(ctx context.Context) (string, error) { return describe(c.Do(ctx, "SET", "new", "x", "NX")) })
}

func playMget(call Call, c *redis.Client) {
	call(func(ctx context.Context) (string, error) {
		all := ""
		err := c.MGet(ctx, []string{"text", "none", "empty", "hash", "longer", "long"}, func(i int, v []byte, found bool) error {
			all += fmt.Sprintf("%d %v %s;", i, found, v)
			return nil
		})
		return all, err
	})
	call(func(ctx context.Context) (string, error) { return describe(c.Do(ctx, "MGET", "text", "none", "long")) })
}

// describe returns a reply with its elements as text. An error reply is a
// result too.
func describe(r redis.Reply) (string, error) {
	var refused *redis.Error
	switch {
	case errors.As(r.Err(), &refused):
		return "refused: " + refused.Code + " " + refused.Message, nil
	case r.Err() != nil:
		return "", r.Err()
	case r.IsNull():
		return "null", nil
	}
	if f, err := r.Float(); err == nil {
		return fmt.Sprint("number ", f), nil
	}
	if s, err := r.String(); err == nil {
		return "text " + s, nil
	}
	all := fmt.Sprint(r.Len(), " elements:")
	for _, e := range r.All() {
		s, err := describe(e)
		if err != nil {
			return "", err
		}
		all += " [" + s + "]"
	}
	return all, nil
}

func aggregates(call Call, c *redis.Client) {
	for _, args := range [][]any{
		{"HGETALL", "hash"},
		{"ZRANGE", "sorted", 0, -1, "WITHSCORES"},
		{"SMEMBERS", "set"},
		{"LRANGE", "list", 0, -1},
		{"HGETALL", "none"},
		{"ZSCORE", "sorted", "one"},
		{"EXISTS", "text", "none"},
		{"LPOP", "none"},
		{"COMMAND", "INFO", "get"},
	} {
		call(func(ctx context.Context) (string, error) { return describe(c.Do(ctx, args...)) })
	}
}

func pipeline(call Call, c *redis.Client) {
	call(func(ctx context.Context) (string, error) {
		p := c.Pipeline()
		for i := range 10 {
			p.Set(fmt.Sprint("k", i), []byte(long(10*i)), 0)
			p.Get(fmt.Sprint("k", i))
			p.Add("INCR", "text") // refused by the server
		}
		all := ""
		err := p.Each(ctx, func(i int, r redis.Reply) error {
			s, err := describe(r)
			all += s + ";"
			return err
		})
		return all, err
	})
	call(func(ctx context.Context) (string, error) {
		p := c.Pipeline()
		p.Get("long")
		p.Add("LRANGE", "list", 0, -1)
		p.Add("GET", "none")
		replies, err := p.Do(ctx)
		return describeAll(replies, err)
	})
}

func describeAll(replies []redis.Reply, err error) (string, error) {
	all := ""
	for _, r := range replies {
		if err == nil {
			var s string
			s, err = describe(r)
			all += s + ";"
		}
	}
	return all, err
}

func scripts(call Call, c *redis.Client) {
	s := redis.NewScript("return {KEYS[1], tonumber(ARGV[1]) + 1, {'deep', {ok = 'status'}, false}}")
	for n := range 2 {
		call(func(ctx context.Context) (string, error) { return describe(c.Eval(ctx, s, []string{"key"}, n)) })
	}
	bad := redis.NewScript("return {err = 'OWN trouble'}")
	call(func(ctx context.Context) (string, error) { return describe(c.Eval(ctx, bad, nil)) })
	call(func(ctx context.Context) (string, error) {
		p := c.Pipeline()
		p.Eval(redis.NewScript("return ARGV[1]"), nil, "new")
		p.Add("ECHO", "between")
		p.Eval(s, []string{"again"}, 7)
		return describeAll(p.Do(ctx))
	})
}

func transactions(call Call, c *redis.Client) {
	call(func(ctx context.Context) (string, error) {
		tx := c.Multi()
		tx.Set("counter", []byte("1"), 0)
		tx.Add("INCR", "counter")
		tx.Add("INCR", "text") // fails when it is executed
		tx.Get("none")
		return describeAll(tx.Do(ctx))
	})
	call(func(ctx context.Context) (string, error) {
		tx := c.Multi()
		tx.Add("SET", "counter", "x")
		tx.Add("GET")
		_, err := tx.Do(ctx)
		if errors.Is(err, redis.ErrAborted) {
			return "aborted", nil
		}
		return "", err
	})
	for _, other := range []bool{false, true} {
		call(func(ctx context.Context) (string, error) {
			replies, err := c.Watch(ctx, []string{"counter"}, func(tx *redis.Tx) error {
				n, err := tx.Do("GET", "counter").Int()
				if err == nil && other {
					err = c.Set(ctx, "counter", []byte("100"), 0)
				}
				tx.Queue().Add("SET", "counter", n+1)
				tx.Queue().Add("GET", "counter")
				return err
			})
			if errors.Is(err, redis.ErrChanged) {
				return "changed", nil
			}
			return describeAll(replies, err)
		})
	}
}

func published(call Call, c *redis.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var subs []*redis.Subscription
	listen := func(channel string, s *redis.Subscription, err error) {
		if err == nil {
			subs = append(subs, s)
			defer s.Close()
		}
		event := func(ctx context.Context) (string, error) {
			if err != nil {
				return "", err
			}
			e, err := s.Next(ctx)
			if err == nil && e.Kind == redis.Gap {
				err = e.Err
			}
			return fmt.Sprint(e.Kind, e.Pattern, e.Channel, string(e.Payload)), err
		}
		call(event)
		for _, text := range []string{"", "first", long(100)} {
			call(func(ctx context.Context) (string, error) { return describe(c.Do(ctx, "PUBLISH", channel, text)) })
			call(event)
		}
	}
	s, err := c.Subscribe(ctx, "other", "news:eu")
	listen("news:eu", s, err)
	// To another channel: the server may not know yet that the first subscription has ended.
	s, err = c.PSubscribe(ctx, "news:*")
	listen("news:us", s, err)
}

func refusals(call Call, c *redis.Client) {
	for _, args := range [][]any{
		{"INCR", "text"}, {"GET", "hash"}, {"SET", "k"}, {"NOSUCH", "argument"}, {"SET", "k", "v", "NO", "SUCH"}, {"PING"},
	} {
		call(func(ctx context.Context) (string, error) { return describe(c.Do(ctx, args...)) })
	}
	call(func(ctx context.Context) (string, error) {
		_, err := c.AppendGet(ctx, nil, "list")
		var refused *redis.Error
		if errors.As(err, &refused) {
			return refused.Code, nil
		}
		return "", err
	})
}

func large(call Call, c *redis.Client) {
	to := func(ctx context.Context, key string) (string, error) {
		var b strings.Builder
		n, err := c.GetTo(ctx, key, &b)
		if err == nil && int(n) != b.Len() {
			err = errors.New("another length than was written")
		}
		return b.String(), err
	}
	call(func(ctx context.Context) (string, error) { return to(ctx, "longer") })
	call(func(ctx context.Context) (string, error) { return to(ctx, "large") })
	call(func(ctx context.Context) (string, error) { return playGet(ctx, c, "large") })
	call(func(ctx context.Context) (string, error) {
		body := redis.Body{Reader: strings.NewReader(long(66_000)), Size: 66_000}
		return c.Do(ctx, "SET", "sent", body).String()
	})
	call(func(ctx context.Context) (string, error) { return describe(c.Do(ctx, "STRLEN", "sent")) })
}
