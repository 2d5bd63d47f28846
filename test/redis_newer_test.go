//go:build unix

package test

import (
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// TestRedisTierConformsOnEachSupportedLine has the lines beside the one that the machine has, Redis 7.0: the
// checks of every Tier, and of every Bus.
func TestRedisTierConformsOnEachSupportedLine(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	for name, line := range map[string]struct {
		servers.Newer
		version string // begins the text that INFO has
	}{
		"Redis 8":  {servers.Redis8, "redis_version:8."},
		"Valkey 8": {servers.Valkey8, "valkey_version:8."},
		"Valkey 9": {servers.Valkey9, "valkey_version:9."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			r := servers.StartNewerRedis(t, line.Newer)
			info, err := r.Client(t).Do(t.Context(), "INFO", "server").String()
			if err != nil || !strings.Contains(info, "\n"+line.version) {
				t.Fatalf("%v; no %s in %s", err, line.version, info)
			}
			t.Run("tier", func(t *testing.T) {
				stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
					return redis.NewTier(r.Client(t, patiently)), pause
				})
			})
			t.Run("bus", func(t *testing.T) { stratatest.TestBus(t, redisBus(r.Addr)) })
		})
	}
}
