package test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// TestNamesWriteNoKeysBeforeTheirDrops: the lanes of a name come with their first drops.
func TestNamesWriteNoKeysBeforeTheirDrops(t *testing.T) {
	r := servers.StartRedis(t)
	k := servers.StartCluster(t, 3, 0)
	for name, open := range map[string]func(testing.TB) *redis.Client{
		"one":     func(t testing.TB) *redis.Client { return r.Client(t) },
		"cluster": func(t testing.TB) *redis.Client { return k.Client(t) },
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			const names = 20
			for i := range names {
				o := strata.Options[string, string]{Name: fmt.Sprintf("n%d", i), TTL: time.Hour}
				o.Remote.Tier, o.Remote.Bus, o.Remote.Timeout = redis.NewTier(c), redis.NewBus(c), patience
				cache, err := strata.New(o)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { cache.Close(context.Background()) })
				until(t, 10*time.Second, "connected", func() bool { return cache.Stats().Connected })
				if err := cache.Set(t.Context(), "k", "v"); err != nil {
					t.Fatal(err)
				}
			}
			keys := 0
			for _, key := range []string{"a", "b", "c", "{n0}word"} { // some of the servers
				n, err := c.Do(t.Context(), "EVAL", "return redis.call('DBSIZE')", 1, key).Int()
				if err != nil {
					t.Fatal(err)
				}
				keys = max(keys, int(n))
			}
			// The value, its lane, the namespace state and the table of tags.
			if keys > 4*names {
				t.Errorf("%d keys on one server for %d names with one value each", keys, names)
			}
		})
	}
}

// fillers is the number of keys that a server can evict before the keys of a cache.
const fillers = 200

// TestLostLaneIsNoLaneWithoutDrops: an instance that missed a drop finds it,
// although the lane is lost.
func TestLostLaneIsNoLaneWithoutDrops(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		lose func(t *testing.T, c *redis.Client, lane string)
	}{
		"deleted by another program": {nil, func(t *testing.T, c *redis.Client, lane string) { mustDo(t, c, "DEL", lane) }},
		"evicted": {[]string{"--maxmemory-policy", "allkeys-lru", "--maxmemory-samples", "64"}, func(t *testing.T, c *redis.Client, lane string) {
			mustDo(t, c, "DEL", lane) // as if the server had evicted this key
			info, err := c.Do(t.Context(), "INFO", "memory").String()
			if err != nil {
				t.Fatal(err)
			}
			_, used, _ := strings.Cut(info, "used_memory:")
			used, _, _ = strings.Cut(used, "\r")
			mustDo(t, c, "CONFIG", "SET", "maxmemory", used)
			until(t, 10*time.Second, "a key is evicted", func() bool {
				c.Do(t.Context(), "SET", "one more", make([]byte, 10_000))
				n, err := c.Do(t.Context(), "DBSIZE").Int()
				return err == nil && n < fillers
			})
			mustDo(t, c, "CONFIG", "SET", "maxmemory", "0")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := servers.StartRedis(t, tc.args...)
			for i := range fillers {
				mustDo(t, r.Client(t), "SET", fmt.Sprint("filler", i), make([]byte, 10_000))
			}
			until(t, 10*time.Second, "they are old", func() bool {
				idle, err := r.Client(t, patiently).Do(t.Context(), "OBJECT", "IDLETIME", fmt.Sprint("filler", fillers-1)).Int()
				return err == nil && idle >= 2
			})
			bind := func(instance uint64) *redis.Tier {
				return redis.NewTier(r.Client(t)).Bind(remote.Space{Name: "n", Schema: 1, Instance: instance}).(*redis.Tier)
			}
			missed, drops := bind(1), bind(2)
			before := position(t, missed)
			drop(t, drops, remote.Drop{Key: "k"})
			lane := missed.Lane("k")
			tc.lose(t, r.Client(t), fmt.Sprintf("strata:{n:%d}lane", lane))
			if name != "evicted" {
				position(t, drops) // the instance learns the lane here, as each does by itself within seconds
			}
			after := position(t, missed)
			if after.Epoch != before.Epoch {
				t.Fatal("the namespace state has gone, too")
			}
			if after.Lanes[lane] == before.Lanes[lane] {
				t.Errorf("the lane was %+v, had a drop, was lost, and is %+v", before.Lanes[lane], after.Lanes[lane])
			}
			if again := position(t, missed); !slices.Equal(again.Lanes, after.Lanes) {
				t.Error("lanes do not stay as they are")
			}
		})
	}
}
