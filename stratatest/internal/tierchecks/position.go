package tierchecks

import (
	"slices"
	"sync"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest/internal/checks"
)

// positionChecks are the promises of a [remote.Announcer] about positions.
func positionChecks() []tierCheck {
	return []tierCheck{
		{"PositionIsStable", checkPositionIsStable},
		{"ChangesTellOfDrops", checkChanges},
		{"PositionIsTheSameForAllInstances", checkPositionForAll},
		{"DropMovesItsLaneAlone", checkDropMovesLane},
		{"FillMovesNoLane", checkFillMovesNoLane},
		{"PositionCountsDropsOfEverything", checkPositionCounts},
		{"ForgottenLaneGetsAnotherVersion", checkForgottenLane},
	}
}

func (v *view) position() remote.Position {
	v.Helper()
	p, err := ability[remote.Announcer](v).Position(v.ctx)
	if err != nil {
		v.Fatalf("Position: %v", err)
	}
	return p
}

func (v *view) lane(key string) uint16 {
	v.Helper()
	return ability[remote.Announcer](v).Lane(key)
}

// same reports whether two positions are equal.
func same(a, b remote.Position) bool {
	return a.Epoch == b.Epoch && a.Drops == b.Drops && a.Expiries == b.Expiries && a.Clock == b.Clock && slices.Equal(a.Lanes, b.Lanes)
}

// checkPositionIsStable: an instance compares positions to learn whether it has missed messages:
// without drops they are equal.
func checkPositionIsStable(v *view) {
	v.fill("k", "value")
	p := v.position()
	if len(p.Lanes) == 0 || p.Epoch == "" {
		v.Fatalf("%d lanes, epoch %q", len(p.Lanes), p.Epoch)
	}
	if i := slices.Index(p.Lanes, remote.LaneVersion{}); i >= 0 {
		v.Errorf("lane %d has no version", i)
	}
	if again := v.position(); !same(again, p) {
		v.Errorf("position changed although nothing was dropped")
	}
	for _, key := range checks.HostileKeys() {
		if lane := v.lane(key); int(lane) >= len(p.Lanes) || lane != v.lane(key) {
			v.Errorf("key %q is in lane %d of %d, then in %d", key, lane, len(p.Lanes), v.lane(key))
		}
	}
}

// checkChanges: while the text stays the same, no program has dropped anything.
func checkChanges(v *view) {
	teller := ability[remote.Announcer](v)
	changes := func() string {
		v.Helper()
		v.sleep(remote.ChangesAge) // the age of an earlier answer
		text, err := teller.Changes(v.ctx)
		if err != nil {
			v.Fatalf("Changes: %v", err)
		}
		return text
	}
	before := changes()
	if before == "" {
		v.Skip("the Tier does not tell changes: Changes returns no text")
	}
	sibling := v.sibling()
	for name, drop := range map[string]func(){
		"a key":      func() { sibling.drop(remote.Drop{Key: "k"}) },
		"everything": func() { sibling.dropAll(false) },
		"a tag":      func() { sibling.dropTags(false, "t") },
	} {
		drop()
		after := changes()
		if after == before {
			v.Errorf("%q before and after a drop of %s", before, name)
		}
		before = after
	}
}

// checkPositionForAll: the first instances that ask, all at once, get the same
// lane versions.
func checkPositionForAll(v *view) {
	const askers = 8
	sibling := v.sibling()
	p := ability[remote.Announcer](v)
	q := ability[remote.Announcer](sibling)
	positions := make([]remote.Position, askers)
	errs := make([]error, askers)
	var wg sync.WaitGroup
	for i := range askers {
		wg.Go(func() { positions[i], errs[i] = []remote.Announcer{p, q}[i%2].Position(v.ctx) })
	}
	wg.Wait()
	for i := range askers {
		if errs[i] != nil {
			v.Fatalf("Position: %v", errs[i])
		}
		if !same(positions[i], positions[0]) {
			v.Errorf("asker %d got another position than asker 0", i)
		}
	}
	for _, key := range checks.HostileKeys() {
		if p.Lane(key) != q.Lane(key) {
			v.Errorf("key %q is in lane %d for one program and %d for another", key, p.Lane(key), q.Lane(key))
		}
	}
	v.drop(remote.Drop{Key: "k"})
	if !same(sibling.position(), v.position()) {
		v.Errorf("two programs see different positions after a drop")
	}
	stranger := v.stranger()
	theirs := stranger.position()
	v.drop(remote.Drop{Key: "k"})
	if !same(stranger.position(), theirs) {
		v.Errorf("a drop moved the position of another name")
	}
}

// moved fails unless the lane of key has made one step from p, and nothing else
// has changed. It returns the new position.
func (v *view) moved(p remote.Position, key, by string) remote.Position {
	v.Helper()
	q := v.position()
	lane := v.lane(key)
	was, is := p.Lanes[lane], q.Lanes[lane]
	if is.Count != was.Count+1 || is.Nonce == was.Nonce || is.Nonce == 0 {
		v.Fatalf("lane of %q went from %+v to %+v by %s; want a count on and another nonce", key, was, is, by)
	}
	expected := p
	expected.Lanes = slices.Clone(p.Lanes)
	expected.Lanes[lane] = is
	if !same(q, expected) {
		v.Fatalf("%s of %q moved more than lane %d", by, key, lane)
	}
	return q
}

// checkDropMovesLane: each drop is one step of one lane, so that a missed message makes only this
// lane suspect.
func checkDropMovesLane(v *view) {
	p := v.position()
	for _, key := range []string{"a", "b", "c"} {
		v.drop(remote.Drop{Key: key})
		p = v.moved(p, key, "a drop")
		v.drop(remote.Drop{Key: key, Soft: true, Hold: short})
		p = v.moved(p, key, "a soft drop")
		token := v.drop(remote.Drop{Key: key, Token: long})
		p = v.moved(p, key, "a drop with a token")
		v.stores(key, "written", token)
		p = v.moved(p, key, "a put by token")
	}
	v.putDrops("d", long, v.granted("d", long))
	v.moved(p, "d", "a put that drops")
}

// checkFillMovesNoLane: stores and leases are no drops. If they moved a lane, every load would make
// entries of other instances suspect.
func checkFillMovesNoLane(v *view) {
	id, lease := v.stale("extended", "value")
	p := v.position()
	v.fill("k", "value")
	v.extends("extended", lease, id)
	v.refuses("k", "late", lease)
	if err := v.Release(v.ctx, "released", v.granted("released", long)); err != nil {
		v.Fatalf("Release: %v", err)
	}
	if !same(v.position(), p) {
		v.Errorf("the position moved although nothing was dropped")
	}
}

// checkPositionCounts: drops of everything and of tags have numbers of their own, one step for each
// drop.
func checkPositionCounts(v *view) {
	p := v.position()
	expect := func(event string, change func(p *remote.Position)) {
		v.Helper()
		change(&p)
		if q := v.position(); !same(q, p) {
			v.Fatalf("after %s: epoch %q, %d drops, %d expiries, clock %d; want %q, %d, %d, %d, and the same lanes",
				event, q.Epoch, q.Drops, q.Expiries, q.Clock, p.Epoch, p.Drops, p.Expiries, p.Clock)
		}
	}
	v.dropAll(false)
	expect("a drop of all", func(p *remote.Position) { p.Drops++ })
	v.dropAll(true)
	expect("a soft drop of all", func(p *remote.Position) { p.Expiries++ })
	tags := v.tags("a", "b")
	p.Clock = max(p.Clock, tags[0].Dropped)
	expect("a question", func(*remote.Position) {})
	v.dropTags(false, "a", "b")
	expect("a drop of two tags", func(p *remote.Position) { p.Clock += 2 })
	v.dropTags(true, "a")
	expect("a soft drop of a tag", func(p *remote.Position) { p.Clock++ })
}

// checkForgottenLane: a store may lose a lane, and with it drops. The lane then gets a version that
// it never had, also after as many drops as before.
func checkForgottenLane(v *view) {
	store := ability[interface{ ForgetLane(key string) }](v)
	v.drop(remote.Drop{Key: "k"})
	p := v.position()
	lane := v.lane("k")
	store.ForgetLane("k")
	q := v.position()
	if q.Lanes[lane] == p.Lanes[lane] || q.Lanes[lane] == (remote.LaneVersion{}) {
		v.Fatalf("lane was %+v, was forgotten, and is %+v; want another version", p.Lanes[lane], q.Lanes[lane])
	}
	store.ForgetLane("k")
	for range p.Lanes[lane].Count {
		v.drop(remote.Drop{Key: "k"})
	}
	r := v.position()
	if r.Lanes[lane] == p.Lanes[lane] {
		v.Errorf("lane was %+v, was forgotten, and is the same again", p.Lanes[lane])
	}
	p.Lanes[lane] = r.Lanes[lane]
	if !same(r, p) {
		v.Errorf("more than the forgotten lane moved")
	}
}
