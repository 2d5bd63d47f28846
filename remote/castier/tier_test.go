package castier_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
	"github.com/strata-cache/strata/stratatest"
)

// forgetful lets its store lose tags, as the checks of tags need it.
type forgetful struct {
	*castier.Tier
	store *lab.Model
}

func (f forgetful) Bind(s remote.Space) remote.Tier {
	return forgetful{f.Tier.Bind(s).(*castier.Tier), f.store}
}

func (f forgetful) ForgetTags() {
	f.store.Lose(func(key string) bool { return strings.Contains(key, ":t") || strings.Contains(key, ":T") })
}

// TestTierConforms runs the checks of every Tier on one server and on three, with values in
// the states of their keys, with values in items of their own, and on servers without abilities.
func TestTierConforms(t *testing.T) {
	for _, servers := range []int{1, 3} {
		for name, check := range stratatest.TierChecks() {
			t.Run(name, func(t *testing.T) { conforms(t, check, servers, 0, false) })
			t.Run(name+"/large", func(t *testing.T) { conforms(t, check, servers, 1, false) })
			t.Run(name+"/plain", func(t *testing.T) { conforms(t, check, servers, 0, true) })
		}
	}
}

func conforms(t *testing.T, check func(*testing.T, stratatest.Open), servers, large int, plain bool) {
	synctest.Test(t, func(t *testing.T) {
		check(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
			m := lab.NewModel(t, servers)
			m.LargeFrom, m.Plain = large, plain
			return forgetful{castier.NewFleet(m), m}, time.Sleep
		})
	})
}

func openTable(*testing.T) (castier.Store, func(time.Duration)) {
	return &table{rows: map[string]row{}}, time.Sleep
}

func openTier(*testing.T) (remote.Tier, func(time.Duration)) {
	return castier.New(&table{rows: map[string]row{}}), time.Sleep
}

// TestTableOfTheExampleConforms: it is a Store, and a Tier over it is a Tier.
func TestTableOfTheExampleConforms(t *testing.T) {
	for name, check := range stratatest.StoreChecks() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check(t, openTable) })
		})
	}
	for name, check := range stratatest.TierChecks() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check(t, openTier) })
		})
	}
}
