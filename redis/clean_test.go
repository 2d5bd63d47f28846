package redis_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// TestConnectionLeftInATransactionIsNotUsedAgain: a server that refuses
// the end of one leaves keys watched, or takes the next command for a part of it.
func TestConnectionLeftInATransactionIsNotUsedAgain(t *testing.T) {
	for _, refused := range []string{"UNWATCH", "MULTI", "EXEC"} {
		t.Run(refused, func(t *testing.T) {
			fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
				mustSet(t, c, "n", "1")
				before := s.Handle(refused, func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("NOPERM") })
				_, err := c.Watch(t.Context(), []string{"n"}, func(tx *redis.Tx) error {
					if refused != "UNWATCH" {
						tx.Queue().Get("n")
					}
					return nil
				})
				if (err == nil) != (refused == "UNWATCH") {
					t.Error(err)
				}
				s.Handle(refused, before)
				mustSet(t, c, "n", "2")
				p := c.Pipeline()
				p.Get("n")
				if replies, err := p.Do(t.Context()); texts(replies) != "2;" || err != nil {
					t.Errorf("%s, %v", texts(replies), err)
				}
				tx := c.Multi()
				tx.Get("n")
				if replies, err := tx.Do(t.Context()); texts(replies) != "2;" || err != nil {
					t.Errorf("%s, %v", texts(replies), err)
				}
				s.Handle(refused, func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("NOPERM") })
				if tx.Get("n"); refused != "UNWATCH" {
					if _, err := tx.Do(t.Context()); err == nil {
						t.Error("the transaction was not refused")
					}
				}
				p.Get("n")
				if replies, err := p.Do(t.Context()); texts(replies) != "2;" || err != nil {
					t.Errorf("%s, %v", texts(replies), err)
				}
			})
		})
	}
}

// leftOpen makes the next EXEC an error if refuse is set: the transaction goes on behind it, as on
// old servers.
func leftOpen(s *fakes.Redis, refuse *atomic.Bool) {
	var exec fakes.RedisHandler
	exec = s.Handle("EXEC", func(ss *fakes.RedisSession, args [][]byte) {
		if refuse.CompareAndSwap(true, false) {
			ss.Error("OOM command not allowed when used memory > 'maxmemory'.")
			return
		}
		exec(ss, args)
	})
}

// TestConnectionOfATierLeftInATransactionIsNotUsedAgain has a Tier drop everything without scripts. The
// pipelines after it begin with connections out of the pool.
func TestConnectionOfATierLeftInATransactionIsNotUsedAgain(t *testing.T) {
	var refuse atomic.Bool
	change := func(s *fakes.Redis, _ *redis.Options) {
		leftOpen(s, &refuse)
		for name, raw := range map[string]string{
			"EVAL": "-NOPERM this user has no permissions to run the 'eval' command\r\n", "EVALSHA": "-NOPERM 'evalsha'\r\n",
			"HMGET": "*5\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n", "TIME": "*2\r\n$1\r\n1\r\n$1\r\n0\r\n",
			"INFO": "$27\r\nrun_id:a\r\nmaster_replid:b\r\n\r\n", "HSET": ":1\r\n", "HINCRBY": ":1\r\n",
		} {
			s.Handle(name, func(ss *fakes.RedisSession, _ [][]byte) { ss.Out = append(ss.Out, raw...) })
		}
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		tier := redis.NewTier(c).Bind(remote.Space{Name: "n"}).(*redis.Tier)
		refuse.Store(true)
		if err := tier.DropAll(kit.Within(t, time.Second), false); refuse.Load() {
			t.Errorf("DropAll: %v, without an EXEC", err)
		}
		for range 3 {
			p := c.Pipeline()
			p.Get("k")
			if replies, err := p.Do(t.Context()); texts(replies) != "v;" || err != nil {
				t.Errorf("%s, %v", texts(replies), err)
			}
		}
	})
}

// TestConnectionOfABusLeftInATransactionIsNotUsedAgain is the same for the messages of a Bus to itself.
func TestConnectionOfABusLeftInATransactionIsNotUsedAgain(t *testing.T) {
	var refuse atomic.Bool
	change := func(s *fakes.Redis, _ *redis.Options) { leftOpen(s, &refuse) }
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		defer redis.NewBus(c).Follow("n", func(remote.Event) {})()
		for range 5 { // each third message of a Bus goes over a connection opened for it
			refuse.Store(true)
			time.Sleep(5 * time.Second)
			if synctest.Wait(); refuse.Load() {
				t.Error("the Bus has sent no EXEC")
			}
			p := c.Pipeline()
			p.Get("k")
			if replies, err := p.Do(t.Context()); texts(replies) != "v;" || err != nil {
				t.Errorf("%s, %v", texts(replies), err)
			}
		}
	})
}
