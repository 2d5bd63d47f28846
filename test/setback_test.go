package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// TestClockThatWasSetBackProlongsNoHoldAndNoLease writes holds and leases as a
// server has them after its clock was set back by an hour.
func TestClockThatWasSetBackProlongsNoHoldAndNoLease(t *testing.T) {
	const length = 300 * time.Millisecond
	for name, client := range withAndWithoutScripts() {
		t.Run(name, func(t *testing.T) {
			r := servers.StartRedis(t)
			admin := r.Client(t)
			tier := redis.NewTier(client(t, r)).Bind(remote.Space{Name: "n", Schema: 1}).(*redis.Tier)
			entry := func(key string) string { return fmt.Sprintf("strata:{n:%d}=%s", tier.Lane(key), key) }
			ahead := time.Now().Add(time.Hour + length).UnixMilli()
			for _, key := range []string{"hold", "dropped", "longer"} {
				drop(t, tier, remote.Drop{Key: key, Hold: length})
				mustDo(t, admin, "HSET", entry(key), "h", fmt.Sprint(ahead, " ", length.Milliseconds()))
			}
			begun := time.Now()
			if _, l, err := kit.Acquire(t.Context(), tier, "hold", time.Minute); err != nil || l.Grant != remote.OnHold || l.Wait > length {
				t.Errorf("%+v, %v; want a hold of %v at most", l, err, length)
			}
			drop(t, tier, remote.Drop{Key: "dropped"})
			drop(t, tier, remote.Drop{Key: "longer", Hold: 2 * length})
			for key, most := range map[string]time.Duration{"hold": length, "dropped": length, "longer": 2 * length} {
				eventually(t, key+" is over", func() bool {
					_, l, err := kit.Acquire(t.Context(), tier, key, time.Minute)
					return err == nil && l.Grant == remote.Granted
				})
				if took := time.Since(begun); took > most+5*time.Second {
					t.Errorf("%s lasted %v; want %v", key, took, most)
				}
			}
			if took := time.Since(begun); took < 2*length-time.Millisecond { // the server counts in milliseconds
				t.Errorf("the holds were over after %v", took)
			}

			_, l, err := kit.Acquire(t.Context(), tier, "lease", length)
			if err != nil || l.Grant != remote.Granted {
				t.Fatalf("%+v, %v", l, err)
			}
			mustDo(t, admin, "HSET", entry("lease"), "l1", fmt.Sprintf("%x %d %d", l.Token, ahead, length.Milliseconds()))
			_, m, err := kit.Acquire(t.Context(), tier, "lease", time.Minute)
			if err != nil || m.Grant != remote.Granted {
				t.Errorf("%+v, %v; want the lease of which more is left than was given", m, err)
			}
			for _, put := range []struct {
				l       remote.Lease
				refused int
			}{{l, 1}, {m, 0}} {
				no, err := tier.Put(t.Context(), []remote.Put{{Key: "lease", Data: []byte("v"), Left: time.Minute, Lease: put.l}})
				if err != nil || len(no) != put.refused {
					t.Errorf("refused %v, %v; want %d", no, err, put.refused)
				}
			}
		})
	}
}
