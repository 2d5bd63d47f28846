package tierchecks

import (
	"context"
	"slices"
	"sync"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest/internal/hostile"
)

// spaceChecks are the promises about everything with one name: drops of all of
// it, tags, and how far its drops have come.
func spaceChecks() []tierCheck {
	return []tierCheck{
		{"DropAllMakesAbsent", checkDropAll},
		{"DropAllFencesLeases", checkDropAllFencesLeases},
		{"SoftDropAllKeepsValuesStale", checkSoftDropAll},
		{"SoftDropAllFencesLeases", checkSoftDropAllFencesLeases},
		{"DroppedTagIsNewerThanOlderLeases", checkDroppedTag},
		{"SoftTagDropIsApart", checkSoftTagDrop},
		{"TagsLineUpWithArguments", checkTagsLineUp},
		{"TagsAreOfTheName", checkTagsAreOfTheName},
		{"LostTagsCountAsDropped", checkLostTags},
		{"PositionIsStable", checkPositionIsStable},
		{"ChangesTellOfDrops", checkChanges},
		{"PositionIsTheSameForAllWhoAsk", checkPositionForAll},
		{"DropMovesItsLaneAlone", checkDropMovesLane},
		{"FillMovesNoLane", checkFillMovesNoLane},
		{"PositionCountsDropsOfEverything", checkPositionCounts},
		{"ForgottenLaneGetsAnotherWord", checkForgottenLane},
		{"CancelledContextIsAnErrorOfAbilities", checkCancelledAbilities},
	}
}

// forgetful is a tier whose store can be made to forget.
type forgetful interface {
	ForgetLane(key string)
	ForgetTags()
}

// doubt makes the tier ask anew for what it remembers.
func (v *view) doubt() {
	if d, ok := v.Tier.(remote.Doubter); ok {
		d.Doubt()
	}
}

func (v *view) dropAll(soft bool) {
	v.Helper()
	if err := ability[remote.AllDropper](v).DropAll(v.ctx, soft); err != nil {
		v.Fatalf("DropAll(soft: %t): %v", soft, err)
	}
}

func (v *view) dropTags(soft bool, tags ...string) {
	v.Helper()
	if err := ability[remote.Tagger](v).DropTags(v.ctx, tags, soft); err != nil {
		v.Fatalf("DropTags(%q, soft: %t): %v", tags, soft, err)
	}
}

func (v *view) tags(tags ...string) []remote.Tag {
	v.Helper()
	known, err := ability[remote.Tagger](v).Tags(v.ctx, tags)
	if err != nil || len(known) != len(tags) {
		v.Fatalf("Tags(%q) = %d, %v; want one each", tags, len(known), err)
	}
	return known
}

// clock returns the tag clock of a lease.
func (v *view) clock() uint64 {
	v.Helper()
	const key = "clock"
	lease := v.granted(key, long)
	v.drop(remote.Drop{Key: key})
	return lease.Clock
}

func (v *view) position() remote.Position {
	v.Helper()
	p, err := ability[remote.Positioner](v).Position(v.ctx)
	if err != nil {
		v.Fatalf("Position: %v", err)
	}
	return p
}

func (v *view) lane(key string) uint16 {
	v.Helper()
	return ability[remote.Positioner](v).Lane(key)
}

// same reports whether nothing happened between two positions.
func same(a, b remote.Position) bool {
	return a.Epoch == b.Epoch && a.Drops == b.Drops && a.Expiries == b.Expiries && a.Clock == b.Clock && slices.Equal(a.Lanes, b.Lanes)
}

func checkDropAll(v *view) {
	keys := []string{"a", "b", "c", ""}
	for _, key := range keys {
		v.fill(key, "old")
	}
	v.dropAll(false)
	for _, key := range keys {
		v.isAbsent(key)
		v.fill(key, "new")
		v.holdsFresh(key, "new")
	}
	stranger, sibling := v.stranger(), v.sibling()
	stranger.fill("a", "theirs")
	sibling.fill("a", "sibling's")
	v.dropAll(false)
	v.isAbsent("a")
	sibling.doubt()
	sibling.isAbsent("a")
	stranger.doubt()
	stranger.holdsFresh("a", "theirs")
}

func checkDropAllFencesLeases(v *view) {
	lease := v.granted("k", long)
	token := v.drop(remote.Drop{Key: "by token", Token: long})
	v.dropAll(false)
	v.put("k", "old", lease)
	v.isAbsent("k")
	v.put("by token", "old", token)
	v.isAbsent("by token")
	v.drop(remote.Drop{Key: "k"})
	v.fill("k", "new")
	v.holdsFresh("k", "new")
}

func checkSoftDropAll(v *view) {
	v.fill("k", "old")
	before := v.holdsFresh("k", "old")
	v.dropAll(true)
	if h := v.holdsStale("k", "old"); !h.Soft || !h.All || h.ID != before.ID || h.Left <= before.Left-slack {
		v.Errorf("held %+v after a soft drop of all of %+v; want the same value, Soft by a drop of All, with its Left", h, before)
	}
	held, lease := v.acquire("k", long)
	if lease.Grant != remote.Granted || held.Fresh > 0 || string(held.Data) != "old" {
		v.Fatalf("Acquire = %+v, grant %d; want the stale value, Granted", held, lease.Grant)
	}
	v.stores("k", "new", lease)
	v.lives(v.holdsFresh("k", "new"), long, 2*long)
	stranger, sibling := v.stranger(), v.sibling()
	stranger.fill("k", "theirs")
	sibling.fill("k", "sibling's")
	v.dropAll(true)
	sibling.doubt()
	sibling.holdsStale("k", "sibling's")
	stranger.doubt()
	stranger.holdsFresh("k", "theirs")
	v.holdsStale("k", "new")
	v.dropAll(false)
	v.isAbsent("k")
	v.dropAll(true)
	v.isAbsent("k")
}

// checkSoftDropAllFencesLeases: what was loaded before everything was made
// stale is not fresh, however it is stored.
func checkSoftDropAllFencesLeases(v *view) {
	lease := v.granted("k", long)
	token := v.drop(remote.Drop{Key: "by token", Token: long})
	id, refresh := v.stale("refreshed", "old")
	v.dropAll(true)
	v.put("k", "old", lease)
	v.put("by token", "old", token)
	v.extend("refreshed", refresh, id)
	for _, key := range []string{"k", "by token", "refreshed"} {
		if h := v.held(key); h.Fresh > 0 {
			v.Errorf("%q: held %+v; its right is older than the soft drop of all", key, h)
		}
	}
}

// checkDroppedTag: whoever compares the drops of a tag with the clock of a
// lease knows which of the two came first.
func checkDroppedTag(v *view) {
	v.tags("a", "b") // makes them known
	before := v.clock()
	for i, tag := range v.tags("a", "b") {
		if tag.Dropped > before || tag.Expired != 0 {
			v.Errorf("tag %d that nobody dropped is %+v at clock %d", i, tag, before)
		}
	}
	v.dropTags(false, "a")
	tags := v.tags("a", "b")
	if tags[0].Dropped <= before || tags[1].Dropped > before {
		v.Errorf("tags a, b are %+v after a was dropped; the lease had clock %d", tags, before)
	}
	token := v.drop(remote.Drop{Key: "written", Token: long})
	if after := v.clock(); after < tags[0].Dropped || token.Clock < tags[0].Dropped {
		v.Errorf("a lease has clock %d and a token %d after a drop of a tag at %d", after, token.Clock, tags[0].Dropped)
	}
	middle := v.clock()
	v.dropTags(false, "a", "b")
	for i, tag := range v.tags("a", "b") {
		if tag.Dropped <= middle {
			v.Errorf("tag %d is %+v after it was dropped; the lease had clock %d", i, tag, middle)
		}
	}
}

func checkSoftTagDrop(v *view) {
	v.tags("t")
	before := v.clock()
	v.dropTags(true, "t")
	soft := v.tags("t")[0]
	if soft.Expired <= before || soft.Dropped > before {
		v.Errorf("tag is %+v after a soft drop; the lease had clock %d", soft, before)
	}
	v.dropTags(false, "t")
	hard := v.tags("t")[0]
	if hard.Dropped <= soft.Expired || hard.Expired != soft.Expired {
		v.Errorf("tag is %+v after a hard drop, and was %+v", hard, soft)
	}
	v.dropTags(true, "t")
	if again := v.tags("t")[0]; again.Expired <= hard.Dropped || again.Dropped != hard.Dropped {
		v.Errorf("tag is %+v after another soft drop, and was %+v", again, hard)
	}
}

func checkTagsLineUp(v *view) {
	v.dropTags(false)
	if known := v.tags(); len(known) != 0 {
		v.Errorf("no tags are %+v", known)
	}
	tags := hostile.Keys()
	seen := map[uint64]string{}
	for _, tag := range tags {
		v.dropTags(false, tag)
	}
	for i, known := range v.tags(tags...) {
		if other, ok := seen[known.Dropped]; ok {
			v.Errorf("tags %q and %q were dropped apart, both at %d", tags[i], other, known.Dropped)
		}
		seen[known.Dropped] = tags[i]
	}
	known := v.tags(tags[1], tags[0], tags[1])
	if seen[known[0].Dropped] != tags[1] || seen[known[1].Dropped] != tags[0] || known[2] != known[0] {
		v.Errorf("tags 1, 0, 1 are %+v", known)
	}
}

func checkTagsAreOfTheName(v *view) {
	sibling, stranger := v.sibling(), v.stranger()
	stranger.tags("t")
	theirs := stranger.clock()
	v.tags("t")
	before := v.clock()
	sibling.dropTags(false, "t")
	if tag := v.tags("t")[0]; tag.Dropped <= before {
		v.Errorf("tag is %+v after another program dropped it; the lease had clock %d", tag, before)
	}
	if tag := stranger.tags("t")[0]; tag.Dropped > theirs {
		v.Errorf("tag of another name is %+v; nobody dropped it since clock %d", tag, theirs)
	}
}

func checkLostTags(v *view) {
	store := ability[forgetful](v)
	for _, first := range []func(){
		func() {},
		func() { v.dropTags(false, "another") },
		func() { v.dropTags(true, "another") },
	} {
		v.dropTags(false, "dropped")
		v.dropTags(true, "expired")
		v.doubt()
		before := v.clock()
		store.ForgetTags()
		first()
		for i, tag := range v.tags("dropped", "expired", "never") {
			if tag.Dropped <= before {
				v.Errorf("tag %d is %+v after all tags were lost; the lease had clock %d", i, tag, before)
			}
		}
		v.doubt()
		after := v.clock()
		for i, tag := range v.tags("dropped", "expired", "never") {
			if tag.Dropped > after {
				v.Errorf("tag %d is %+v; a lease from after the loss has clock %d", i, tag, after)
			}
		}
	}
}

func checkPositionIsStable(v *view) {
	v.fill("k", "value")
	p := v.position()
	if len(p.Lanes) == 0 || p.Epoch == "" {
		v.Fatalf("%d lanes, epoch %q", len(p.Lanes), p.Epoch)
	}
	if i := slices.Index(p.Lanes, remote.Word{}); i >= 0 {
		v.Errorf("lane %d has no word", i)
	}
	if again := v.position(); !same(again, p) {
		v.Errorf("position changed although nothing was dropped")
	}
	for _, key := range hostile.Keys() {
		if lane := v.lane(key); int(lane) >= len(p.Lanes) || lane != v.lane(key) {
			v.Errorf("key %q is in lane %d of %d, then in %d", key, lane, len(p.Lanes), v.lane(key))
		}
	}
}

// checkChanges: a text that stays the same says that nothing was dropped, by
// whichever program.
func checkChanges(v *view) {
	teller := ability[remote.ChangeTeller](v)
	changes := func() string {
		v.Helper()
		v.sleep(remote.ChangesAge) // what was said before is over
		text, err := teller.Changes(v.ctx)
		if err != nil {
			v.Fatalf("Changes: %v", err)
		}
		return text
	}
	before := changes()
	if before == "" {
		v.Skip("it cannot tell")
	}
	sibling := v.sibling()
	for what, drop := range map[string]func(){
		"a key":      func() { sibling.drop(remote.Drop{Key: "k"}) },
		"everything": func() { sibling.dropAll(false) },
		"a tag":      func() { sibling.dropTags(false, "t") },
	} {
		drop()
		after := changes()
		if after == before {
			v.Errorf("%q before and after a drop of %s", before, what)
		}
		before = after
	}
}

// checkPositionForAll: those who ask first, all at once, get the same words.
func checkPositionForAll(v *view) {
	const askers = 8
	sibling := v.sibling()
	p := ability[remote.Positioner](v)
	q := ability[remote.Positioner](sibling)
	positions := make([]remote.Position, askers)
	errs := make([]error, askers)
	var wg sync.WaitGroup
	for i := range askers {
		wg.Go(func() { positions[i], errs[i] = []remote.Positioner{p, q}[i%2].Position(v.ctx) })
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
	for _, key := range hostile.Keys() {
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

// moved fails unless the lane of key, and nothing else, went one on from p. The
// new position is returned.
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

func checkFillMovesNoLane(v *view) {
	id, lease := v.stale("extended", "value")
	p := v.position()
	v.fill("k", "value")
	v.extends("extended", lease, id)
	v.refuses("k", "late", lease)
	if r, ok := v.Tier.(remote.Releaser); ok {
		if err := r.Release(v.ctx, "released", v.granted("released", long)); err != nil {
			v.Fatalf("Release: %v", err)
		}
	}
	if !same(v.position(), p) {
		v.Errorf("the position moved although nothing was dropped")
	}
}

func checkPositionCounts(v *view) {
	p := v.position()
	expect := func(what string, change func(p *remote.Position)) {
		v.Helper()
		change(&p)
		if q := v.position(); !same(q, p) {
			v.Fatalf("after %s: epoch %q, %d drops, %d expiries, clock %d; want %q, %d, %d, %d, and the same lanes",
				what, q.Epoch, q.Drops, q.Expiries, q.Clock, p.Epoch, p.Drops, p.Expiries, p.Clock)
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

func checkForgottenLane(v *view) {
	store := ability[forgetful](v)
	v.drop(remote.Drop{Key: "k"})
	p := v.position()
	lane := v.lane("k")
	store.ForgetLane("k")
	q := v.position()
	if q.Lanes[lane] == p.Lanes[lane] || q.Lanes[lane] == (remote.Word{}) {
		v.Fatalf("lane was %+v, was forgotten, and is %+v; want another word", p.Lanes[lane], q.Lanes[lane])
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

func checkCancelledAbilities(v *view) {
	ctx, cancel := context.WithCancel(v.ctx)
	cancel()
	tags := []string{"t"}
	asked := 0
	expect := func(op string, err error) {
		v.Helper()
		asked++
		if err == nil {
			v.Errorf("%s with a cancelled context returned no error", op)
		}
	}
	if a, ok := v.Tier.(remote.AllDropper); ok {
		expect("DropAll", a.DropAll(ctx, false))
	}
	if a, ok := v.Tier.(remote.Tagger); ok {
		expect("DropTags", a.DropTags(ctx, tags, false))
		_, err := a.Tags(ctx, tags)
		expect("Tags", err)
	}
	if a, ok := v.Tier.(remote.Positioner); ok {
		_, err := a.Position(ctx)
		expect("Position", err)
	}
	if a, ok := v.Tier.(remote.Releaser); ok {
		expect("Release", a.Release(ctx, "k", remote.Lease{Token: 1}))
	}
	if a, ok := v.Tier.(remote.Renewer); ok {
		_, err := a.Renew(ctx, "k", remote.Lease{Token: 1}, long)
		expect("Renew", err)
	}
	if a, ok := v.Tier.(remote.Refresher); ok {
		_, _, err := a.Refresh(ctx, "k", 1, long)
		expect("Refresh", err)
	}
	if a, ok := v.Tier.(remote.ManyAcquirer); ok {
		_, _, err := a.AcquireMany(ctx, []string{"k"}, long)
		expect("AcquireMany", err)
	}
	if asked == 0 {
		v.Skip("no abilities")
	}
}
