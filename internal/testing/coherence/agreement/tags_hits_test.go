package agreement_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// Hits of tagged entries are answered without a look at L2 as long as no tag was dropped since their tags were judged. These
// tests have them beside holds, Tune and a failover.

// hitMany reads key a hundred times, and wants v from L1.
func hitMany(t *testing.T, c *strata.Cache[string, int64], key string, v int64, opts ...strata.CallOption) {
	t.Helper()
	before := c.Stats().L1.Hits
	for range 50 {
		if got, ok := c.Get(t.Context(), key, opts...); got != v || !ok {
			t.Fatalf("Get of %s: %d, %v; want %d", key, got, ok, v)
		}
		if got, err := c.GetOrLoad(t.Context(), key, lab.Never(t), opts...); got != v || err != nil {
			t.Fatalf("GetOrLoad of %s: %d, %v; want %d", key, got, err, v)
		}
	}
	if n := c.Stats().L1.Hits - before; n != 100 {
		t.Errorf("%d of 100 reads of %s are hits of L1", n, key)
	}
}

// missesKey wants no value of key from c.
func missesKey(t *testing.T, when string, c *strata.Cache[string, int64], key string) {
	t.Helper()
	if v, ok := c.Get(t.Context(), key); ok {
		t.Errorf("%s: %s is %d", when, key, v)
	}
}

// TestHitsOfTaggedEntriesEndWithTheirTagBesideHolds has a key on hold, another key with the same tag, and a value that is set
// during the hold.
func TestHitsOfTaggedEntriesEndWithTheirTagBesideHolds(t *testing.T) {
	eachTagged(t, func(t *testing.T, c, dropper *strata.Cache[string, int64]) {
		const hold = 10 * time.Second
		ctx, o, tagged := t.Context(), &lab.Origin{}, strata.WithTags("t")
		read := func(want int64) {
			t.Helper()
			if v := lab.MustGet(t, c, "k", tagging(o, "t")); v != want {
				t.Errorf("k is %d, want %d", v, want)
			}
		}
		o.Value.Store(1)
		read(1)
		lab.Must(t, c.Set(ctx, "other", 1, tagged))
		synctest.Wait()
		hitMany(t, c, "k", 1)
		o.Value.Store(2)
		lab.Must(t, dropper.InvalidateHold(ctx, hold, "k"))
		synctest.Wait()
		for range 3 {
			read(2)
		}
		if n := o.Loads.Load(); n != 4 {
			t.Errorf("%d loads; want one before the hold, and one for each read during it", n)
		}
		missesKey(t, "on hold", c, "k")
		hitMany(t, c, "other", 1)
		lab.Must(t, c.Set(ctx, "k", 3, tagged)) // a Set is stored, and does not end the hold
		synctest.Wait()
		hitMany(t, c, "k", 3)
		lab.Must(t, dropper.InvalidateTags(ctx, "unrelated"))
		synctest.Wait()
		hitMany(t, c, "k", 3)
		lab.Must(t, dropper.InvalidateTags(ctx, "t"))
		synctest.Wait()
		missesKey(t, "the tag was dropped during the hold", c, "k")
		missesKey(t, "the tag was dropped", c, "other")
		read(2)
		missesKey(t, "the hold goes on after the drop of the tag", c, "k")
		time.Sleep(hold)
		read(2)
		hitMany(t, c, "k", 2)
		lab.Must(t, dropper.ExpireTags(ctx, "t"))
		synctest.Wait()
		missesKey(t, "the tag was expired after the hold", c, "k")
	})
}

// TestHitsOfTaggedEntriesEndWithTheirTagBesideTune changes the bound, the TTL and the windows, and turns the cache off and
// on, while a tag is dropped.
func TestHitsOfTaggedEntriesEndWithTheirTagBesideTune(t *testing.T) {
	eachTagged(t, func(t *testing.T, c, dropper *strata.Cache[string, int64]) {
		ctx, tagged := t.Context(), strata.WithTags("t")
		lab.Must(t, c.Set(ctx, "k", 1, tagged))
		synctest.Wait()
		hitMany(t, c, "k", 1)
		for _, change := range []strata.Tuning{
			{MaxEntries: new(int64(5))},
			{MaxEntries: new(int64(100_000))},
			{TTL: new(time.Hour)},
			{StaleWhileRevalidate: new(time.Second), StaleOnError: new(time.Second)},
		} {
			if change.MaxEntries != nil && lab.Encoded() {
				continue
			}
			lab.Tune(t, c, change)
			hitMany(t, c, "k", 1)
			lab.Must(t, dropper.InvalidateTags(ctx, "t"))
			synctest.Wait()
			missesKey(t, "the tag was dropped", c, "k")
			lab.Must(t, c.Set(ctx, "k", 1, tagged))
			synctest.Wait()
			hitMany(t, c, "k", 1)
		}
		lab.Tune(t, c, strata.Tuning{Off: new(true)})
		missesKey(t, "turned off", c, "k")
		lab.Must(t, dropper.InvalidateTags(ctx, "t"))
		synctest.Wait()
		lab.Tune(t, c, strata.Tuning{Off: new(false)})
		missesKey(t, "the tag was dropped while the cache was off", c, "k")
		lab.Must(t, c.Set(ctx, "k", 2, tagged))
		synctest.Wait()
		hitMany(t, c, "k", 2)
		lab.Must(t, dropper.InvalidateTags(ctx, "t"))
		synctest.Wait()
		missesKey(t, "the tag was dropped when the cache was on again", c, "k")
	})
}

// taggedSuccession is a succession. The first server has dropped a tag, so its clock of tags runs.
func taggedSuccession(t *testing.T) succession {
	s := newSuccession()
	lab.Must(t, lab.ViewOf(s.old).DropTags(t.Context(), []string{"first"}, false))
	return s
}

// TestHitsOfTaggedEntriesAskNoTierAfterAFailoverUntilTheirTagIsDropped has a tag dropped at the new server, and at the old one,
// which loses the drop.
func TestHitsOfTaggedEntriesAskNoTierAfterAFailoverUntilTheirTagIsDropped(t *testing.T) {
	one := &lab.Origin{}
	one.Value.Store(1)
	synctest.Test(t, func(t *testing.T) {
		s, ctx := taggedSuccession(t), t.Context()
		var asked *atomic.Int64
		writer, there := s.join(t)
		reader, here := s.join(t, func(o *strata.Options[string, int64]) { o.Remote.Tier, asked = opsOf(o.Remote.Tier, "Get") })
		lab.MustGet(t, reader, "k", tagging(one, "t"))
		time.Sleep(time.Second)
		hitMany(t, reader, "k", 1)
		before := asked.Load()
		if before > 1 {
			t.Errorf("L2 was asked %d times before the failover", before)
		}
		s.new.Tier.Restore(s.old.Tier.Snapshot())
		here.hear()
		there.hear()
		time.Sleep(6 * time.Second) // a heartbeat, and the time for messages to arrive
		missesKey(t, "no value of the old server counts at the new one", reader, "k")
		lab.MustGet(t, reader, "k", tagging(one, "t"))
		n := asked.Load()
		hitMany(t, reader, "k", 1)
		if asked.Load() != n {
			t.Errorf("L2 was asked %d times for hits after the failover", asked.Load()-n)
		}
		lab.Must(t, writer.InvalidateTags(ctx, "unrelated"))
		synctest.Wait()
		hitMany(t, reader, "k", 1)
		lab.Must(t, writer.InvalidateTags(ctx, "t"))
		synctest.Wait()
		missesKey(t, "the tag was dropped at the new server", reader, "k")
	})
	synctest.Test(t, func(t *testing.T) {
		s, ctx := taggedSuccession(t), t.Context()
		writer, there := s.join(t)
		reader, here := s.join(t)
		lab.MustGet(t, reader, "k", tagging(one, "t"))
		time.Sleep(time.Second)
		hitMany(t, reader, "k", 1)
		before := s.old.Tier.Snapshot()
		here.line.Lose(1)
		lab.Must(t, writer.InvalidateTags(ctx, "t")) // and the server dies with it
		s.new.Tier.Restore(before)
		here.hear()
		there.hear()
		time.Sleep(6 * time.Second)
		missesKey(t, "the tag was dropped before the failover", reader, "k")
		missesKey(t, "the tag was dropped before the failover, here", writer, "k")
		lab.MustGet(t, reader, "k", tagging(one, "t"))
		hitMany(t, reader, "k", 1)
		lab.Must(t, writer.InvalidateTags(ctx, "t"))
		synctest.Wait()
		missesKey(t, "the tag was dropped at the new server", reader, "k")
	})
}
