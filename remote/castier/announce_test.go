package castier_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
	"github.com/strata-cache/strata/stratatest"
)

// counted is a Tier that counts drops.
type counted struct {
	remote.Tier
	keys, alls *int
}

func (c counted) Unwrap() remote.Tier { return c.Tier }

func (c counted) Wrap(inner remote.Tier) remote.Tier {
	c.Tier = inner
	return c
}

func (c counted) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	*c.keys += len(d)
	return c.Tier.Drop(ctx, d)
}

func (c counted) DropAll(ctx context.Context, soft bool) error {
	*c.alls++
	return c.Tier.DropAll(ctx, soft)
}

// TestDropWithoutABusToTellItIsCarriedOutOnce: L2 confirms the drops, and the bus is down for a minute. Repeated, a drop
// would take newer values from L2.
func TestDropWithoutABusToTellItIsCarriedOutOnce(t *testing.T) {
	for name, drop := range map[string]func(ctx context.Context, c *strata.Cache[string, string]) error{
		"everything": func(ctx context.Context, c *strata.Cache[string, string]) error { return c.InvalidateAll(ctx) },
		"a key":      func(ctx context.Context, c *strata.Cache[string, string]) error { return c.Invalidate(ctx, "k") },
		"keys":       func(ctx context.Context, c *strata.Cache[string, string]) error { return c.Invalidate(ctx, "k", "l") },
		"a tag":      func(ctx context.Context, c *strata.Cache[string, string]) error { return c.InvalidateTags(ctx, "t") },
		"a Set": func(ctx context.Context, c *strata.Cache[string, string]) error {
			return c.Set(ctx, "k", "k 1", strata.WithTags("t"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rows, bus := &duo{T: t}, &table{rows: map[string]row{}}, stratatest.NewBus()
				mine := bus.Connect()
				var keys, alls int
				instance := func(bus remote.Bus) *strata.Cache[string, string] {
					c, err := strata.New(strata.Options[string, string]{
						Name: "users", TTL: time.Hour, Jitter: -1,
						Loader: func(ctx context.Context, key string) (string, error) {
							strata.Loading(ctx).SetTags("t")
							return d.load(ctx, key)
						},
						Remote: strata.Remote[string, string]{Tier: counted{castier.New(rows), &keys, &alls}, Bus: bus},
					})
					if err != nil {
						t.Fatal(err)
					}
					return c
				}
				d.a, d.b = instance(mine), instance(bus)
				time.Sleep(time.Second) // in the bubble
				d.gets(d.a, "k", "k 0")
				d.gets(d.b, "k", "k 0")
				mine.Cut()
				d.value.Store(1)
				before := keys
				var failed *strata.RemoteError
				if err := drop(t.Context(), d.a); !errors.As(err, &failed) || failed.Pending != 1 && name != "keys" {
					t.Errorf("%v", err)
				}
				dropped := keys - before
				d.gets(d.a, "k", "k 1")
				time.Sleep(time.Minute) // in the bubble
				d.loads.Store(0)
				if v, err := d.a.GetOrLoad(t.Context(), "k", nil); v != "k 1" || err != nil {
					t.Errorf("%q, %v", v, err)
				}
				d.loaded(0) // L1 has lost it, or L2 still has it
				if n := keys - before; n != dropped || alls > 1 {
					t.Errorf("%d drops of keys, after %d at once, %d of everything", n, dropped, alls)
				}
				mine.Join()
				time.Sleep(5 * time.Second) // in the bubble
				if s := d.a.Stats(); s.Pending != 0 {
					t.Errorf("%d are pending", s.Pending)
				}
				if v, err := d.b.GetOrLoad(t.Context(), "k", nil); v != "k 1" || err != nil {
					t.Errorf("the other instance has %q, %v", v, err)
				}
				d.loaded(0)
				for _, c := range []*strata.Cache[string, string]{d.a, d.b} {
					d.must(c.Close(context.Background()))
				}
			})
		})
	}
}
