package agreement_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// partial is a tier over several servers that are not told apart. One of them is dead: it has
// the keys that end with "dead".
type partial struct{ remote.Tier }

func (p partial) Unwrap() remote.Tier                { return p.Tier }
func (p partial) Wrap(inner remote.Tier) remote.Tier { return partial{inner} }

var errDead = errors.New("the server is dead")

// living returns the places of the keys of living servers, and the errors of all keys.
func living(n int, key func(i int) string) (some []int, errs []error) {
	errs = make([]error, n)
	for i := range n {
		if strings.HasSuffix(key(i), "dead") {
			errs[i] = errDead
		} else {
			some = append(some, i)
		}
	}
	return some, errs
}

func (p partial) Get(ctx context.Context, keys []string, _ ...remote.ID) ([]remote.Held, error) {
	some, errs := living(len(keys), func(i int) string { return keys[i] })
	all := make([]remote.Held, len(keys))
	var asked []string
	for _, i := range some {
		asked = append(asked, keys[i])
	}
	held, err := p.Tier.Get(ctx, asked)
	for j, i := range some {
		if errs[i] = err; err == nil {
			all[i] = held[j]
		}
	}
	return all, remote.JoinKeys(errs)
}

func (p partial) Drop(ctx context.Context, drops []remote.Drop) ([]remote.Lease, error) {
	some, errs := living(len(drops), func(i int) string { return drops[i].Key })
	all := make([]remote.Lease, len(drops))
	var asked []remote.Drop
	for _, i := range some {
		asked = append(asked, drops[i])
	}
	leases, err := p.Tier.Drop(ctx, asked)
	for j, i := range some {
		if errs[i] = err; err == nil {
			all[i] = leases[j]
		}
	}
	return all, remote.JoinKeys(errs)
}

func (p partial) Put(ctx context.Context, puts []remote.Put) ([]int, error) {
	some, errs := living(len(puts), func(i int) string { return puts[i].Key })
	var asked []remote.Put
	for _, i := range some {
		asked = append(asked, puts[i])
	}
	refused, err := p.Tier.Put(ctx, asked)
	for _, i := range some {
		errs[i] = err
	}
	for k, j := range refused {
		refused[k] = some[j]
	}
	return refused, remote.JoinKeys(errs)
}

// TestDeadServerOfACacheThatCannotTellItApartCostsItsOwnKeysOnly reads and writes 30 keys, of
// which a dead server has ten.
func TestDeadServerOfACacheThatCannotTellItApartCostsItsOwnKeysOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := lab.NewShared(), &lab.Origin{}
		off := func(o *strata.Options[string, int64]) { o.Memory.Off, o.TTL = true, time.Hour }
		well := lab.Instance(t, s, off)
		c := lab.Instance(t, s, off, func(o *strata.Options[string, int64]) { o.Remote.Tier = partial{s.Tier} })
		var keys []string
		values := map[string]int64{}
		for i := range 10 {
			for _, of := range []string{"a", "b", "dead"} {
				key := fmt.Sprint(i, of)
				keys, values[key] = append(keys, key), 7
			}
		}
		got := func(want int64) {
			t.Helper()
			before := o.Loads.Load()
			all, err := c.GetMany(t.Context(), keys, lab.EachOf(o.Load))
			if err != nil || len(all) != 30 {
				t.Errorf("%d values, %v", len(all), err)
			}
			if n := o.Loads.Load() - before; n != want {
				t.Errorf("%d loads, want %d", n, want)
			}
		}
		if _, err := well.GetMany(t.Context(), keys, lab.EachOf(o.Load)); err != nil {
			t.Fatal(err)
		}
		got(10)
		var unconfirmed *strata.RemoteError
		if err := c.Invalidate(t.Context(), keys...); !errors.As(err, &unconfirmed) {
			t.Errorf("Invalidate: %v", err)
		}
		if n := c.Stats().Pending; n != 10 {
			t.Errorf("%d drops are pending, want 10", n)
		}
		got(30)
		if err := c.SetMany(t.Context(), values); !errors.As(err, &unconfirmed) {
			t.Errorf("SetMany: %v", err)
		}
		got(10)
	})
}

// TestHooksOfStoredValuesHoldNothingUp: they take longer than an operation on L2 may, and are told all that was stored.
func TestHooksOfStoredValuesHoldNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier, bus := stratatest.NewTier(), stratatest.NewBus()
		told := map[string]int{}
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Remote.Tier, o.Remote.Bus = partial{tier}, bus
			o.Hooks = &strata.Hooks{Store: func(e strata.Event) {
				if e.Tier == "L2" {
					told[fmt.Sprint(e.Key)]++
				}
				time.Sleep(30 * time.Millisecond)
			}}
		})
		synctest.Wait()
		keys := map[string]int64{}
		for i := range 10 {
			keys[fmt.Sprint("k", i)] = 1
		}
		lab.Must(t, c.SetMany(t.Context(), keys))
		if n := c.Len(); n != 10 || len(told) != 10 {
			t.Errorf("%d entries, %d told", n, len(told))
		}
	})
}
