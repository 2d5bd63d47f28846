package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/redis"
)

// bigPush is a push of some 200 KB, like a push about many keys that became
// invalid at once.
var bigPush = ">2\r\n$10\r\ninvalidate\r\n*10000\r\n" + strings.Repeat("$15\r\n123456789012345\r\n", 10_000) // read-only

const push = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"

// TestPushThatNeverEndsHoldsUpNoDial: it has begun behind the greeting.
func TestPushThatNeverEndsHoldsUpNoDial(t *testing.T) {
	change := func(s *fakes.Redis, _ *redis.Options) {
		s.Handle("HELLO", func(ss *fakes.RedisSession, args [][]byte) {
			ss.Out = append(ss.Out, "*0\r\n>1000\r\n"...)
		})
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		began := time.Now()
		if err := c.Ping(t.Context()); err == nil || time.Since(began) > 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestPushBehindAReplyCostsNothing: it may come with the reply, before another
// command is sent. Any other bytes at that time are foreign.
func TestPushBehindAReplyCostsNothing(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		s.Handle("PING", func(ss *fakes.RedisSession, _ [][]byte) { ss.Out = append(ss.Out, push+"+PONG\r\n"+push+push...) })
		for range 3 {
			p := c.Pipeline()
			p.Add("PING")
			replies, err := p.Do(t.Context())
			if texts(replies) != "PONG;" || err != nil {
				t.Errorf("%s, %v", texts(replies), err)
			}
			if _, err = c.Watch(t.Context(), []string{"k"}, func(tx *redis.Tx) error {
				tx.Do("PING")
				return tx.Do("PING").Err()
			}); err != nil {
				t.Error(err)
			}
			if err := c.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if n := s.Dials(); n != 2 { // one of them is shared
			t.Errorf("%d connections", n)
		}
		s.Handle("PING", func(ss *fakes.RedisSession, _ [][]byte) { ss.Out = append(ss.Out, "+PONG\r\n"+push+"+1\r\n"...) })
		p := c.Pipeline()
		p.Add("PING")
		p.Do(t.Context())
		mustSet(t, c, "a", "b")
		p.Get("a")
		if replies, err := p.Do(t.Context()); texts(replies) != "b;" || err != nil {
			t.Errorf("%s, %v", texts(replies), err)
		}
		if n := s.Dials(); n != 3 {
			t.Errorf("%d connections", n)
		}
	})
}
