package stratatest

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest/internal/tierchecks"
)

func TestTierAnnounces(t *testing.T) {
	TestAnnouncer(t, func(*testing.T) (remote.Tier, remote.Bus) {
		tier, bus := NewTier(), NewBus()
		tier.Announce(bus)
		return tier, bus
	})
}

// eager announces a drop before it happens.
type eager struct {
	*Tier
	bus *Bus
}

func (e eager) Announces() bool { return true }

func (e eager) Bind(s remote.Space) remote.Tier { return eager{e.bind(s), e.bus} }

func (e eager) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	m := make([]remote.Message, len(d))
	for i := range d {
		m[i] = remote.Message{Name: e.space.Name, Kind: remote.Dropped, From: e.space.Instance, Key: d[i].Key}
	}
	if err := e.bus.Publish(ctx, m); err != nil {
		return nil, err
	}
	time.Sleep(time.Millisecond) // in a bubble
	return e.Tier.Drop(ctx, d)
}

// hearing changes the events of a follower.
type hearing func(func(remote.Event)) func(remote.Event)

// without takes messages of a kind away.
func without(k remote.Kind) hearing {
	return func(f func(remote.Event)) func(remote.Event) {
		return func(e remote.Event) {
			e.Messages = slices.DeleteFunc(e.Messages, func(m remote.Message) bool { return m.Kind == k })
			f(e)
		}
	}
}

// changed changes messages.
func changed(g func(m *remote.Message)) hearing {
	return func(f func(remote.Event)) func(remote.Event) {
		return func(e remote.Event) {
			for i := range e.Messages {
				g(&e.Messages[i])
			}
			f(e)
		}
	}
}

// onceEach tells a follower of each key once.
func onceEach(f func(remote.Event)) func(remote.Event) {
	heard := map[string]bool{}
	return func(e remote.Event) {
		e.Messages = slices.DeleteFunc(e.Messages, func(m remote.Message) bool {
			again := heard[m.Key]
			heard[m.Key] = true
			return again
		})
		f(e)
	}
}

// announcement is one way to break the announcements of a tier: their way to
// the follower, or the tier itself.
type announcement struct {
	name, check string
	hear        hearing
	eager       bool
	tier        mutation
}

func announcements() []announcement {
	return slices.Concat(dropAnnouncements(), wordAnnouncements(), endAnnouncements())
}

func dropAnnouncements() []announcement {
	return []announcement{
		{name: "soft drops are not told", check: "EveryDropIsAnnounced", hear: without(remote.Expired)},
		{name: "all drops are hard", check: "EveryDropIsAnnounced", hear: changed(func(m *remote.Message) { m.Kind = remote.Dropped })},
		{name: "nobody dropped", check: "EveryDropIsAnnounced", hear: changed(func(m *remote.Message) { m.From = 0 })},
		{name: "only the drop is told", check: "PutByTokenIsAnnounced", hear: onceEach},
		{name: "a load drops nothing", check: "PutByTokenIsAnnounced", tier: mutation{put: eachPut(func(_ *Tier, p *remote.Put) { p.Drops = false })}},
		{name: "a refused put says nothing", check: "PutOfAQuietDropIsAnnounced", tier: mutation{put: eachPut(func(_ *Tier, p *remote.Put) { p.Lease.Quiet = false })}},
		{name: "announced first", check: "MessageMeansTheDropHasHappened", eager: true},
		{name: "holes", check: "VersionsOfALaneChain", hear: changed(func(m *remote.Message) { m.Is.Count++ })},
		{name: "a lane per message", check: "VersionsOfALaneChain", hear: changed(func(m *remote.Message) { m.Lane = uint16(m.Is.Nonce) })},
		{name: "one lane, numbered apart", check: "VersionsOfALaneChain", hear: changed(func(m *remote.Message) { m.Lane = 1 })},
		{name: "drop all is not told", check: "DropAllIsAnnounced", hear: without(remote.AllDropped)},
		{name: "drop all is hard", check: "DropAllIsAnnounced", hear: changed(func(m *remote.Message) { m.Kind = remote.AllDropped })},
		{name: "drops of all are not counted", check: "DropAllIsAnnounced", hear: changed(func(m *remote.Message) { m.Is.Count = 0 })},
		{name: "tag drops are not told", check: "TagDropsAreAnnounced", hear: without(remote.TagDropped)},
		{name: "tag drops are hard", check: "TagDropsAreAnnounced", hear: changed(func(m *remote.Message) { m.Kind = remote.TagDropped })},
		{name: "tag drops have no clock", check: "TagDropsAreAnnounced", hear: changed(func(m *remote.Message) { m.Was.Count = 0 })},
	}
}

func wordAnnouncements() []announcement {
	return []announcement{
		{name: "first words are unknown", check: "PositionIsTheLastVersion", hear: changed(func(m *remote.Message) {
			if m.Was.Count == 0 {
				m.Was = remote.LaneVersion{}
			}
		})},
		{name: "lanes of another", check: "PositionIsTheLastVersion", hear: changed(func(m *remote.Message) { m.Lane++ })},
		{name: "the position is of before", check: "PositionIsTheLastVersion", tier: mutation{position: whereabouts(func(p *remote.Position) {
			for i := range p.Lanes {
				p.Lanes[i] = remote.LaneVersion{Nonce: 1}
			}
		})}},
		{name: "holds are not told", check: "HoldIsAnnounced", hear: changed(func(m *remote.Message) { m.Hold = 0 })},
		{name: "hard holds are told", check: "HoldIsAnnounced", hear: changed(func(m *remote.Message) {
			if m.Kind == remote.Expired {
				m.Hold = 0
			}
		})},
		{name: "a hold for everybody", check: "HoldIsAnnounced", hear: changed(func(m *remote.Message) { m.Hold = long })},
	}
}

func endAnnouncements() []announcement {
	return []announcement{
		{name: "ends are not told", check: "EndIsAnnouncedToInstancesThatWait", hear: without(remote.Ended)},
		{name: "ends of batches are not told", check: "EndIsAnnouncedToInstancesThatWait", tier: mutation{many: noneAwaited()}},
		{name: "ends of refreshes are not told", check: "EndIsAnnouncedToInstancesThatWait", tier: mutation{refresh: refreshed(func(t *Tier, key string, _ *remote.Held, _ *remote.Lease) {
			with(t, key, func(r *record) { r.own().Awaited = false })
		})}},
		{name: "every end is told", check: "EndIsAnnouncedToInstancesThatWait", tier: mutation{acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			h, l, err := kit.Acquire(ctx, t, key, d)
			with(t, key, func(r *record) { r.own().Awaited = true })
			return h, l, err
		}}},
		{name: "waiting outlives the lease", check: "EndIsAnnouncedToInstancesThatWait", tier: mutation{drop: eachDrop(func(t *Tier, d *remote.Drop) func() {
			var awaited bool
			with(t, d.Key, func(r *record) { awaited = r.own().Awaited })
			return func() {
				with(t, d.Key, func(r *record) { r.own().Awaited = awaited })
			}
		}), acquire: func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
			var awaited bool
			with(t, key, func(r *record) { awaited = r.own().Awaited })
			h, l, err := kit.Acquire(ctx, t, key, d)
			if awaited {
				with(t, key, func(r *record) { r.own().Awaited = true })
			}
			return h, l, err
		}}},
		{name: "ends are drops", check: "EndIsAnnouncedToInstancesThatWait", hear: changed(func(m *remote.Message) {
			if m.Kind == remote.Ended {
				m.Is.Count++
			}
		})},
	}
}

// TestAnnouncerChecksFindMutants proves that each check can fail.
func TestAnnouncerChecksFindMutants(t *testing.T) {
	var names []string
	for _, m := range announcements() {
		names = append(names, m.check)
		t.Run(m.check+"/"+m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tier, bus := NewTier(), NewBus()
				f := tierchecks.AnnouncerFixture{Tier: eager{tier, bus}, Bus: bus}
				if !m.eager {
					tier.Announce(bus)
					f = tierchecks.AnnouncerFixture{Tier: mutant{tier, m.tier}, Bus: brokenBus{Bus: bus, hear: m.hear}}
				}
				judge(t, tierchecks.AnnouncerChecks(), m.check, true, f)
			})
		})
	}
	everyCheckIsProven(t, tierchecks.AnnouncerChecks(), names)
}
