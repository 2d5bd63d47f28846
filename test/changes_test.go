//go:build unix

package test

import (
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// TestChangesOfAClusterFollowItsSlots has an instance that asks for nothing but
// changes, while a slot moves, a key in it is dropped, and a replica takes
// over. Each of these must be a change.
func TestChangesOfAClusterFollowItsSlots(t *testing.T) {
	plainly := func(o *redis.Options) { o.Username, o.Password = "plain", "secret" }
	for name, change := range map[string][]func(*redis.Options){"scripts": nil, "plain": {plainly}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			k := servers.StartCluster(t, 3, 0)
			for i := range k.Nodes {
				mustDo(t, k.Raw(i), "ACL", "SETUSER", "plain", "on", ">secret", "~*", "&*", "+@all", "-@scripting")
			}
			changesOfASlot(t, k, k.Client(t, change...))
		})
	}
	t.Run("failover", func(t *testing.T) {
		t.Parallel() // it waits most of the time
		k := servers.StartCluster(t, 3, 1)
		for i := range k.Nodes { // no node takes a slow one for dead: the failover is the test's own
			mustDo(t, k.Raw(i), "CONFIG", "SET", "cluster-node-timeout", 60_000)
		}
		tier := redis.NewTier(k.Client(t)).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
		position(t, tier)
		before, err := tier.Changes(t.Context())
		if err != nil || before == "" {
			t.Fatalf("%q, %v", before, err)
		}
		mustDo(t, k.Raw(3), "CLUSTER", "FAILOVER", "TAKEOVER")
		eventually(t, "the failover shows", func() bool {
			<-time.After(remote.ChangesAge)
			after, err := tier.Changes(t.Context())
			return err != nil || after != before
		})
	})
}

// changesOfASlot moves a slot, and drops a key in it.
func changesOfASlot(t *testing.T, k *servers.Cluster, c *redis.Client) {
	t.Helper()
	other := redis.NewTier(k.Client(t)).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
	tier := redis.NewTier(c).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
	changes := func() string {
		t.Helper()
		<-time.After(remote.ChangesAge)
		text, err := tier.Changes(t.Context())
		if err != nil {
			t.Log(err)
		}
		return text
	}
	settled := func() (before string) {
		t.Helper()
		eventually(t, "nothing changes", func() bool {
			before = changes()
			position(t, tier)
			return before != "" && before == changes()
		})
		return before
	}
	slot := slots.Of("strata:{n:234}lane")
	from := k.Owner(0, "strata:{n:234}lane")
	drop(t, tier, remote.Drop{Key: "k"}) // makes the lane
	position(t, tier)
	before := settled()
	k.Migrate(slot, from, (from+1)%3, nil)
	if after := changes(); after == before {
		t.Errorf("%q before and after a slot has moved", after)
	}
	before = settled()
	drop(t, other, remote.Drop{Key: "k"})
	if after := changes(); after == before {
		t.Errorf("%q before and after a drop in a slot that has moved", after)
	}
}
