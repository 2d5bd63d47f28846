package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// TestTierOnAServerOfAClusterNamesTheOptionToSet has a client without Cluster meet a
// server that serves some of the slots only.
func TestTierOnAServerOfAClusterNamesTheOptionToSet(t *testing.T) {
	for _, text := range []string{"MOVED 3999 127.0.0.1:6381", "CROSSSLOT Keys in request don't hash to the same slot"} {
		fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			for _, name := range []string{"EVAL", "EVALSHA", "HMGET", "MGET"} {
				s.Handle(name, func(ss *fakes.RedisSession, _ [][]byte) { ss.Error(text) })
			}
			tier := redis.NewTier(c).Bind(remote.Space{Name: "n"}).(*redis.Tier)
			_, err1 := tier.Get(t.Context(), []string{"k"})
			_, _, err2 := kit.Acquire(t.Context(), tier, "k", time.Minute)
			_, err3 := tier.Drop(t.Context(), []remote.Drop{{Key: "k"}})
			for _, err := range []error{err1, err2, err3, tier.DropAll(t.Context(), false)} {
				var refused *redis.Error
				if !errors.As(err, &refused) || !strings.Contains(err.Error(), "set redis.Options.Cluster") || !strings.Contains(err.Error(), text) {
					t.Errorf("%v: does not name the option to set", err)
				}
			}
		})
	}
}

// script makes the model server answer calls of scripts about one key with f, and tell the state of the
// namespace and its run.
func script(s *fakes.Redis, f fakes.RedisHandler) {
	for _, name := range []string{"EVAL", "EVALSHA"} {
		s.Handle(name, func(ss *fakes.RedisSession, args [][]byte) {
			switch keys := string(args[2]); keys {
			case "0":
				ss.Bulk("abc")
			case "2":
				ss.Out = fmt.Appendf(ss.Out, "*5\r\n$1\r\ne\r\n:0\r\n:0\r\n:0\r\n:%d\r\n", time.Now().UnixMilli())
			default:
				f(ss, args)
			}
		})
	}
}

// TestBatchOfDropsBelievesNoOtherAnswerThanOneDrop has a server give answers that no script gives, such
// as QUEUED, the answer within a transaction.
func TestBatchOfDropsBelievesNoOtherAnswerThanOneDrop(t *testing.T) {
	for raw, confirms := range map[string]bool{":1\r\n": true, "+QUEUED\r\n": false, "+OK\r\n": false, "*0\r\n": false, "$1\r\nx\r\n": false} {
		change := func(s *fakes.Redis, _ *redis.Options) {
			for _, name := range []string{"EVAL", "EVALSHA"} {
				s.Handle(name, func(ss *fakes.RedisSession, _ [][]byte) { ss.Out = append(ss.Out, raw...) })
			}
		}
		fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
			tier := redis.NewTier(c).Bind(remote.Space{Name: "n"}).(*redis.Tier)
			for _, drops := range [][]remote.Drop{{{Key: "a"}}, {{Key: "a"}, {Key: "b"}}} {
				if _, err := tier.Drop(t.Context(), drops); (err == nil) != confirms {
					t.Errorf("%q: %d drops: %v", raw, len(drops), err)
				}
			}
		})
	}
}

// TestTierStoresNoValueThatItCannotRead has a MaxReply below MaxValue, and states of the greatest length.
func TestTierStoresNoValueThatItCannotRead(t *testing.T) {
	for most, largest := range map[int]int{64 << 10: 63 << 10, 1 << 10: 0, 100: 0} {
		var held []byte
		change := func(s *fakes.Redis, o *redis.Options) {
			o.MaxReply = most
			script(s, func(ss *fakes.RedisSession, args [][]byte) {
				held = append([]byte(nil), args[8]...)
				ss.Int(1)
			})
			s.Handle("HMGET", func(ss *fakes.RedisSession, _ [][]byte) {
				ss.Out = append(ss.Out, "*2\r\n"...)
				ss.Bulk(string(held))
				ss.Bulk(strings.Repeat("9999999999999999 ", 2) + strings.Repeat("f", 16) + " " + strings.Repeat("f", 120))
			})
		}
		fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
			tier := redis.NewTier(c).Bind(remote.Space{Name: "n"}).(*redis.Tier)
			put := func(size int) error {
				_, err := tier.Put(t.Context(), []remote.Put{{Key: "k", Data: make([]byte, size), Left: time.Minute, Lease: remote.Lease{Token: 7}}})
				return err
			}
			if err := put(largest + 1); !errors.Is(err, remote.ErrValueTooLarge) {
				t.Errorf("MaxReply %d: a value of %d bytes: %v", most, largest+1, err)
			}
			if largest == 0 {
				return
			}
			if err := put(largest); err != nil || len(held) != largest {
				t.Errorf("%d bytes are stored, %v", len(held), err)
			}
			if _, err := tier.Read(t.Context(), time.Second, "k", nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBatchOfATierThatAProxyRefusesInPartIsNotSentTwice: a proxy has several servers, and one of them does
// not know the user any more.
func TestBatchOfATierThatAProxyRefusesInPartIsNotSentTwice(t *testing.T) {
	refuse, stored := false, map[string]int{}
	change := func(s *fakes.Redis, _ *redis.Options) {
		script(s, func(ss *fakes.RedisSession, args [][]byte) {
			if refuse {
				refuse = false
				ss.Error("NOAUTH Authentication required.")
				return
			}
			stored[string(args[3])]++
			ss.Int(1)
		})
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		tier := redis.NewTier(c).Bind(remote.Space{Name: "n"}).(*redis.Tier)
		put := func(keys ...string) error {
			var puts []remote.Put
			for _, k := range keys {
				puts = append(puts, remote.Put{Key: k, Data: []byte("v"), Left: time.Minute, Lease: remote.Lease{Token: 7}})
			}
			_, err := tier.Put(t.Context(), puts)
			return err
		}
		if err := put("a", "b"); err != nil {
			t.Fatal(err)
		}
		refuse = true
		var refused *redis.Error
		if err := put("c", "d", "e"); !errors.As(err, &refused) || refused.Code != "NOAUTH" {
			t.Error(err)
		}
		for key, n := range stored {
			if n > 1 {
				t.Errorf("%s was stored %d times", key, n)
			}
		}
	})
}

// TestRefusedBatchOfLeasesIsOneRoundTrip has a server without free memory refuse the leases. Only the one on the
// key whose script the server did not know, and then knows, is requested again.
func TestRefusedBatchOfLeasesIsOneRoundTrip(t *testing.T) {
	forgotten := 2 // times that the server does not know the script of the last key
	change := func(s *fakes.Redis, _ *redis.Options) {
		script(s, func(ss *fakes.RedisSession, args [][]byte) {
			switch key := string(args[3]); {
			case !strings.HasSuffix(key, "=99"):
				ss.Error("OOM command not allowed when used memory > 'maxmemory'.")
			case forgotten > 0:
				forgotten--
				ss.Error("NOSCRIPT No matching script. Please use EVAL.")
			default:
				ss.Int(1)
			}
		})
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		tier := redis.NewTier(c).Bind(remote.Space{Name: "n"}).(*redis.Tier)
		var requests []remote.Request
		for i := range 100 {
			requests = append(requests, remote.Request{Key: fmt.Sprint(i)})
		}
		acquired, err := tier.Acquire(t.Context(), requests, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range acquired {
			if (a.Err == nil) != (i == 99) {
				t.Errorf("key %d: %v", i, a.Err)
			}
		}
		if n := s.Calls("EVALSHA") + s.Calls("EVAL"); n > 110 {
			t.Errorf("%d calls of scripts for %d keys", n, len(requests))
		}
	})
}
