package itemtier_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/memcached/itemtier"
	"github.com/strata-cache/strata/internal/memcached/itemtier/model"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// forgetful lets its store lose tags, as the checks of tags need it.
type forgetful struct {
	*itemtier.Tier
	store *model.Store
}

func (f forgetful) Bind(s remote.Space) remote.Tier {
	return forgetful{f.Tier.Bind(s).(*itemtier.Tier), f.store}
}

func (f forgetful) ForgetTags() {
	f.store.Lose(func(key string) bool { return strings.Contains(key, ":t") || strings.Contains(key, ":T") })
}

func (f forgetful) ForgetLane(string) {}

// TestTierConforms runs the checks of every Tier on one server and on three, with values in
// the states of their keys, and with values in items of their own.
func TestTierConforms(t *testing.T) {
	for _, servers := range []int{1, 3} {
		for name, check := range stratatest.TierChecks() {
			t.Run(name, func(t *testing.T) { conforms(t, servers, itemtier.Large, check) })
			t.Run(name+"/large", func(t *testing.T) { conforms(t, servers, 1, check) })
		}
	}
}

func conforms(t *testing.T, servers, large int, check func(*testing.T, stratatest.Open)) {
	synctest.Test(t, func(t *testing.T) {
		check(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
			m := model.New(t, servers)
			return forgetful{itemtier.New(m, false, large), m}, time.Sleep
		})
	})
}
