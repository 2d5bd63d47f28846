package stratatest

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
)

// acquireMany is a batch of requests, to be broken.
type acquireMany = func(*Tier, context.Context, []string, time.Duration) ([]remote.Held, []remote.Lease, error)

// kitMany requests leases to replace nothing.
func kitMany(t *Tier, ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
	return kit.AcquireMany(ctx, t, keys, d)
}

// eachOfMany changes the results of a batch of requests.
func eachOfMany(f func(t *Tier, key string, h *remote.Held, l *remote.Lease)) acquireMany {
	return func(t *Tier, ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
		held, leases, err := kit.AcquireMany(ctx, t, keys, d)
		for i := range held {
			f(t, keys[i], &held[i], &leases[i])
		}
		return held, leases, err
	}
}

// noneAwaited forgets that instances wait for a lease after an AcquireMany:
// none is told of its end.
func noneAwaited() acquireMany {
	return eachOfMany(func(t *Tier, key string, _ *remote.Held, _ *remote.Lease) {
		with(t, key, func(r *record) { r.own().Awaited = false })
	})
}

func manyMutations() []mutation {
	return slices.Concat(manyAnswerMutations(), manyRightMutations())
}

func manyAnswerMutations() []mutation {
	return []mutation{
		{name: "no keys is an error", check: "ManyLeasesAreWhatAcquireGives", many: func(t *Tier, ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
			if len(keys) == 0 {
				return nil, nil, errMutant
			}
			return kit.AcquireMany(ctx, t, keys, d)
		}},
		{name: "a key is asked for once", check: "ManyLeasesAreWhatAcquireGives", many: func(t *Tier, ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
			slices.Sort(keys)
			return kit.AcquireMany(ctx, t, slices.Compact(keys), d)
		}},
		{name: "repeated keys get the same answer", check: "ManyLeasesAreWhatAcquireGives", many: func(t *Tier, ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
			held, leases, err := kit.AcquireMany(ctx, t, keys, d)
			for i := range held {
				first := slices.Index(keys, keys[i])
				held[i], leases[i] = held[first], leases[first]
				held[i].Data = bytes.Clone(held[i].Data)
			}
			return held, leases, err
		}},
		{name: "fresh values are kept back", check: "ManyLeasesAreWhatAcquireGives", many: eachOfMany(func(_ *Tier, _ string, h *remote.Held, l *remote.Lease) {
			if l.Grant == remote.Free {
				h.Data = nil
			}
		})},
		{name: "stale values are kept back", check: "ManyLeasesAreWhatAcquireGives", many: eachOfMany(func(_ *Tier, _ string, h *remote.Held, l *remote.Lease) {
			if l.Grant == remote.Granted {
				h.Data = nil
			}
		})},
		{name: "stale state is kept back", check: "ManyLeasesAreWhatAcquireGives", many: eachOfMany(func(_ *Tier, _ string, h *remote.Held, l *remote.Lease) {
			if l.Grant == remote.Busy {
				*h = remote.Held{}
			}
		})},
		{name: "a hold is a lease of another", check: "ManyLeasesAreWhatAcquireGives", many: eachOfMany(func(_ *Tier, _ string, _ *remote.Held, l *remote.Lease) {
			if l.Grant == remote.OnHold {
				l.Grant = remote.Busy
			}
		})},
		{name: "waits are unknown", check: "ManyLeasesAreWhatAcquireGives", many: eachOfMany(func(_ *Tier, _ string, _ *remote.Held, l *remote.Lease) { l.Wait = 0 })},
		{name: "everybody has a token", check: "ManyLeasesAreWhatAcquireGives", many: eachOfMany(func(_ *Tier, _ string, _ *remote.Held, l *remote.Lease) {
			l.Token = max(l.Token, 1)
		})},
		{name: "values are lent", check: "ManyLeasesAreWhatAcquireGives", many: eachOfMany(func(t *Tier, key string, h *remote.Held, l *remote.Lease) {
			if l.Grant == remote.Free {
				with(t, key, func(r *record) { h.Data = r.own().Value.Data })
			}
		})},
		{name: "keys are sorted", check: "ManyLeasesLineUpWithKeys", many: func(t *Tier, ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
			slices.Sort(keys)
			return kit.AcquireMany(ctx, t, keys, d)
		}},
		{name: "one right for all", check: "ManyLeasesLineUpWithKeys", many: func(t *Tier, ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
			held, leases, err := kit.AcquireMany(ctx, t, keys, d)
			for i, key := range keys {
				if leases[i].Token != 0 {
					leases[i].Token = leases[0].Token
					with(t, key, func(r *record) { r.own().Lease.Token = leases[0].Token })
				}
			}
			return held, leases, err
		}},
		{name: "contexts are ignored", check: "CancelledContextIsAnErrorOfEveryMethod", many: func(t *Tier, ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
			return kit.AcquireMany(context.WithoutCancel(ctx), t, keys, d)
		}},
		longKeysOnlyInMany(),
	}
}

// longKeysOnlyInMany refuses long keys everywhere else.
func longKeysOnlyInMany() mutation {
	refuse := func(key string) error {
		if len(key) > 250 {
			return remote.ErrKeyTooLong
		}
		return nil
	}
	return mutation{
		name: "many long keys are taken", check: "LongKeysWorkOrAreRefused",
		get: func(t *Tier, ctx context.Context, keys []string) ([]remote.Held, error) {
			if err := refuse(keys[0]); err != nil {
				return nil, err
			}
			return t.Get(ctx, keys)
		},
		acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			if err := refuse(key); err != nil {
				return remote.Held{}, remote.Lease{}, err
			}
			return kit.Acquire(ctx, t, key, d)
		},
		put: func(t *Tier, ctx context.Context, p []remote.Put) ([]int, error) {
			if err := refuse(p[0].Key); err != nil {
				return nil, err
			}
			return t.Put(ctx, p)
		},
		drop: func(t *Tier, ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
			if err := refuse(d[0].Key); err != nil {
				return nil, err
			}
			return t.Drop(ctx, d)
		},
		extend: func(t *Tier, ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
			if err := refuse(key); err != nil {
				return false, err
			}
			return t.Extend(ctx, key, fresh, left, l, id)
		},
	}
}

func manyRightMutations() []mutation {
	return []mutation{
		{name: "everybody is granted", check: "ManyLeasesAreExclusive", many: func(t *Tier, ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
			for _, key := range keys {
				with(t, key, func(r *record) { r.own().Lease = entryrules.Lease{} })
			}
			return kit.AcquireMany(ctx, t, keys, d)
		}},
		{name: "only one of the keys is leased", check: "ManyLeasesAreExclusive", many: eachOfMany(func(t *Tier, key string, _ *remote.Held, l *remote.Lease) {
			if l.Grant == remote.Granted && key != "a" {
				with(t, key, func(r *record) { r.own().Lease = entryrules.Lease{} })
			}
		})},
		{name: "leases survive", check: "ManyLeasesAreVoidedOneByOne", drop: eachDrop(keepRights(false))},
		{name: "leases survive a soft drop", check: "ManyLeasesAreVoidedOneByOne", drop: eachDrop(keepRights(true))},
		{name: "a drop voids all", check: "ManyLeasesAreVoidedOneByOne", drop: eachDrop(func(t *Tier, _ *remote.Drop) func() {
			with(t, "b", func(r *record) { r.own().Lease = entryrules.Lease{} })
			return nil
		})},
		{name: "leases never end", check: "ManyLeasesAreVoidedOneByOne", many: func(t *Tier, ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
			return kit.AcquireMany(ctx, t, keys, d+long)
		}},
		{name: "puts are stamped when they come", check: "ManyLeasesAreFencedWithTheName", put: eachPut(func(t *Tier, p *remote.Put) {
			own(t, func(n *namespace) { p.Lease.State = n.state() })
		})},
		{name: "leases have no clock", check: "ManyLeasesAreFencedWithTheName", many: eachOfMany(func(_ *Tier, _ string, _ *remote.Held, l *remote.Lease) { l.Clock = 0 })},
		{name: "only a single request replaces", check: "ManyLeasesReplaceTheirValues", many: kitMany},
		{name: "the clock is ahead", check: "ManyLeasesAreFencedWithTheName", many: eachOfMany(func(_ *Tier, _ string, _ *remote.Held, l *remote.Lease) { l.Clock++ })},
	}
}
