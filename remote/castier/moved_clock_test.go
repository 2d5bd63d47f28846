package castier_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote/castier"
)

// TestClockOfAnEarlierListIsNotBehind has the list change and change back, while an instance drops
// tags now and then. Then it begins a load, and an instance that has just started drops the tag.
func TestClockOfAnEarlierListIsNotBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lab.NewModel(t, 4)
		busy := another(m)
		list := func(servers ...int) {
			m.List(servers...)
			if err := castier.Moved(t.Context(), busy); err != nil {
				t.Fatal(err)
			}
		}
		list(0, 1)
		dropTags(t, busy, false, "first")
		time.Sleep(4 * time.Second) // in the bubble
		dropTags(t, busy, false, "second")
		list(2, 3)
		for i := range 100 {
			dropTags(t, busy, false, fmt.Sprint("other", i))
			acquire(t, busy, fmt.Sprint("other", i))
			time.Sleep(110 * time.Millisecond) // in the bubble
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1700 * time.Millisecond))) // in the bubble
		dropTags(t, busy, false, "last")
		list(0, 1)
		lease := acquire(t, busy, "k").Lease
		time.Sleep(100 * time.Millisecond) // in the bubble
		dropTags(t, another(m), false, "t")
		putTagged(t, busy, "k", lease, "t")
		judged(t, busy, "t", lease.Clock)
	})
}
