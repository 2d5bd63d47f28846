package memcached_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/remote"
)

// TestTheTierNeverMovesAKey: whatever the client does with the keys of a dead server.
func TestTheTierNeverMovesAKey(t *testing.T) {
	for d := memcached.DeadFails; d <= memcached.DeadMoves; d++ {
		three(t, treating(d), func(t *testing.T, q *squad, c *memcached.Client) {
			tier := memcached.NewTier(c)
			stored := map[string]bool{}
			for i := range 60 {
				key := fmt.Sprint("k", i)
				stored[key] = keeps(t, tier, key)
			}
			q.members[1].Stop()
			eject(t, q, c, 1)
			lost := 0
			for key := range stored {
				held, err := tier.Get(t.Context(), []string{key})
				var ce *memcached.ConnError
				switch {
				case err == nil && string(held[0].Data) == key: // of another server
				case errors.As(err, &ce):
					lost++
					if _, err := tier.Drop(t.Context(), []remote.Drop{{Key: key}}); !errors.As(err, &ce) {
						t.Errorf("%v: drop of %s: %v", d, key, err)
					}
				default:
					t.Errorf("%v: %s: %+v, %v", d, key, held, err)
				}
			}
			if lost < 5 || lost > 40 {
				t.Errorf("%v: %d keys are on the dead server", d, lost)
			}
		})
	}
}

// keeps stores a key as its own value in a tier.
func keeps(t *testing.T, tier remote.Tier, key string) bool {
	t.Helper()
	a, err := tier.Acquire(t.Context(), []remote.Request{{Key: key}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	refused, err := tier.Put(t.Context(), []remote.Put{{Key: key, Data: []byte(key), Fresh: time.Hour, Left: time.Hour, Lease: a[0].Lease}})
	if err != nil || len(refused) > 0 {
		t.Fatalf("%v, %v", refused, err)
	}
	return true
}
