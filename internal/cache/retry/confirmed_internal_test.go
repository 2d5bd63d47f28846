package retry

import (
	"fmt"
	"testing"
	"time"

	"github.com/strata-cache/strata/remote"
)

// TestMemoryOfConfirmedDropsIsBounded however many drops come while nothing changes.
func TestMemoryOfConfirmedDropsIsBounded(t *testing.T) {
	q := New(Options{MaxKeys: 10})
	for i := range 1000 {
		q.Confirmed([]remote.Drop{{Key: fmt.Sprint(i), Hold: time.Duration(i) * time.Second}})
		q.ConfirmedTags([]string{fmt.Sprint(i)}, i%2 == 0)
		for _, p := range []pending{q.confirmed.young, q.confirmed.old} {
			if p.len() > 11 {
				t.Fatalf("%d drops after %d", p.len(), i)
			}
		}
	}
}
