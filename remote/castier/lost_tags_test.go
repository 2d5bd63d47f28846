package castier_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
)

// between runs f once, after the call that is the first for which when holds.
func between(m *lab.Model, when func(c *lab.ModelCall) bool, f func()) {
	m.After = func(c *lab.ModelCall) {
		if when(c) {
			m.After = nil
			f()
		}
	}
}

func adds(key string) func(c *lab.ModelCall) bool {
	return func(c *lab.ModelCall) bool { return len(c.Adds) > 0 && strings.HasSuffix(c.First(), key) }
}

func gets(key string) func(c *lab.ModelCall) bool {
	return func(c *lab.ModelCall) bool { return len(c.Keys) > 0 && strings.HasSuffix(c.First(), key) }
}

func loseItem(m *lab.Model, item string) {
	m.Lose(func(key string) bool { return strings.HasSuffix(key, item) })
}

// judged fails if a value with a tag counts as valid.
func judged(t *testing.T, tier *castier.Tier, tag string, clock uint64) {
	t.Helper()
	if is := tagsOf(t, tier, tag); is.Dropped <= clock {
		t.Errorf("the value counts: the tag is %+v, and the value from before the drop has clock %d", is, clock)
	}
}

// settled returns instances over a store with a clock that has had drops.
func settled(t *testing.T) (m *lab.Model, a, b, c *castier.Tier) {
	m = lab.NewModel(t, 1)
	a, b, c = another(m), another(m), another(m)
	dropTags(t, a, false, "first")
	time.Sleep(4 * time.Second) // in the bubble
	dropTags(t, a, false, "second")
	return m, a, b, c
}

// TestDropWhileALostTagIsReplacedStays: a reader finds that a tag was lost. While it counts a drop
// for it, another instance begins a load, and one drops the tag.
func TestDropWhileALostTagIsReplacedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reader, loader, dropper := settled(t)
		putTagged(t, loader, "old", acquire(t, loader, "old").Lease, "t")
		loseItem(m, ":tt")
		var lease remote.Lease
		between(m, adds(":c"), func() {
			loader.Recheck()
			lease = acquire(t, loader, "k").Lease
			dropTags(t, dropper, false, "t")
		})
		tagsOf(t, reader, "t")
		putTagged(t, loader, "k", lease, "t")
		judged(t, reader, "t", lease.Clock)
	})
}

func swaps(key string) func(c *lab.ModelCall) bool {
	return func(c *lab.ModelCall) bool { return len(c.Swaps) > 0 && strings.HasSuffix(c.First(), key) }
}

// TestValueOfATagBeingMadeStaysDropped: the first use of a tag by one value is stored, after a
// later load has stored another one, while a drop is lost. A reader looks in between.
func TestValueOfATagBeingMadeStaysDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reader, loader, dropper := settled(t)
		first := acquire(t, loader, "first").Lease
		dropTags(t, dropper, false, "another")
		loader.Recheck()
		second := acquire(t, loader, "second").Lease
		putTagged(t, loader, "second", second, "t")
		between(m, gets(":c"), func() {
			dropTags(t, dropper, false, "t")
			loseItem(m, ":tt")
			between(m, swaps(":tt"), func() { judged(t, reader, "t", second.Clock) })
		})
		putTagged(t, loader, "first", first, "t")
		m.After = nil
		judged(t, reader, "t", second.Clock)
	})
}

// TestDropThatIsLateIsNotTakenForTheLatest: between the number of a drop and its item, a load begins
// and the tag is dropped again, which is lost.
func TestDropThatIsLateIsNotTakenForTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, late, loader, dropper := settled(t)
		var lease remote.Lease
		between(m, adds(":c"), func() {
			lease = acquire(t, loader, "k").Lease
			dropTags(t, dropper, false, "t")
			loseItem(m, ":tt")
		})
		dropTags(t, late, false, "t")
		putTagged(t, loader, "k", lease, "t")
		judged(t, another(m), "t", lease.Clock)
	})
}

// TestTagThatCannotBeVerifiedIsNotMade: the tag of a value is dropped during its store, the drop is
// lost, and the store does not answer for the tag any more.
func TestTagThatCannotBeVerifiedIsNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, loader, dropper := settled(t)
		fails := false
		failing := another(lab.Around(m, func(ctx context.Context, _ int, c *lab.ModelCall, run func(context.Context) error) error {
			if fails && (strings.HasSuffix(c.First(), ":tt") || strings.HasSuffix(c.First(), ":c")) {
				return errFault
			}
			return run(ctx)
		}))
		lease := acquire(t, failing, "k").Lease
		between(m, gets(":c"), func() {
			dropTags(t, dropper, false, "t")
			loseItem(m, ":tt")
			between(m, swaps(":tt"), func() { fails = true })
		})
		putTagged(t, failing, "k", lease, "t")
		judged(t, loader, "t", lease.Clock)
	})
}
