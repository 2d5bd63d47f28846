package goredis_test

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/strata-cache/strata/contrib/goredis"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/remote"
)

// fake runs f in a bubble with a model server, on which all scripts succeed,
// and a client for it. change, if not nil, alters both before the client is
// made.
func fake(t *testing.T, change func(*fakes.Redis, *redis.Options), f func(t *testing.T, s *fakes.Redis, rdb *redis.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := fakes.NewRedis()
		defer s.Close()
		for _, text := range []string{layout.Drop, layout.Fill, layout.Put, layout.Release} {
			s.Script(text, func(ss *fakes.RedisSession, _ [][]byte) { ss.Int(1) })
		}
		s.Script(layout.Namespace(), namespaceState)
		s.Handle("HMGET", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Out = resp.AppendArray(ss.Out, 2)
			ss.Bulk("value")
			ss.Bulk("99999999999999 99999999999999 7 e.0.0")
		})
		o := &redis.Options{
			Addr: "127.0.0.1:6379", Dialer: s.Dial, DialerRetries: 1,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}
		if change != nil {
			change(s, o)
		}
		rdb := redis.NewClient(o)
		defer rdb.Close()
		f(t, s, rdb)
	})
}

// namespaceState answers as the script does that reads the state of a namespace.
func namespaceState(ss *fakes.RedisSession, _ [][]byte) {
	ss.Out = resp.AppendArray(ss.Out, 5)
	ss.Bulk("e")
	for _, n := range []int{0, 0, 0, 1000} {
		ss.Int(n)
	}
}

// bind returns a part of a new tier on rdb.
func bind(t *testing.T, rdb *redis.Client) *goredis.Tier {
	t.Helper()
	tier, err := goredis.NewTier(rdb)
	if err != nil {
		t.Fatal(err)
	}
	return tier.Bind(remote.Space{Name: "n", Schema: 1, Instance: 1}).(*goredis.Tier)
}

// goroutines counts the goroutines with this text in their stacks.
func goroutines(text string) int {
	stacks := make([]byte, 1<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte(text))
}

// get reads a key.
func get(ctx context.Context, tier *goredis.Tier, key string) (string, error) {
	held, err := tier.Get(ctx, []string{key})
	if err != nil {
		return "", err
	}
	return string(held[0].Data), nil
}

// mustGet fails unless the value is read.
func mustGet(t *testing.T, tier *goredis.Tier) {
	t.Helper()
	if v, err := get(t.Context(), tier, "k"); v != "value" || err != nil {
		t.Fatalf("got %q, %v; want value", v, err)
	}
}

// warm reads until go-redis has connections in both of its pools and the namespace state
// was read over the last of them.
func warm(t *testing.T, tier *goredis.Tier) {
	t.Helper()
	for range 4 {
		mustGet(t, tier)
	}
}

func drop(ctx context.Context, tier *goredis.Tier, keys ...string) error {
	var drops []remote.Drop
	for _, k := range keys {
		drops = append(drops, remote.Drop{Key: k})
	}
	_, err := tier.Drop(ctx, drops)
	return err
}
