package stratatest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
)

func valueMutations() []mutation {
	return []mutation{
		{name: "absent has an id", check: "NothingIsAbsent", get: eachHeld(func(h *remote.Held) { h.ID = max(h.ID, 1) })},
		{name: "leases are granted after the deadline", check: "NoLeaseAfterTheDeadline", acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			h, l, err := kit.Acquire(context.WithoutCancel(ctx), t, key, d)
			if gone := ctx.Err(); gone != nil {
				return h, l, gone
			}
			return h, l, err
		}},
		{name: "acquire stores", check: "NothingIsAbsent", acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			h, l, err := kit.Acquire(ctx, t, key, d)
			with(t, key, func(r *record) {
				r.own().Value.ID, r.own().Value.Namespace, r.own().Value.Left = 1, t.own().state(), r.end(d)
			})
			return h, l, err
		}},
		{name: "lives are swapped", check: "PutIsReadBack", get: eachHeld(func(h *remote.Held) { h.Fresh, h.Left = h.Left, h.Fresh })},
		{name: "keys fold case", check: "PutIsReadBack", key: strings.ToLower},
		{name: "empty is nil", check: "PayloadsAreKeptByteForByte", get: eachHeld(func(h *remote.Held) { h.Data = append([]byte(nil), h.Data...) })},
		{name: "line ends are cut", check: "PayloadsAreKeptByteForByte", get: eachHeld(func(h *remote.Held) { h.Data = bytes.TrimSuffix(h.Data, []byte("\n")) })},
		{name: "keys are trimmed", check: "HostileKeysAreJustKeys", key: strings.TrimSpace},
		{name: "keys end at NUL", check: "HostileKeysAreJustKeys", key: func(k string) string { k, _, _ = strings.Cut(k, "\x00"); return k }},
		{name: "keys are made UTF-8", check: "HostileKeysAreJustKeys", key: func(k string) string { return strings.ToValidUTF8(k, "\ufffd") }},
		{name: "keys are hash tags", check: "HostileKeysAreJustKeys", key: func(k string) string {
			if _, rest, ok := strings.Cut(k, "{"); ok {
				if tag, _, ok := strings.Cut(rest, "}"); ok {
					return tag
				}
			}
			return k
		}},
		{name: "keys end at 250 bytes", check: "LongKeysWorkOrAreRefused", key: func(k string) string { return k[:min(len(k), 250)] }},
		{name: "long keys fail anyhow", check: "LongKeysWorkOrAreRefused", acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			if len(key) > 250 {
				return remote.Held{}, remote.Lease{}, errMutant
			}
			return kit.Acquire(ctx, t, key, d)
		}},
		{name: "results are sorted", check: "ResultsLineUpWithArguments", get: func(t *Tier, ctx context.Context, keys []string) ([]remote.Held, error) {
			slices.Sort(keys)
			return t.Get(ctx, keys)
		}},
		{name: "every drop gives a token", check: "ResultsLineUpWithArguments", drop: eachDrop(func(_ *Tier, d *remote.Drop) func() {
			d.Token = max(d.Token, 1)
			return nil
		})},
		{name: "empty batch fails", check: "EmptyBatchesAreFine", get: func(t *Tier, ctx context.Context, keys []string) ([]remote.Held, error) {
			if len(keys) == 0 {
				return nil, errMutant
			}
			return t.Get(ctx, keys)
		}},
		{name: "first refusal ends the batch", check: "RefusalsArePartial", put: func(t *Tier, ctx context.Context, p []remote.Put) (refused []int, err error) {
			for i := range p {
				if r, err := t.Put(ctx, p[i:i+1]); err != nil || len(r) > 0 || len(refused) > 0 {
					refused = append(refused, i)
				}
			}
			return refused, nil
		}},
		{name: "refusals are not reported", check: "RefusalsArePartial", put: func(t *Tier, ctx context.Context, p []remote.Put) ([]int, error) {
			_, err := t.Put(ctx, p)
			return nil, err
		}},
		{name: "put keeps the slice", check: "SlicesAreNotShared", put: func(t *Tier, ctx context.Context, p []remote.Put) ([]int, error) {
			refused, err := t.Put(ctx, p)
			with(t, p[0].Key, func(r *record) { r.own().Value.Data = p[0].Data })
			return refused, err
		}},
		{name: "get lends the slice", check: "SlicesAreNotShared", get: func(t *Tier, ctx context.Context, keys []string) ([]remote.Held, error) {
			held, err := t.Get(ctx, keys)
			with(t, keys[0], func(r *record) { held[0].Data = r.own().Value.Data })
			return held, err
		}},
		{name: "ids are not the tokens", check: "EveryValueHasItsID", get: eachHeld(func(h *remote.Held) { h.ID *= 2 })},
		{name: "one id for all", check: "EveryValueHasItsID", get: eachHeld(func(h *remote.Held) { h.ID = min(h.ID, 1) })},
	}
}

func lifeMutations() []mutation {
	return []mutation{
		{name: "lives start anew", check: "LivesRunOut", get: eachHeld(func(h *remote.Held) {
			if h.Fresh > 0 {
				h.Fresh = long
			}
		})},
		{name: "values are never forgotten", check: "LivesRunOut", put: eachPut(func(_ *Tier, p *remote.Put) { p.Left += long })},
		{name: "values are forgotten when stale", check: "LivesRunOut", put: eachPut(func(_ *Tier, p *remote.Put) { p.Left = p.Fresh })},
		{name: "no life is for ever", check: "ValueWithoutLifeIsAbsent", put: eachPut(func(_ *Tier, p *remote.Put) {
			if p.Left == 0 {
				p.Left = long
			}
		})},
		{name: "contexts are ignored", check: "CancelledContextIsAnError", get: func(t *Tier, ctx context.Context, keys []string) ([]remote.Held, error) {
			return t.Get(context.WithoutCancel(ctx), keys)
		}},
		{name: "schemas are one", check: "SchemasLiveSideBySide", bind: func(s remote.Space) remote.Space { s.Schema = 1; return s }},
		{name: "one life for all schemas", check: "SchemasHaveTheirOwnLives", put: func(t *Tier, ctx context.Context, p []remote.Put) ([]int, error) {
			refused, err := t.Put(ctx, p)
			with(t, p[0].Key, func(r *record) {
				for _, s := range r.all() {
					s.Value.Left = r.own().Value.Left
				}
			})
			return refused, err
		}},
		{name: "a put takes every lease", check: "SchemasHaveTheirOwnState", put: eachPut(func(t *Tier, p *remote.Put) {
			with(t, p.Key, func(r *record) {
				for _, s := range r.all() {
					if s.Schema != r.schema {
						s.Lease, s.Awaited = entryrules.Lease{}, false
					}
				}
			})
		})},
		{name: "a put takes every mark", check: "SchemasHaveTheirOwnState", put: eachPut(func(t *Tier, p *remote.Put) {
			with(t, p.Key, func(r *record) {
				for _, s := range r.all() {
					s.Value.Soft = false
				}
			})
		})},
		{name: "an extension is for all", check: "SchemasHaveTheirOwnState", extend: func(t *Tier, ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
			with(t, key, func(r *record) {
				for _, s := range r.all() {
					s.Value.Fresh, s.Value.Left = r.end(fresh), r.end(left)
				}
			})
			return t.Extend(ctx, key, fresh, left, l, id)
		}},
		{name: "names are one", check: "NamesAreSeparate", bind: func(s remote.Space) remote.Space { s.Name = ""; return s }},
	}
}

func rightMutations() []mutation {
	return []mutation{
		{name: "everybody is granted", check: "LeaseIsExclusive", acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			with(t, key, func(r *record) { r.own().Lease = entryrules.Lease{} })
			return kit.Acquire(ctx, t, key, d)
		}},
		{name: "waits are endless", check: "LeaseIsExclusive", acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			h, l, err := kit.Acquire(ctx, t, key, d)
			l.Wait *= 2
			return h, l, err
		}},
		{name: "fresh values are kept back", check: "FreshValueNeedsNoLease", acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			h, l, err := kit.Acquire(ctx, t, key, d)
			h.Data = nil
			return h, l, err
		}},
		{name: "stale state is kept back", check: "StaleStateIsReported", acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			h, l, err := kit.Acquire(ctx, t, key, d)
			if h.Fresh <= 0 {
				h = remote.Held{}
			}
			return h, l, err
		}},
		{name: "other bytes with the state", check: "StaleStateIsReported", acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			h, l, err := kit.Acquire(ctx, t, key, d)
			h.Data = []byte("value of another")
			return h, l, err
		}},
		{name: "stale value is kept back", check: "StaleValueComesWithTheLease", acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			h, l, err := kit.Acquire(ctx, t, key, d)
			if h.Fresh <= 0 {
				h.Data = nil
			}
			return h, l, err
		}},
		{name: "empty is nil", check: "StaleValueComesWithTheLease", acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			h, l, err := kit.Acquire(ctx, t, key, d)
			h.Data = append([]byte(nil), h.Data...)
			return h, l, err
		}},
		{name: "lease stays", check: "PutConsumesLease", put: func(t *Tier, ctx context.Context, p []remote.Put) ([]int, error) {
			restore := kept(t, p[0].Key)
			defer restore()
			return t.Put(ctx, p)
		}},
		{name: "any right will do", check: "PutNeedsARight", put: eachPut(func(t *Tier, p *remote.Put) {
			with(t, p.Key, func(r *record) { p.Lease.Token = r.own().Lease.Token })
		})},
		{name: "leases never end", check: "LeaseExpires", acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			return kit.Acquire(ctx, t, key, d+long)
		}},
		{name: "late holder may store", check: "LeaseExpires", put: eachPut(func(t *Tier, p *remote.Put) {
			with(t, p.Key, func(r *record) { p.Lease.Token = r.own().Lease.Token })
		})},
		{name: "release does nothing", check: "ReleaseLetsTheNextIn", release: func(*Tier, context.Context, string, remote.Lease) error { return nil }},
		{name: "release frees another's lease", check: "ReleaseLetsTheNextIn", release: func(t *Tier, _ context.Context, key string, _ remote.Lease) error {
			with(t, key, func(r *record) { r.own().Lease = entryrules.Lease{} })
			return nil
		}},
		{name: "renew does nothing", check: "RenewProlongsLease", renew: func(*Tier, context.Context, string, remote.Lease, time.Duration) (bool, error) { return true, nil }},
		{name: "renew is always glad", check: "RenewTellsOfALostLease", renew: func(*Tier, context.Context, string, remote.Lease, time.Duration) (bool, error) { return true, nil }},
		{name: "renew revives", check: "RenewTellsOfALostLease", renew: func(t *Tier, _ context.Context, key string, l remote.Lease, d time.Duration) (bool, error) {
			with(t, key, func(r *record) { r.own().Lease = entryrules.Lease{Token: l.Token, Until: r.end(d), Length: int64(d)} })
			return false, nil
		}},
	}
}

// keepRights lets hard or soft drops leave rights alone.
func keepRights(soft bool) func(*Tier, *remote.Drop) func() {
	return func(t *Tier, d *remote.Drop) func() {
		if d.Soft != soft {
			return nil
		}
		return kept(t, d.Key)
	}
}

// ownSchemaOnly lets a drop leave other schemas alone.
func ownSchemaOnly(t *Tier, d *remote.Drop) func() {
	var theirs []entryrules.Slot
	with(t, d.Key, func(r *record) {
		for _, s := range r.Slots {
			if s.Schema != r.schema {
				theirs = append(theirs, s)
			}
		}
	})
	return func() {
		with(t, d.Key, func(r *record) {
			for _, s := range theirs {
				*r.slot(s.Schema) = s
			}
		})
	}
}

// tokenPut changes the record of a key after a put by token.
func tokenPut(change func(r, before *record)) func(*Tier, context.Context, []remote.Put) ([]int, error) {
	return func(t *Tier, ctx context.Context, p []remote.Put) ([]int, error) {
		var before record
		with(t, p[0].Key, func(r *record) { before = *r })
		refused, err := t.Put(ctx, p)
		if len(refused) == 0 && p[0].Lease.Token == before.Token.Token {
			with(t, p[0].Key, func(r *record) { change(r, &before) })
		}
		return refused, err
	}
}

func dropMutations() []mutation {
	ownOnly := eachDrop(ownSchemaOnly)
	return []mutation{
		{name: "drop does nothing", check: "DropMakesAbsent", drop: func(_ *Tier, _ context.Context, d []remote.Drop) ([]remote.Lease, error) {
			return make([]remote.Lease, len(d)), nil
		}},
		{name: "lease survives", check: "DropVoidsLease", drop: eachDrop(keepRights(false))},
		{name: "soft is hard", check: "SoftDropKeepsValueStale", drop: eachDrop(func(_ *Tier, d *remote.Drop) func() { d.Soft = false; return nil })},
		{name: "hard is soft", check: "SoftDropKeepsValueStale", drop: eachDrop(func(_ *Tier, d *remote.Drop) func() { d.Soft = true; return nil })},
		{name: "lives are not shortened", check: "SoftDropShortensLives", drop: eachDrop(func(_ *Tier, d *remote.Drop) func() { d.Left = 0; return nil })},
		{name: "lease survives", check: "SoftDropVoidsLease", drop: eachDrop(keepRights(true))},
		{name: "only own schema", check: "DropReachesAllSchemas", drop: ownOnly},
		{name: "only own schema", check: "SoftDropReachesAllSchemas", drop: ownOnly},
		{name: "put takes every mark", check: "SoftDropReachesAllSchemas", put: func(t *Tier, ctx context.Context, p []remote.Put) ([]int, error) {
			with(t, p[0].Key, func(r *record) {
				for _, s := range r.all() {
					s.Value.Soft = false
				}
			})
			return t.Put(ctx, p)
		}},
		{name: "lease outlives token", check: "TokenWinsOverLease", put: tokenPut(func(r, before *record) { r.own().Lease = before.own().Lease })},
		{name: "lease beats token", check: "TokenWinsOverLease", acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			with(t, key, func(r *record) { r.Token = entryrules.Token{} })
			return kit.Acquire(ctx, t, key, d)
		}},
		{name: "others' values stay", check: "TokenWinsOverOtherSchemas", put: tokenPut(func(r, before *record) {
			for _, s := range before.Slots {
				if s.Schema != "1" {
					r.slot(s.Schema).Value = s.Value
				}
			}
		})},
		{name: "others' leases stay", check: "TokenWinsOverOtherSchemas", put: tokenPut(func(r, before *record) {
			for _, s := range before.Slots {
				if s.Schema != "1" {
					r.slot(s.Schema).Lease = s.Lease
				}
			}
		})},
		{name: "token stays", check: "TokenIsUsedOnce", put: tokenPut(func(r, before *record) { r.Token = before.Token })},
		{name: "token survives", check: "DropVoidsToken", drop: eachDrop(keepRights(false))},
		{name: "token survives", check: "SoftDropVoidsToken", drop: eachDrop(keepRights(true))},
		{name: "tokens never end", check: "TokenExpires", drop: eachDrop(func(_ *Tier, d *remote.Drop) func() { d.Token += long; return nil })},
		{name: "it is refused", check: "QuietDropIsDoneByItsPut", put: eachPut(func(t *Tier, p *remote.Put) {
			if p.Lease.Quiet {
				with(t, p.Key, func(r *record) { r.Token = entryrules.Token{} })
			}
		})},
		{name: "it drops nothing", check: "RefusedPutOfAQuietDropLeavesNothingOlder", put: eachPut(func(_ *Tier, p *remote.Put) { p.Lease.Quiet = false })},
		{name: "it drops nothing", check: "PutThatDropsReachesAllSchemas", put: eachPut(func(_ *Tier, p *remote.Put) { p.Drops = false })},
		{name: "it drops tokens", check: "PutThatDropsReachesAllSchemas", put: eachPut(func(t *Tier, p *remote.Put) {
			if p.Drops {
				with(t, p.Key, func(r *record) { r.Token = entryrules.Token{} })
			}
		})},
		{name: "it needs no right", check: "PutThatDropsReachesAllSchemas", put: eachPut(func(t *Tier, p *remote.Put) {
			if p.Drops {
				with(t, p.Key, func(r *record) {
					p.Lease.Token, r.own().Lease = 1, entryrules.Lease{Token: 1, Until: r.end(time.Hour), Length: int64(time.Hour)}
				})
			}
		})},
		{name: "no hold", check: "HoldRefusesLeases", drop: eachDrop(func(_ *Tier, d *remote.Drop) func() { d.Hold = 0; return nil })},
		{name: "soft drop has no hold", check: "HoldRefusesLeases", drop: eachDrop(func(_ *Tier, d *remote.Drop) func() {
			if d.Soft {
				d.Hold = 0
			}
			return nil
		})},
		{name: "the last hold counts", check: "HoldIsNeverShortened", drop: eachDrop(func(t *Tier, d *remote.Drop) func() {
			with(t, d.Key, func(r *record) { r.Hold = entryrules.Hold{} })
			return nil
		})},
		{name: "put ends the hold", check: "HoldIsNeverShortened", put: eachPut(func(t *Tier, p *remote.Put) {
			with(t, p.Key, func(r *record) { r.Hold = entryrules.Hold{} })
		})},
		{name: "hold refuses tokens", check: "HoldLetsTokenIn", put: eachPut(func(t *Tier, p *remote.Put) {
			with(t, p.Key, func(r *record) {
				if r.Hold.Left(r.now) > 0 {
					p.Lease = remote.Lease{}
				}
			})
		})},
		{name: "holds never end", check: "HoldEnds", drop: eachDrop(func(_ *Tier, d *remote.Drop) func() { d.Hold *= 1000; return nil })},
		{name: "lease survives", check: "NoOlderValueSurvivesADrop", drop: eachDrop(keepRights(false))},
		{name: "check and store are two steps", check: "NoOlderValueSurvivesADrop", put: func(t *Tier, ctx context.Context, p []remote.Put) ([]int, error) {
			var ok bool
			with(t, p[0].Key, func(r *record) {
				var a entryrules.Answer
				r.State, a = entryrules.Decide(r.State, entryrules.Put{Schema: r.schema, Token: p[0].Lease.Token}, entryrules.Clock{Now: r.now})
				ok = a.Done
			})
			if !ok {
				return []int{0}, nil
			}
			time.Sleep(time.Millisecond) // in a bubble
			with(t, p[0].Key, func(r *record) {
				r.own().Value = entryrules.Value{
					ID: p[0].Lease.Token, Fresh: r.end(p[0].Fresh), Left: r.end(p[0].Left), Namespace: p[0].Lease.State, Data: p[0].Data,
				}
			})
			return nil, nil
		}},
	}
}

func extendMutations() []mutation {
	always := func(t *Tier, key string, fresh, left time.Duration) {
		with(t, key, func(r *record) {
			s := r.own()
			s.Value.Fresh, s.Value.Left, s.Value.Soft = r.end(fresh), r.end(left), false
		})
	}
	return []mutation{
		{name: "lives stay", check: "ExtendGivesNewLives", extend: func(t *Tier, ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
			return t.Extend(ctx, key, fresh, fresh, l, id)
		}},
		{name: "another id", check: "ExtendGivesNewLives", extend: func(t *Tier, ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
			refused, err := t.Extend(ctx, key, fresh, left, l, id)
			with(t, key, func(r *record) { r.own().Value.ID++ })
			return refused, err
		}},
		{name: "the id stays", check: "ExtendGivesNewLives", extend: func(t *Tier, ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
			refused, err := t.Extend(ctx, key, fresh, left, l, id)
			with(t, key, func(r *record) { r.own().Value.ID = uint64(id) })
			return refused, err
		}},
		{name: "the mark stays", check: "ExtendGivesNewLives", extend: func(t *Tier, ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
			refused, err := t.Extend(ctx, key, fresh, left, l, id)
			with(t, key, func(r *record) { r.own().Value.Soft = true })
			return refused, err
		}},
		{name: "lease stays", check: "ExtendConsumesLease", extend: func(t *Tier, ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
			restore := kept(t, key)
			defer restore()
			return t.Extend(ctx, key, fresh, left, l, id)
		}},
		{name: "without lease", check: "ExtendNeedsLease", extend: func(t *Tier, ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
			if held, err := t.Get(ctx, []string{key}); err != nil || held[0].ID != id {
				return true, err
			}
			always(t, key, fresh, left)
			return false, nil
		}},
		{name: "without id", check: "ExtendNeedsThatValue", extend: func(t *Tier, ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
			held, err := t.Get(ctx, []string{key})
			if err != nil {
				return false, err
			}
			return t.Extend(ctx, key, fresh, left, l, held[0].ID)
		}},
		{name: "soft drop keeps lease", check: "ExtendIsVoidedByDrop", drop: eachDrop(func(t *Tier, d *remote.Drop) func() {
			if !d.Soft {
				return nil
			}
			return kept(t, d.Key)
		})},
		{name: "takes every mark", check: "ExtendTouchesOneSchema", extend: func(t *Tier, ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
			with(t, key, func(r *record) {
				for _, s := range r.all() {
					s.Value.Soft = false
				}
			})
			return t.Extend(ctx, key, fresh, left, l, id)
		}},
	}
}
