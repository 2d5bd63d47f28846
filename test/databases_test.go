package test

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
)

// inDatabase makes an instance use a database of r by the own client.
func inDatabase(t testing.TB, r *servers.Redis, db int) change[string, int64] {
	return func(o *strata.Options[string, int64]) {
		c := r.Client(t, func(o *redis.Options) { o.DB = db })
		o.Remote.Tier, o.Remote.Bus = redis.NewTier(c), redis.NewBus(c)
	}
}

// TestCachesInTwoDatabasesOfAServerDoNotDisturbEachOther has two caches of one
// name in two databases: channels are the server's, keys are a database's.
func TestCachesInTwoDatabasesOfAServerDoNotDisturbEachOther(t *testing.T) {
	for kind, of := range map[string]func(r *servers.Redis, db int) change[string, int64]{
		"own client": func(r *servers.Redis, db int) change[string, int64] { return inDatabase(t, r, db) },
		"go-redis": func(r *servers.Redis, db int) change[string, int64] {
			return overGoRedis(t, goredis.Options{Addr: r.Addr, DB: db})
		},
	} {
		t.Run(kind, func(t *testing.T) {
			r := servers.StartRedis(t)
			zero, _ := instance(t, r, of(r, 0))
			one, _ := instance(t, r, of(r, 1))
			alike, _ := instance(t, r, of(r, 1))
			eventually(t, "the other cache is connected", func() bool { return zero.Stats().Connected })
			joined(t, "warm", one, alike)
			before := one.Stats()
			o := &counter{}
			mustGet(t, one, "k", o.load)
			for range 20 {
				if err := zero.Invalidate(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
			}
			if err := zero.InvalidateAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			joined(t, "warm", alike, one) // by then, messages of zero would have come, too
			mustGet(t, one, "k", o.load)
			after := one.Stats()
			if loads := o.loads.Load(); loads != 1 || after.Missed != before.Missed || after.Gaps != before.Gaps {
				t.Errorf("%d loads, %d lanes missed, %d gaps; want 1, 0, 0", loads, after.Missed-before.Missed, after.Gaps-before.Gaps)
			}
			o.value.Store(1)
			if err := one.Invalidate(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "a cache of the same database applies the drop", func() bool { return mustGet(t, alike, "k", o.load) == 1 })
		})
	}
}
