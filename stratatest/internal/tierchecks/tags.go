package tierchecks

import (
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest/internal/checks"
)

// tagChecks are the promises of a [remote.Tagger].
func tagChecks() []tierCheck {
	return []tierCheck{
		{"DroppedTagIsNewerThanOlderLeases", checkDroppedTag},
		{"SoftTagDropIsSeparate", checkSoftTagDrop},
		{"TagsLineUpWithArguments", checkTagsLineUp},
		{"TagsAreOfTheName", checkTagsAreOfTheName},
		{"LostTagsCountAsDropped", checkLostTags},
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

// checkDroppedTag: the drops of a tag and the clock of a lease tell which of
// the two came first.
func checkDroppedTag(v *view) {
	v.tags("a", "b") // makes them known
	before := v.clock()
	for i, tag := range v.tags("a", "b") {
		if tag.Dropped > before || tag.Expired != 0 {
			v.Errorf("tag %d that was never dropped is %+v at clock %d", i, tag, before)
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

// checkSoftTagDrop: hard and soft drops of a tag are counted apart, so that neither hides the
// other.
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

// checkTagsLineUp: each tag has a clock of its own, whatever its bytes are.
func checkTagsLineUp(v *view) {
	v.dropTags(false)
	if known := v.tags(); len(known) != 0 {
		v.Errorf("no tags are %+v", known)
	}
	tags := checks.HostileKeys()
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

// checkTagsAreOfTheName: all programs with one name share its tags. Those with other names have
// tags of their own.
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
		v.Errorf("tag of another name is %+v; it was not dropped since clock %d", tag, theirs)
	}
}

// checkLostTags: a store that has lost its tags may have lost drops, so every entry from before
// counts as dropped. Entries from after the loss do not.
func checkLostTags(v *view) {
	store := ability[interface{ ForgetTags() }](v)
	for _, first := range []func(){
		func() {},
		func() { v.dropTags(false, "another") },
		func() { v.dropTags(true, "another") },
	} {
		v.dropTags(false, "dropped")
		v.dropTags(true, "expired")
		v.Recheck()
		before := v.clock()
		store.ForgetTags()
		first()
		for i, tag := range v.tags("dropped", "expired", "never") {
			if tag.Dropped <= before {
				v.Errorf("tag %d is %+v after all tags were lost; the lease had clock %d", i, tag, before)
			}
		}
		v.Recheck()
		after := v.clock()
		for i, tag := range v.tags("dropped", "expired", "never") {
			if tag.Dropped > after {
				v.Errorf("tag %d is %+v; a lease from after the loss has clock %d", i, tag, after)
			}
		}
	}
}
