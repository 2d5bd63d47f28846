package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/redis"
)

// connections notes over which connection each GET comes. Keys with "large" in
// them have 100 KB.
func connections(s *fakes.Redis) map[string]*fakes.RedisSession {
	last := map[string]*fakes.RedisSession{}
	s.Handle("GET", func(ss *fakes.RedisSession, args [][]byte) {
		key := string(args[1])
		last[key] = ss
		if strings.Contains(key, "large") {
			ss.Bulk(strings.Repeat("x", 100_000))
		} else {
			ss.Bulk("small")
		}
	})
	return last
}

// TestFewLargeValuesUnderANameDoNotSlowTheOthers: only they go over connections
// of their own.
func TestFewLargeValuesUnderANameDoNotSlowTheOthers(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		on := connections(s)
		for range 20 {
			for i := range 100 {
				key := fmt.Sprint("n:small", i)
				if i%25 == 0 {
					key = fmt.Sprint("n:large", i)
				}
				if _, err := c.AppendGet(t.Context(), nil, key); err != nil {
					t.Fatal(err)
				}
			}
		}
		shared := on["n:small1"]
		for key, ss := range on {
			if large := strings.Contains(key, "large"); large == (ss == shared) {
				t.Errorf("%s is read over the shared connection: %t", key, !large)
			}
		}
	})
}

// TestNameWithLargeValuesIsReadOverConnectionsOfItsOwn: also a key never read
// before, and no more once its values have become small.
func TestNameWithLargeValuesIsReadOverConnectionsOfItsOwn(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		on := connections(s)
		mustGet(t, c, "other", "small")
		for i := range 10 {
			key := fmt.Sprint("n:large", i)
			if _, err := c.AppendGet(t.Context(), nil, key); err != nil {
				t.Fatal(err)
			}
			if i >= 2 && on[key] == on["other"] {
				t.Errorf("%s is read over the shared connection", key)
			}
		}
		for i := range 40 {
			mustGet(t, c, fmt.Sprint("n:", i), "small")
		}
		if on["n:39"] != on["other"] {
			t.Error("small values are read over connections of their own")
		}
	})
}

// TestReplyOverTheLimitFailsOtherCallsOnce: from its second read on, a value larger than the client accepts is read over
// a connection of its own.
func TestReplyOverTheLimitFailsOtherCallsOnce(t *testing.T) {
	change := func(s *fakes.Redis, o *redis.Options) {
		o.MaxValue = 100
		s.Handle("GET", func(ss *fakes.RedisSession, args [][]byte) {
			time.Sleep(10 * time.Millisecond)
			ss.Bulk(map[bool]string{false: "v", true: strings.Repeat("x", 1000)}[string(args[1]) == "large"])
		})
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		for round := range 4 {
			var wg sync.WaitGroup
			for _, key := range []string{"small", "large", "small"} {
				wg.Go(func() {
					v, err := get(t.Context(), c, key)
					switch {
					case key == "large" && !errors.Is(err, redis.ErrProtocol):
						t.Errorf("round %d: %q, %v", round, v, err)
					case key == "small" && (v != "v" || err != nil) && round > 0:
						t.Errorf("round %d: a small value: %q, %v", round, v, err)
					}
				})
				synctest.Wait()
			}
			wg.Wait()
		}
	})
}
