//go:build unix

package test

import (
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/slots"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/test/internal/servers"
)

// TestChangesOfAClusterTellWhatBecomesOfItsSlots has an instance that asks for
// nothing but changes: a slot moves, a drop happens
// there, and a replica takes over.
func TestChangesOfAClusterTellWhatBecomesOfItsSlots(t *testing.T) {
	k := servers.StartCluster(t, 3, 1)
	for i := range k.Nodes {
		mustDo(t, k.Raw(i), "ACL", "SETUSER", "plain", "on", ">secret", "~*", "&*", "+@all", "-@scripting")
	}
	plainly := func(o *redis.Options) { o.Username, o.Password = "plain", "secret" }
	other := redis.NewTier(k.Client(t)).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
	for name, c := range map[string]*redis.Client{"scripts": k.Client(t), "plain": k.Client(t, plainly)} {
		tier := redis.NewTier(c).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
		changes := func() string {
			t.Helper()
			<-time.After(remote.ChangesAge)
			text, err := tier.Changes(t.Context())
			if err != nil {
				t.Logf("%s: %v", name, err)
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
		to := (from + 1) % 3
		position(t, tier)
		before := settled()
		k.Migrate(slot, from, to, nil)
		if after := changes(); after == before {
			t.Errorf("%s: %q before and after a slot has moved", name, after)
		}
		before = settled()
		drop(t, other, remote.Drop{Key: "k"})
		if after := changes(); after == before {
			t.Errorf("%s: %q before and after a drop in a slot that has moved", name, after)
		}
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
}
