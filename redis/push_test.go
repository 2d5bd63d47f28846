package redis_test

import (
	"testing"

	"github.com/strata-cache/strata/internal/fakeredis"
	"github.com/strata-cache/strata/redis"
)

const push = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"

// TestPushBehindAReplyCostsNothing: it may come with the reply, before another
// command is sent. Any other bytes at that time are foreign.
func TestPushBehindAReplyCostsNothing(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakeredis.Server, c *redis.Client) {
		s.Handle("PING", func(ss *fakeredis.Session, _ [][]byte) { ss.Out = append(ss.Out, push+"+PONG\r\n"+push+push...) })
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
		s.Handle("PING", func(ss *fakeredis.Session, _ [][]byte) { ss.Out = append(ss.Out, "+PONG\r\n"+push+"+1\r\n"...) })
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
