package castier_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// TestFirstValuesOfANamespaceCountForAllInstances has two instances that know the time of the server by one
// reading each, from moments at most a step of its clock apart. The second one makes the tag
// clock, in the time of the server as this instance knows it. Then either of them stores a value with a tag.
func TestFirstValuesOfANamespaceCountForAllInstances(t *testing.T) {
	for asked := time.Duration(0); asked < time.Second; asked += 100 * time.Millisecond {
		for later := time.Duration(0); later <= time.Second; later += 100 * time.Millisecond {
			t.Run(fmt.Sprint(asked, "/", later), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := lab.NewModel(t, 1)
					a, b := another(m), another(m)
					time.Sleep(asked) // in the bubble
					if _, err := a.Get(t.Context(), []string{"k"}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(later) // in the bubble
					first := acquire(t, b, "first").Lease
					second := acquire(t, a, "second").Lease
					putTagged(t, a, "second", second, "t")
					putTagged(t, b, "first", first, "t")
					for _, l := range []uint64{first.Clock, second.Clock} {
						if is := tagsOf(t, b, "t"); is.Dropped > l {
							t.Errorf("asked after %v, and %v later: the tag is %+v, and a value has clock %d", asked, later, is, l)
						}
					}
				})
			})
		}
	}
}
