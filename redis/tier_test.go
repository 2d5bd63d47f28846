package redis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakeredis"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// TestTierOnAServerOfAClusterNamesTheOptionToSet has a client without Cluster meet a
// server that serves some of the slots only.
func TestTierOnAServerOfAClusterNamesTheOptionToSet(t *testing.T) {
	for _, text := range []string{"MOVED 3999 127.0.0.1:6381", "CROSSSLOT Keys in request don't hash to the same slot"} {
		fake(t, nil, func(t *testing.T, s *fakeredis.Server, c *redis.Client) {
			for _, name := range []string{"EVAL", "EVALSHA", "HMGET", "MGET"} {
				s.Handle(name, func(ss *fakeredis.Session, _ [][]byte) { ss.Error(text) })
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
