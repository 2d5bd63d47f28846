package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/redis"
)

func TestSubscriptionToPatterns(t *testing.T) {
	for _, old := range []bool{false, true} {
		fake(t, func(s *fakes.Redis, _ *redis.Options) { s.Old = old }, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			patterns := []string{"news:*", "*:eu"}
			sub, err := c.PSubscribe(t.Context(), patterns...)
			if err != nil {
				t.Fatal(err)
			}
			patterns[0] = "changed" // it was copied
			want(t, sub, redis.Subscribed, "")
			for range 2 {
				c.Do(t.Context(), "PUBLISH", "news:us", "1")
				if e := want(t, sub, redis.Received, "news:us:1"); e.Pattern != "news:*" {
					t.Errorf("%+v", e)
				}
				c.Do(t.Context(), "PUBLISH", "weather:us", "2")
				c.Do(t.Context(), "PUBLISH", "news:eu", "3") // matches both
				got := next(t, sub).Pattern + " " + next(t, sub).Pattern
				if got != "news:* *:eu" && got != "*:eu news:*" {
					t.Errorf("matched %s", got)
				}
				s.Drop()
				want(t, sub, redis.Gap, "")
				want(t, sub, redis.Subscribed, "")
				c.Ping(t.Context()) // finds that the other connections are gone
			}
			none(t, sub, 5*time.Second)
			if _, err := c.PSubscribe(t.Context()); err == nil {
				t.Error("no patterns accepted")
			}
		})
	}
}

func TestHostileMessagesOfPatternsAndShards(t *testing.T) {
	for _, raw := range []string{
		">3\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\na\r\n", ">5\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\na\r\n$1\r\nx\r\n$1\r\nx\r\n",
		">4\r\n$8\r\npmessage\r\n$1\r\n*\r\n:1\r\n$1\r\nx\r\n", ">2\r\n$8\r\nsmessage\r\n$1\r\na\r\n", ">3\r\n$8\r\nsmessage\r\n$1\r\na\r\n_\r\n",
	} {
		fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			ping := s.Handle("PING", func(ss *fakes.RedisSession, _ [][]byte) { ss.Out = append(ss.Out, raw...) })
			sub, err := c.PSubscribe(t.Context(), "a*")
			if err != nil {
				t.Fatal(err)
			}
			want(t, sub, redis.Subscribed, "")
			if e := want(t, sub, redis.Gap, ""); !errors.Is(e.Err, redis.ErrProtocol) {
				t.Errorf("%q: %v", raw, e.Err)
			}
			s.Handle("PING", ping)
			want(t, sub, redis.Subscribed, "")
		})
	}
}

func TestSubscriptionThatTheServerEndsBeginsAgain(t *testing.T) {
	for word, subscribe := range map[string]func(c *redis.Client, t *testing.T) (*redis.Subscription, error){
		"unsubscribe": func(c *redis.Client, t *testing.T) (*redis.Subscription, error) { return c.Subscribe(t.Context(), "a") },
		"punsubscribe": func(c *redis.Client, t *testing.T) (*redis.Subscription, error) {
			return c.PSubscribe(t.Context(), "a")
		},
		"sunsubscribe": func(c *redis.Client, t *testing.T) (*redis.Subscription, error) {
			return c.SSubscribe(t.Context(), "a")
		},
	} {
		fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			sub, err := subscribe(c, t)
			if err != nil {
				t.Fatal(err)
			}
			want(t, sub, redis.Subscribed, "")
			ping := s.Handle("PING", func(ss *fakes.RedisSession, _ [][]byte) {
				ss.Out = fmt.Appendf(ss.Out, ">3\r\n+%s\r\n$1\r\na\r\n:0\r\n", word)
			})
			if e := want(t, sub, redis.Gap, ""); e.Err == nil || !strings.Contains(e.Err.Error(), "ended by the server") {
				t.Errorf("%s: %v", word, e.Err)
			}
			s.Handle("PING", ping)
			want(t, sub, redis.Subscribed, "")
			none(t, sub, 5*time.Second)
		})
	}
}

func TestShardedSubscriptionFollowsItsSlot(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		channels := []string{keys[0], "x{" + keys[0] + "}"}
		sub, err := c.SSubscribe(t.Context(), channels...)
		if err != nil {
			t.Fatal(err)
		}
		publish := func(text string) {
			t.Helper()
			if n, err := c.Do(t.Context(), "SPUBLISH", channels[1], text).Int(); n != 1 || err != nil {
				t.Errorf("%d subscribers, %v", n, err)
			}
			want(t, sub, redis.Received, channels[1]+":"+text)
		}
		want(t, sub, redis.Subscribed, "")
		publish("first")
		for _, to := range []int{1, 2, 0} {
			start := time.Now()
			k.Change(map[int]int{slots.Of(keys[0]): to})
			want(t, sub, redis.Gap, "")
			want(t, sub, redis.Subscribed, "")
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("there after %v", took)
			}
			publish(fmt.Sprint("at ", to))
		}
		// After each move it may still be tried where the slot was, once or, as the
		// pauses are random, a few times.
		if n := calls(k, "SSUBSCRIBE"); n > 16 {
			t.Errorf("%d attempts", n)
		}
		if _, err := c.SSubscribe(t.Context(), keys[0], keys[1]); err != redis.ErrCrossSlot {
			t.Error(err)
		}
		sub.Close()
		synctest.Wait()
	})
}
