package stratatest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
)

// own runs f on the view's namespace, with the store locked.
func own(t *Tier, f func(n *namespace)) {
	_, unlock := t.lock()
	defer unlock()
	f(t.own())
}

// eachTag changes the result of Tags.
func eachTag(f func(t *remote.Tag)) func(*Tier, context.Context, []string) ([]remote.Tag, error) {
	return func(t *Tier, ctx context.Context, tags []string) ([]remote.Tag, error) {
		known, err := t.Tags(ctx, tags)
		for i := range known {
			f(&known[i])
		}
		return known, err
	}
}

// whereabouts changes the result of Position.
func whereabouts(f func(p *remote.Position)) func(*Tier, context.Context) (remote.Position, error) {
	return func(t *Tier, ctx context.Context) (remote.Position, error) {
		p, err := t.Position(ctx)
		if err == nil {
			f(&p)
		}
		return p, err
	}
}

// floorless lets a lost table of tags begin as if it had always been there.
func floorless(t *Tier) {
	own(t, func(n *namespace) {
		if n.tags == nil {
			n.table().floor = 0
		}
	})
}

func spaceMutations() []mutation {
	return slices.Concat(dropAllMutations(), extendAllMutations(), tagMutations(), positionMutations())
}

func dropAllMutations() []mutation {
	return []mutation{
		{name: "drop all does nothing", check: "DropAllMakesAbsent", dropAll: func(*Tier, context.Context, bool) error { return nil }},
		{name: "drop all drops every name", check: "DropAllMakesAbsent", dropAll: func(t *Tier, _ context.Context, _ bool) error {
			_, unlock := t.lock()
			defer unlock()
			clear(t.store.names)
			return nil
		}},
		{name: "drop all comes late", check: "DropAllIsNoticedWithinASecond", dropAll: func(t *Tier, ctx context.Context, soft bool) error {
			time.AfterFunc(1500*time.Millisecond, func() { _ = t.DropAll(context.WithoutCancel(ctx), soft) })
			return nil
		}},
		{name: "puts are stamped when they come", check: "DropAllFencesLeases", put: eachPut(func(t *Tier, p *remote.Put) {
			with(t, p.Key, func(*record) { p.Lease.State = t.own().state() })
		})},
		{name: "soft is hard", check: "SoftDropAllKeepsValuesStale", dropAll: func(t *Tier, ctx context.Context, _ bool) error {
			return t.DropAll(ctx, false)
		}},
		{name: "hard is soft", check: "SoftDropAllKeepsValuesStale", dropAll: func(t *Tier, ctx context.Context, _ bool) error {
			return t.DropAll(ctx, true)
		}},
		{name: "soft does nothing", check: "SoftDropAllKeepsValuesStale", dropAll: func(t *Tier, ctx context.Context, soft bool) error {
			if soft {
				return nil
			}
			return t.DropAll(ctx, false)
		}},
		{name: "acquire does not see it", check: "SoftDropAllKeepsValuesStale", acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			with(t, key, func(r *record) {
				if s := r.own(); entryrules.BeforeExpiries(s.Value.Namespace) == entryrules.BeforeExpiries(t.own().state()) {
					s.Value.Namespace = t.own().state()
				}
			})
			return kit.Acquire(ctx, t, key, d)
		}},
		{name: "puts are stamped when they come", check: "SoftDropAllFencesLeases", put: eachPut(func(t *Tier, p *remote.Put) {
			own(t, func(n *namespace) { p.Lease.State = n.state() })
		})},
		{name: "extensions are stamped when they come", check: "SoftDropAllFencesLeases", extend: func(t *Tier, ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
			own(t, func(n *namespace) { l.State = n.state() })
			return t.Extend(ctx, key, fresh, left, l, id)
		}},
	}
}

func extendAllMutations() []mutation {
	return []mutation{
		{name: "another word is another value", check: "ExtendFollowsASoftDropOfAll", extend: func(t *Tier, ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
			var other bool
			with(t, key, func(r *record) { other = r.own().Value.Namespace != l.State })
			if other {
				return true, nil
			}
			return t.Extend(ctx, key, fresh, left, l, id)
		}},
		{name: "absent values are revived", check: "ExtendFollowsASoftDropOfAll", extend: func(t *Tier, ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
			with(t, key, func(r *record) { r.own().Value.Namespace = l.State })
			return t.Extend(ctx, key, fresh, left, l, id)
		}},
	}
}

func tagMutations() []mutation {
	return []mutation{
		{name: "tags are not dropped", check: "DroppedTagIsNewerThanOlderLeases", dropTags: func(*Tier, context.Context, []string, bool) error { return nil }},
		{name: "the first of many is dropped", check: "DroppedTagIsNewerThanOlderLeases", dropTags: func(t *Tier, ctx context.Context, tags []string, soft bool) error {
			return t.DropTags(ctx, tags[:min(len(tags), 1)], soft)
		}},
		{
			name: "all tags are one", check: "DroppedTagIsNewerThanOlderLeases",
			tags: func(t *Tier, ctx context.Context, tags []string) ([]remote.Tag, error) {
				return t.Tags(ctx, make([]string, len(tags)))
			},
			dropTags: func(t *Tier, ctx context.Context, tags []string, soft bool) error {
				return t.DropTags(ctx, make([]string, len(tags)), soft)
			},
		},
		{name: "leases have no clock", check: "DroppedTagIsNewerThanOlderLeases", acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			h, l, err := kit.Acquire(ctx, t, key, d)
			l.Clock = 0
			return h, l, err
		}},
		{name: "tokens have no clock", check: "DroppedTagIsNewerThanOlderLeases", drop: func(t *Tier, ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
			leases, err := t.Drop(ctx, d)
			for i := range leases {
				leases[i].Clock = 0
			}
			return leases, err
		}},
		{name: "the clock is ahead", check: "DroppedTagIsNewerThanOlderLeases", acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			h, l, err := kit.Acquire(ctx, t, key, d)
			l.Clock++
			return h, l, err
		}},
		{name: "a new tag counts as dropped", check: "DroppedTagIsNewerThanOlderLeases", tags: func(t *Tier, ctx context.Context, tags []string) ([]remote.Tag, error) {
			own(t, func(n *namespace) {
				for _, tag := range tags {
					if table := n.table(); table.dropped[tag] == 0 {
						n.clock++
						table.dropped[tag] = n.clock
					}
				}
			})
			return t.Tags(ctx, tags)
		}, acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			h, l, err := kit.Acquire(ctx, t, key, d)
			l.Clock--
			return h, l, err
		}},
		{name: "soft is hard", check: "SoftTagDropIsSeparate", dropTags: func(t *Tier, ctx context.Context, tags []string, _ bool) error {
			return t.DropTags(ctx, tags, false)
		}},
		{name: "one clock for both", check: "SoftTagDropIsSeparate", tags: eachTag(func(t *remote.Tag) { t.Expired = max(t.Expired, t.Dropped) })},
		{name: "hard takes the soft one away", check: "SoftTagDropIsSeparate", tags: eachTag(func(t *remote.Tag) {
			if t.Dropped > t.Expired {
				t.Expired = 0
			}
		})},
		{name: "tags are sorted", check: "TagsLineUpWithArguments", tags: func(t *Tier, ctx context.Context, tags []string) ([]remote.Tag, error) {
			return t.Tags(ctx, slices.Sorted(slices.Values(tags)))
		}},
		{name: "tags fold case", check: "TagsLineUpWithArguments", dropTags: func(t *Tier, ctx context.Context, tags []string, soft bool) error {
			return t.DropTags(ctx, strings.Split(strings.ToLower(strings.Join(tags, "|")), "|"), soft)
		}},
		{name: "no tags is an error", check: "TagsLineUpWithArguments", dropTags: func(t *Tier, ctx context.Context, tags []string, soft bool) error {
			if len(tags) == 0 {
				return errMutant
			}
			return t.DropTags(ctx, tags, soft)
		}},
		{name: "names are one", check: "TagsAreOfTheName", bind: func(s remote.Space) remote.Space { s.Name = ""; return s }},
		{name: "schemas are names", check: "TagsAreOfTheName", bind: func(s remote.Space) remote.Space { s.Name += string(rune('a' + s.Schema)); return s }},
		{name: "a lost tag was never dropped", check: "LostTagsCountAsDropped", tags: func(t *Tier, ctx context.Context, tags []string) ([]remote.Tag, error) {
			floorless(t)
			return t.Tags(ctx, tags)
		}},
		{name: "a drop makes a new table", check: "LostTagsCountAsDropped", dropTags: func(t *Tier, ctx context.Context, tags []string, soft bool) error {
			floorless(t)
			return t.DropTags(ctx, tags, soft)
		}},
		{name: "a lost tag is dropped for ever", check: "LostTagsCountAsDropped", tags: eachTag(func(t *remote.Tag) { t.Dropped++ }), dropTags: func(t *Tier, ctx context.Context, tags []string, soft bool) error {
			own(t, func(n *namespace) { n.clock++ })
			return t.DropTags(ctx, tags, soft)
		}},
	}
}

func positionMutations() []mutation {
	return []mutation{
		{name: "changes are not told", check: "ChangesTellOfDrops", changes: func(*Tier, context.Context) (string, error) { return "0", nil }},
		{name: "unknown lanes stay unknown", check: "PositionIsStable", position: whereabouts(func(p *remote.Position) { p.Lanes[0] = remote.LaneVersion{} })},
		{name: "unknown lanes get a word each time", check: "PositionIsStable", position: whereabouts(func(p *remote.Position) { p.Lanes[0].Nonce = nonce() })},
		{name: "an epoch each time", check: "PositionIsStable", position: whereabouts(func(p *remote.Position) { p.Epoch = newEpoch() })},
		{name: "one lane is missing", check: "PositionIsStable", position: whereabouts(func(p *remote.Position) { p.Lanes = p.Lanes[:1] })},
		{name: "each asks for itself", check: "PositionIsTheSameForAllInstances", position: func(t *Tier, ctx context.Context) (remote.Position, error) {
			p, err := t.Position(ctx)
			p.Lanes[0].Nonce += t.space.Instance
			return p, err
		}},
		{name: "lanes of one's own", check: "PositionIsTheSameForAllInstances", lane: func(t *Tier, key string) uint16 {
			return t.Lane(key) + uint16(t.space.Instance)
		}},
		{name: "names are one", check: "PositionIsTheSameForAllInstances", bind: func(s remote.Space) remote.Space { s.Name = ""; return s }},
		{name: "lanes do not move", check: "DropMovesItsLaneAlone", position: whereabouts(func(p *remote.Position) {
			for i := range p.Lanes {
				p.Lanes[i] = remote.LaneVersion{Nonce: 1}
			}
		})},
		{name: "counts only", check: "DropMovesItsLaneAlone", position: whereabouts(func(p *remote.Position) {
			for i := range p.Lanes {
				p.Lanes[i].Nonce = 1
			}
		})},
		{name: "every lane moves", check: "DropMovesItsLaneAlone", drop: eachDrop(func(t *Tier, _ *remote.Drop) func() {
			return func() {
				own(t, func(n *namespace) { n.move(0) })
			}
		})},
		{name: "another lane moves", check: "DropMovesItsLaneAlone", lane: func(t *Tier, key string) uint16 { return t.Lane(key) ^ 1 }},
		{name: "a put by token moves nothing", check: "DropMovesItsLaneAlone", put: func(t *Tier, ctx context.Context, p []remote.Put) ([]int, error) {
			var before []remote.LaneVersion
			own(t, func(n *namespace) { before = slices.Clone(n.lanes) })
			refused, err := t.Put(ctx, p)
			own(t, func(n *namespace) { n.lanes = before })
			return refused, err
		}},
		{name: "every put moves", check: "FillMovesNoLane", put: func(t *Tier, ctx context.Context, p []remote.Put) ([]int, error) {
			own(t, func(n *namespace) { n.move(t.Lane(p[0].Key)) })
			return t.Put(ctx, p)
		}},
		{name: "one count for both", check: "PositionCountsDropsOfEverything", position: whereabouts(func(p *remote.Position) { p.Drops += p.Expiries })},
		{name: "the clock stands", check: "PositionCountsDropsOfEverything", position: whereabouts(func(p *remote.Position) { p.Clock = 0 })},
		{name: "an epoch for each drop of all", check: "PositionCountsDropsOfEverything", position: whereabouts(func(p *remote.Position) { p.Epoch += string(rune('a' + p.Drops)) })},
		{
			name: "words are counts", check: "ForgottenLaneGetsAnotherVersion",
			position: whereabouts(func(p *remote.Position) {
				for i := range p.Lanes {
					p.Lanes[i].Nonce = p.Lanes[i].Count + 1
				}
			}),
		},
		{name: "contexts are ignored", check: "CancelledContextIsAnErrorOfEveryMethod", position: func(t *Tier, ctx context.Context) (remote.Position, error) {
			return t.Position(context.WithoutCancel(ctx))
		}},
	}
}
