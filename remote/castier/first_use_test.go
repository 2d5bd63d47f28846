package castier_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// TestFirstValuesOfANamespaceCountForAllInstances has two instances that know the times of the servers by one
// reading each, from moments at most a step of their clocks apart. The second one makes the tag
// clock, in the time of its server as this instance knows it. Then either of them stores a value with a tag.
func TestFirstValuesOfANamespaceCountForAllInstances(t *testing.T) {
	for _, servers := range []int{1, 3} {
		for asked := time.Duration(0); asked < time.Second; asked += 100 * time.Millisecond {
			for later := time.Duration(0); later <= time.Second; later += 100 * time.Millisecond {
				t.Run(fmt.Sprint("servers=", servers, "/", asked, "/", later), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { firstValues(t, servers, asked, later) })
				})
			}
		}
	}
}

func firstValues(t *testing.T, servers int, asked, later time.Duration) {
	m := lab.NewModel(t, servers)
	a, b := another(m), another(m)
	time.Sleep(asked) // in the bubble
	var keys []string // of all servers
	for _, server := range a.Servers() {
		keys = append(keys, keysOf(a, server, 1)...)
	}
	if _, err := a.Get(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	time.Sleep(later) // in the bubble
	first := acquire(t, b, "first").Lease
	second := acquire(t, a, "second").Lease
	putTagged(t, a, "second", second, "t")
	putTagged(t, b, "first", first, "t")
	for _, l := range []uint64{first.Clock, second.Clock} {
		if is := tagsOf(t, b, "t"); is.Dropped > l {
			t.Errorf("the tag is %+v, and a value has clock %d", is, l)
		}
	}
}
