package memcached_test

import (
	"errors"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// TestTierConforms runs the checks of every Tier on model servers.
func TestTierConforms(t *testing.T) {
	for name, check := range stratatest.TierChecks() {
		t.Run(name, func(t *testing.T) {
			fake(t, nil, func(t *testing.T, _ *fakes.Memcached, c *memcached.Client) {
				check(t, func(*testing.T) (remote.Tier, func(time.Duration)) { return memcached.NewTier(c), time.Sleep })
			})
		})
	}
}

// TestTierRefusesServersWithoutMetaCommands: the error says so.
func TestTierRefusesServersWithoutMetaCommands(t *testing.T) {
	everywhere(t, func(t *testing.T, _ *fakes.Memcached, c *memcached.Client) {
		able, err := c.Abilities(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = memcached.NewTier(c).Get(t.Context(), []string{"k"})
		if able.Meta && err != nil || !able.Meta && !errors.Is(err, memcached.ErrClassic) {
			t.Errorf("%+v: %v", able, err)
		}
	})
}
