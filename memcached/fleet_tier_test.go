package memcached_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// TestTierOverAFleetConforms runs the checks of every Tier on three servers.
func TestTierOverAFleetConforms(t *testing.T) {
	for name, check := range stratatest.TierChecks() {
		t.Run(name, func(t *testing.T) {
			three(t, nil, func(t *testing.T, _ *squad, c *memcached.Client) {
				check(t, func(*testing.T) (remote.Tier, func(time.Duration)) { return memcached.NewTier(c), time.Sleep })
			})
		})
	}
}

// TestTheTierNeverMovesAKey: for each way in which the client may treat the keys of a dead server.
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

// TestProbeAsksAllServers: the error names a server that cannot hold entries or does not answer.
func TestProbeAsksAllServers(t *testing.T) {
	three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
		tier := memcached.NewTier(c)
		if _, err := tier.Probe(t.Context()); err != nil {
			t.Error(err)
		}
		q.members[2].Stop()
		if _, err := tier.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), q.servers[2]) {
			t.Errorf("a server that is gone: %v", err)
		}
	})
	three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
		q.members[1].Generation = fakes.Old
		if _, err := memcached.NewTier(c).Probe(t.Context()); !errors.Is(err, memcached.ErrClassic) || !strings.Contains(err.Error(), q.servers[1]) {
			t.Errorf("a server without meta commands: %v", err)
		}
	})
}

// absences are ways for a server to be away, and to come back.
var absences = map[string]struct{ leave, comeBack func(*member) }{ // read-only
	"with its items": {func(m *member) { m.Stop() }, func(m *member) { m.Start() }},
	"from a pause":   {func(m *member) { m.pause() }, func(m *member) { m.resume() }},
	"empty":          {func(m *member) { m.Stop() }, func(m *member) { m.Restart() }},
	"after a reset":  {func(m *member) { m.pause() }, func(m *member) { m.Drop(); m.resume() }},
}

// drops are ways to drop keys. Each returns the error of the drops that L2 did not confirm.
var drops = map[string]func(ctx context.Context, c *strata.Cache[string, int64], keys []string) error{ // read-only
	"one by one": func(ctx context.Context, c *strata.Cache[string, int64], keys []string) error {
		var errs []error
		for _, key := range keys {
			errs = append(errs, c.Invalidate(ctx, key))
		}
		return errors.Join(errs...)
	},
	"by their tag": func(ctx context.Context, c *strata.Cache[string, int64], _ []string) error {
		return c.InvalidateTags(ctx, "a", "b", "c", "d")
	},
	"all": func(ctx context.Context, c *strata.Cache[string, int64], _ []string) error {
		return c.InvalidateAll(ctx)
	},
}

// TestServerThatComesBackBringsNoOldValue drops values while one of three servers is
// away. The instance that drops never reads an old value afterwards, and other instances
// do not once Stats.Pending says that the drop is confirmed.
func TestServerThatComesBackBringsNoOldValue(t *testing.T) {
	for absence, way := range absences {
		for name, drop := range drops {
			for d := memcached.DeadFails; d <= memcached.DeadMoves; d++ {
				t.Run(fmt.Sprint(absence, "/", name, "/", d), func(t *testing.T) {
					three(t, treating(d), func(t *testing.T, q *squad, c *memcached.Client) {
						o := &old{t: t, bus: stratatest.NewBus(), tier: memcached.NewTier(c)}
						o.run(q.members[1], way.leave, way.comeBack, drop)
					})
				})
			}
		}
	}
}

// old is a run with instances that must not read a value from before a drop.
type old struct {
	t       *testing.T
	bus     *stratatest.Bus
	tier    remote.Tier
	version atomic.Int64 // the origin's value of all keys
	keys    []string
}

// instance returns an instance of the cache.
func (o *old) instance() *strata.Cache[string, int64] {
	tags := []string{"a", "b", "c", "d"}
	c, err := strata.New(strata.Options[string, int64]{
		Name: "numbers", TTL: time.Hour,
		Tags:   func(key string, _ int64) []string { return tags[len(key)%4 : len(key)%4+1] },
		Loader: func(context.Context, string) (int64, error) { return o.version.Load(), nil },
		Memory: strata.Memory[string, int64]{MaxEntries: 1000},
		Remote: strata.Remote[string, int64]{Tier: o.tier, Bus: o.bus.Connect(), Timeout: 2 * time.Second},
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return c
}

// reads checks the value that an instance reads.
func (o *old) reads(who string, c *strata.Cache[string, int64], want int64) {
	o.t.Helper()
	for _, key := range o.keys {
		if v, err := c.GetOrLoad(o.t.Context(), key, nil); v != want || err != nil {
			o.t.Fatalf("%s reads %s: %d, not %d, %v", who, key, v, want, err)
		}
	}
}

func (o *old) run(m *member, leave, comeBack func(*member), drop func(context.Context, *strata.Cache[string, int64], []string) error) {
	t, ctx := o.t, o.t.Context()
	for i := range 24 {
		o.keys = append(o.keys, fmt.Sprintf("%0*d", 1+i/4, i))
	}
	one, other := o.instance(), o.instance()
	defer one.Close(context.Background())
	defer other.Close(context.Background())
	o.version.Store(1)
	o.reads("the first instance", one, 1)
	o.reads("the other instance", other, 1)

	leave(m)
	o.version.Store(2)
	var remote *strata.RemoteError
	if err := drop(ctx, one, o.keys); !errors.As(err, &remote) || one.Stats().Pending == 0 {
		t.Fatalf("a drop without the server: %v, %d pending", err, one.Stats().Pending)
	}
	o.reads("without the server, the instance that dropped", one, 2)
	comeBack(m)
	for i := 0; one.Stats().Pending > 0; i++ {
		if i > 120 {
			t.Fatalf("%d drops are not confirmed after a minute", one.Stats().Pending)
		}
		o.reads("before it is confirmed, the instance that dropped", one, 2)
		time.Sleep(500 * time.Millisecond)
	}
	synctest.Wait() // the bus has delivered
	late := o.instance()
	defer late.Close(context.Background())
	for range 3 {
		o.reads("the instance that dropped", one, 2)
		o.reads("the other instance", other, 2)
		o.reads("a new instance", late, 2)
		time.Sleep(40 * time.Second)
	}
}
