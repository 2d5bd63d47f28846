package goredis_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
)

// TestFailoverIsNoticed has sentinels name another server. Values put under the
// namespace state of the first server are not believed from the second.
func TestFailoverIsNoticed(t *testing.T) {
	fake(t, nil, func(t *testing.T, first *fakes.Redis, _ *redis.Client) {
		second, sentinel := fakes.NewRedis(), fakes.NewRedis()
		defer second.Close()
		defer sentinel.Close()
		second.Script(layout.Namespace(), func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Out = append(ss.Out, "*5\r\n$1\r\nf\r\n:0\r\n:0\r\n:0\r\n:1000\r\n"...)
		})
		second.Handle("HMGET", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Out = resp.AppendArray(ss.Out, 2)
			ss.Bulk("value")
			ss.Bulk("99999999999999 99999999999999 7 e.0.0")
		})
		master := "1"
		sentinel.Handle("SENTINEL", func(ss *fakes.RedisSession, args [][]byte) {
			if string(args[1]) != "get-master-addr-by-name" {
				ss.Out = resp.AppendArray(ss.Out, 0)
				return
			}
			ss.Out = resp.AppendArray(ss.Out, 2)
			ss.Bulk("127.0.0.1")
			ss.Bulk(master)
		})
		rdb := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: "m", SentinelAddrs: []string{"127.0.0.1:9"}, DialerRetries: 1,
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				switch addr {
				case "127.0.0.1:1":
					return first.Dial(ctx, network, addr)
				case "127.0.0.1:2":
					return second.Dial(ctx, network, addr)
				}
				return sentinel.Dial(ctx, network, addr)
			},
		})
		defer rdb.Close()
		tier := bind(t, rdb)
		warm(t, tier)
		master = "2"
		first.Stop()
		time.Sleep(time.Millisecond)
		if v, err := get(t.Context(), tier, "k"); v != "" || err != nil {
			t.Errorf("the new primary holds %q, %v; want nothing: it has another epoch", v, err)
		}
		synctest.Wait()
	})
}

func TestRefusedDialIsNotTriedAgain(t *testing.T) {
	dials := 0
	fake(t, func(_ *fakes.Redis, o *redis.Options) {
		o.Dialer = func(_ context.Context, network, _ string) (net.Conn, error) {
			dials++
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
		}
	}, func(t *testing.T, _ *fakes.Redis, rdb *redis.Client) {
		if _, err := get(t.Context(), bind(t, rdb), "k"); err == nil || dials > 2 {
			t.Errorf("%v after %d dials; want two at most, one by each pool of go-redis", err, dials)
		}
	})
}

// TestHangingConnectionEndsWithTheDeadline has a server that cannot be reached,
// and one that does not greet.
func TestHangingConnectionEndsWithTheDeadline(t *testing.T) {
	for _, enabled := range []bool{false, true} {
		for name, change := range map[string]func(*fakes.Redis, *redis.Options){
			"dial": func(_ *fakes.Redis, o *redis.Options) {
				o.Dialer = func(context.Context, string, string) (net.Conn, error) {
					time.Sleep(time.Minute) // in a bubble
					return nil, errors.New("no route")
				}
			},
			"greeting": func(s *fakes.Redis, _ *redis.Options) {
				s.Handle("HELLO", func(*fakes.RedisSession, [][]byte) {})
			},
		} {
			fake(t, func(s *fakes.Redis, o *redis.Options) {
				o.ContextTimeoutEnabled = enabled
				change(s, o)
			}, func(t *testing.T, _ *fakes.Redis, rdb *redis.Client) {
				tier := bind(t, rdb)
				for range 3 {
					start := time.Now()
					_, err := get(kit.Within(t, time.Second), tier, "k")
					if took := time.Since(start); took != time.Second || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%s hangs, ContextTimeoutEnabled %v: %v after %v", name, enabled, err, took)
					}
				}
				time.Sleep(time.Hour)
			})
		}
	}
}
