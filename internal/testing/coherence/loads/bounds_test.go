package loads_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
)

// maxHold is the longest hold of an InvalidateHold.
const maxHold = 24 * time.Hour

// heap is the number of bytes in use on the heap, after a collection.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestTagsThatNoEntryCanCarryAreNotKept hears drops of tags of a mebibyte each.
func TestTagsThatNoEntryCanCarryAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = nil })
		o := &lab.Origin{}
		get := func(tag string) {
			_, err := c.GetOrLoad(t.Context(), "k", o.Load, strata.WithTags(tag))
			lab.Must(t, err)
		}
		longest := strings.Repeat("t", 512)
		get(longest)
		before := heap()
		const drops, size = 64, 1 << 20
		for i := range drops {
			m := remote.Message{Name: "test", Kind: remote.TagDropped, From: 99, Key: fmt.Sprint(i, strings.Repeat("x", size))}
			lab.Must(t, s.Bus.Publish(t.Context(), []remote.Message{m}))
			synctest.Wait()
		}
		if more := heap() - before; more > drops*size/4 {
			t.Errorf("%d MiB of tags that were heard are kept", more>>20)
		}
		if heard := c.Stats().Heard; heard != drops {
			t.Errorf("heard %d messages, want %d", heard, drops)
		}
		get(longest)
		lab.Must(t, s.Bus.Publish(t.Context(), []remote.Message{{Name: "test", Kind: remote.TagDropped, From: 99, Key: longest}}))
		synctest.Wait()
		if _, ok := c.Get(t.Context(), "k"); ok {
			t.Error("the longest tag that an entry can carry was dropped, and the entry is served")
		}
	})
}

// TestHoldOfADayIsTheLongest has a caller ask for more, and a message tell of more.
func TestHoldOfADayIsTheLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		busOnly := func(o *strata.Options[string, int64]) { o.Remote.Tier, o.TTL = nil, strata.NoExpiry }
		c := lab.Instance(t, s, busOnly)
		o := &lab.Origin{}
		lab.MustGet(t, c, "k", o.Load)
		err := c.InvalidateHold(t.Context(), maxHold+1, "k")
		if err == nil || !strings.Contains(err.Error(), "longer than 24h0m0s") {
			t.Errorf("got %v", err)
		}
		lab.WantHeld(t, "nothing was done: the instance", c, 0)
		lab.Must(t, c.InvalidateHold(t.Context(), maxHold, "k"))

		year := remote.Message{Name: "test", Kind: remote.Dropped, From: 99, Key: "k", Hold: 365 * maxHold}
		lab.Must(t, s.Bus.Publish(context.Background(), []remote.Message{year}))
		synctest.Wait()
		lab.MustGet(t, c, "k", o.Load)
		lab.WantAbsent(t, "the instance during the hold", c)
		time.Sleep(maxHold)
		lab.MustGet(t, c, "k", o.Load)
		lab.WantHeld(t, "the instance a day later", c, 0)
	})
}
