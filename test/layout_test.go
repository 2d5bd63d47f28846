package test

import (
	"testing"
	"time"

	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/test/internal/servers"
)

// part is one cache's part of a tier on a real Redis, and the client beneath.
func part(t *testing.T, schema uint64) (*redis.Client, *redis.Tier, *servers.Redis) {
	t.Helper()
	r := servers.StartRedis(t)
	c := r.Client(t)
	return c, redis.NewTier(c).Bind(remote.Space{Name: "n", Schema: schema}).(*redis.Tier), r
}

func fill(t *testing.T, tier *redis.Tier, key, value string, left time.Duration) {
	t.Helper()
	_, l, err := tier.Acquire(t.Context(), key, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	no, err := tier.Put(t.Context(), []remote.Put{{Key: key, Data: []byte(value), Fresh: left, Left: left, Lease: l}})
	if err != nil || len(no) > 0 {
		t.Fatalf("Put: refused %v, %v", no, err)
	}
}

func held(t *testing.T, tier *redis.Tier, key string) string {
	t.Helper()
	h, err := tier.Get(t.Context(), []string{key})
	if err != nil {
		t.Fatal(err)
	}
	return string(h[0].Data)
}

func TestRedisThatWasSetBackIsNotBelieved(t *testing.T) {
	c, tier, _ := part(t, 1)
	fill(t, tier, "k", "old", time.Hour)
	if err := tier.DropAll(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if v := held(t, tier, "k"); v != "" {
		t.Fatalf("%q survived DropAll", v)
	}
	if err := c.Do(t.Context(), "HSET", "strata:{n}word", "count", 0).Err(); err != nil {
		t.Fatal(err)
	}
	tier.Doubt()
	if v := held(t, tier, "k"); v != "" {
		t.Errorf("%q is back with the older state", v)
	}
}

func TestForeignDataUnderKeysOfTheTierIsReplaced(t *testing.T) {
	c, tier, _ := part(t, 1)
	for _, key := range []string{"strata:{n}word", "strata:{n:234}lane", "strata:{n:234}=k"} {
		if err := c.Do(t.Context(), "SET", key, "theirs").Ok(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tier.Get(t.Context(), []string{"k"}); err == nil {
		t.Log("the word was usable at once")
	}
	if v := held(t, tier, "k"); v != "" {
		t.Errorf("%q is read as a value", v)
	}
	if _, err := tier.Drop(t.Context(), []remote.Drop{{Key: "k"}}); err != nil {
		t.Errorf("Drop over foreign data: %v", err)
	}
	fill(t, tier, "k", "ours", time.Hour)
	if v := held(t, tier, "k"); v != "ours" {
		t.Errorf("got %q, want what was put", v)
	}
	if tier.Foreign() == 0 {
		t.Error("nothing was counted")
	}
}

func TestValuesOfRetiredTypesLeaveRedis(t *testing.T) {
	c, retired, r := part(t, 0xa)
	current := redis.NewTier(r.Client(t)).Bind(remote.Space{Name: "n", Schema: 0xb}).(*redis.Tier)
	fill(t, retired, "k", "old", 50*time.Millisecond)
	fill(t, current, "k", "new", time.Hour)
	eventually(t, "the old type's life is over", func() bool { return held(t, retired, "k") == "" })
	if _, err := current.Drop(t.Context(), []remote.Drop{{Key: "k", Soft: true}}); err != nil {
		t.Fatal(err)
	}
	fill(t, current, "k", "newer", time.Hour)
	if n, err := c.Do(t.Context(), "HEXISTS", "strata:{n:234}=k", "va").Int(); err != nil || n != 0 {
		t.Errorf("its value is still kept: %d, %v", n, err)
	}
	if v := held(t, current, "k"); v != "newer" {
		t.Errorf("got %q", v)
	}
}
