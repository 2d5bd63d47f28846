package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// evicted is a tier on a server that can be made to forget keys, as a server
// that is short of memory does when it evicts them.
type evicted struct {
	*redis.Tier
	t    *testing.T
	c    *redis.Client
	name string
}

func (e evicted) Bind(s remote.Space) remote.Tier {
	return evicted{e.Tier.Bind(s).(*redis.Tier), e.t, e.c, s.Name}
}

func (e evicted) forget(key string) {
	e.t.Helper()
	if n, err := e.c.Do(e.t.Context(), "DEL", key).Int(); err != nil || n != 1 {
		e.t.Fatalf("DEL %q removed %d, %v; want 1", key, n, err)
	}
}

func (e evicted) ForgetLane(key string) {
	e.t.Helper()
	e.forget(fmt.Sprintf("strata:{%s:%d}lane", e.name, e.Lane(key)))
}

func (e evicted) ForgetTags() {
	e.t.Helper()
	e.forget("strata:{" + e.name + "}tags")
}

func TestRedisTierConformsWhenItsFencesAreEvicted(t *testing.T) { forgetting(t, servers.StartRedis(t)) }

func TestRedisTierConformsWhenItsFencesAreEvictedOnACluster(t *testing.T) {
	forgetting(t, servers.StartCluster(t, 3, 0))
}

func forgetting(t *testing.T, r server) {
	t.Helper()
	ran := 0
	for name, check := range stratatest.TierChecks() {
		if name != "LostTagsCountAsDropped" && name != "ForgottenLaneGetsAnotherVersion" {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			check(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
				c := r.Client(t)
				return evicted{Tier: redis.NewTier(c), t: t, c: c}, pause
			})
		})
	}
	if ran != 2 {
		t.Errorf("%d checks of what is forgotten; want 2", ran)
	}
}
