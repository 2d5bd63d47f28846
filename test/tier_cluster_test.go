package test

import (
	"testing"
	"time"

	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
	"github.com/strata-cache/strata/test/internal/servers"
)

func TestRedisTierConformsOnACluster(t *testing.T) {
	k := servers.StartCluster(t, 3, 0)
	stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
		return redis.NewTier(k.Client(t)), pause
	})
}

func TestRedisTierConformsOnAClusterWithoutScripts(t *testing.T) {
	k := servers.StartCluster(t, 3, 0)
	for i := range k.Nodes {
		mustDo(t, k.Raw(i), "ACL", "SETUSER", "plain", "on", ">secret", "~*", "&*", "+@all", "-@scripting")
	}
	stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
		return redis.NewTier(k.Client(t, func(o *redis.Options) { o.Username, o.Password = "plain", "secret" })), pause
	})
}

func TestRedisBusConformsOnACluster(t *testing.T) {
	k := servers.StartCluster(t, 3, 0)
	stratatest.TestBus(t, func(t *testing.T) stratatest.BusFixture {
		line := &servers.Line{}
		return stratatest.BusFixture{
			Bus:  redis.NewBus(k.Client(t, func(o *redis.Options) { o.DialContext = line.DialContext })),
			Peer: redis.NewBus(k.Client(t)),
			Cut:  func() func() { line.Cut(); return line.Join },
		}
	})
}

func TestRedisTierAnnouncesOnACluster(t *testing.T) {
	k := servers.StartCluster(t, 3, 0)
	stratatest.TestAnnouncer(t, func(t *testing.T) (remote.Tier, remote.Bus) {
		return redis.NewTier(k.Client(t)), redis.NewBus(k.Client(t))
	})
}
