package stratatest

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
)

// refresh is a request that replaces a value, to be broken.
type refresh = func(*Tier, context.Context, string, remote.ID, time.Duration) (remote.Held, remote.Lease, error)

// refreshed changes the result of a request that replaces a value.
func refreshed(f func(t *Tier, key string, h *remote.Held, l *remote.Lease)) refresh {
	return func(t *Tier, ctx context.Context, key string, id remote.ID, d time.Duration) (remote.Held, remote.Lease, error) {
		h, l, err := kit.Refresh(ctx, t, key, id, d)
		f(t, key, &h, &l)
		return h, l, err
	}
}

// lawless clears the fields of a key that keep others from a refresh.
func lawless(forget func(r *record, s *entryrules.Slot)) refresh {
	return func(t *Tier, ctx context.Context, key string, id remote.ID, d time.Duration) (remote.Held, remote.Lease, error) {
		with(t, key, func(r *record) { forget(r, r.own()) })
		return kit.Refresh(ctx, t, key, id, d)
	}
}

// anyFresh refreshes the held value, also with another id, if which allows it.
func anyFresh(which func(held, asked remote.ID) bool) refresh {
	return func(t *Tier, ctx context.Context, key string, id remote.ID, d time.Duration) (remote.Held, remote.Lease, error) {
		held, err := t.Get(ctx, []string{key})
		if err == nil && !held[0].Absent() && which(held[0].ID, id) {
			id = held[0].ID
		}
		return kit.Refresh(ctx, t, key, id, d)
	}
}

func refreshMutations() []mutation {
	return []mutation{
		{name: "fresh is fresh", check: "RefreshGivesLeaseForAFreshValue", refresh: func(t *Tier, ctx context.Context, key string, _ remote.ID, d time.Duration) (remote.Held, remote.Lease, error) {
			return kit.Acquire(ctx, t, key, d)
		}},
		{name: "the value is made stale", check: "RefreshGivesLeaseForAFreshValue", refresh: lawless(func(_ *record, s *entryrules.Slot) { s.Value.Soft = true })},
		{name: "the value is dropped", check: "RefreshGivesLeaseForAFreshValue", refresh: refreshed(func(t *Tier, key string, _ *remote.Held, l *remote.Lease) {
			if l.Grant == remote.Granted {
				with(t, key, func(r *record) {
					r.own().Value = entryrules.Value{}
				})
			}
		})},
		{name: "the value is kept back", check: "RefreshGivesLeaseForAFreshValue", refresh: refreshed(func(_ *Tier, _ string, h *remote.Held, l *remote.Lease) {
			if l.Grant == remote.Granted {
				h.Data = nil
			}
		})},
		{name: "the state is kept back", check: "RefreshGivesLeaseForAFreshValue", refresh: refreshed(func(_ *Tier, _ string, h *remote.Held, l *remote.Lease) {
			if l.Grant == remote.Busy {
				*h = remote.Held{}
			}
		})},
		{name: "a replaced value is replaced again", check: "RefreshGivesLeaseForAFreshValue", refresh: anyFresh(func(remote.ID, remote.ID) bool { return true })},
		{name: "everybody waits for a refresh", check: "RefreshGivesLeaseForAFreshValue", acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			h, l, err := kit.Acquire(ctx, t, key, d)
			with(t, key, func(r *record) {
				if s := r.own(); l.Grant == remote.Free && s.Lease.Until > r.now {
					l.Grant, l.Wait, h.Data = remote.Busy, time.Duration(s.Lease.Until-r.now), nil
				}
			})
			return h, l, err
		}},
		{name: "everybody is granted", check: "RefreshIsExclusive", refresh: lawless(func(_ *record, s *entryrules.Slot) { s.Lease = entryrules.Lease{} })},
		{name: "zero is any", check: "RefreshOfAnotherValueIsAcquire", refresh: anyFresh(func(_, asked remote.ID) bool { return asked == 0 })},
		{name: "ids have 32 bits", check: "RefreshOfAnotherValueIsAcquire", refresh: anyFresh(func(held, asked remote.ID) bool { return uint32(held) == uint32(asked) })},
		{name: "only fresh values are refreshed", check: "RefreshOfAnotherValueIsAcquire", refresh: func(t *Tier, ctx context.Context, key string, id remote.ID, d time.Duration) (remote.Held, remote.Lease, error) {
			held, err := t.Get(ctx, []string{key})
			if err != nil || held[0].Fresh <= 0 {
				return remote.Held{}, remote.Lease{}, err
			}
			return kit.Refresh(ctx, t, key, id, d)
		}},
		{name: "holds are for others", check: "RefreshOfAnotherValueIsAcquire", refresh: lawless(func(r *record, _ *entryrules.Slot) { r.Hold = entryrules.Hold{} })},
		{name: "lease survives", check: "RefreshLeaseIsVoidedByDrop", drop: eachDrop(keepRights(false))},
		{name: "lease survives a soft drop", check: "RefreshLeaseIsVoidedByDrop", drop: eachDrop(keepRights(true))},
		{name: "leases never end", check: "RefreshLeaseIsVoidedByDrop", refresh: func(t *Tier, ctx context.Context, key string, id remote.ID, d time.Duration) (remote.Held, remote.Lease, error) {
			return kit.Refresh(ctx, t, key, id, d+long)
		}},
		{name: "only stale values are extended", check: "RefreshLeaseExtends", extend: func(t *Tier, ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
			if held, err := t.Get(ctx, []string{key}); err != nil || held[0].Fresh > 0 {
				return true, err
			}
			return t.Extend(ctx, key, fresh, left, l, id)
		}},
		{name: "one lease for all types", check: "RefreshTouchesOneSchema", refresh: func(t *Tier, ctx context.Context, key string, id remote.ID, d time.Duration) (remote.Held, remote.Lease, error) {
			h, l, err := kit.Refresh(ctx, t, key, id, d)
			with(t, key, func(r *record) {
				for _, s := range r.all() {
					if s.Schema != r.schema && l.Grant == remote.Granted {
						s.Lease = entryrules.Lease{}
					}
				}
			})
			return h, l, err
		}},
	}
}
