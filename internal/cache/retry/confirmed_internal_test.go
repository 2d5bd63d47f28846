package retry

import (
	"fmt"
	"testing"
	"testing/synctest"
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

// TestConfirmedDropIsRememberedAlsoAsAPartOfEverything: a snapshot that was made before the drop must not
// bring the key back, and one that is read later may.
func TestConfirmedDropIsRememberedAlsoAsAPartOfEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{MaxKeys: 4})
		begun := time.Now()
		time.Sleep(time.Second) // in the bubble
		for i := range 20 {
			q.Confirmed([]remote.Drop{{Key: fmt.Sprint(i)}})
			for n := range i + 1 {
				if !q.Remembers(fmt.Sprint(n), nil, begun) {
					t.Errorf("drop %d is forgotten after %d", n, i)
				}
			}
		}
		time.Sleep(time.Second) // in the bubble
		if q.Remembers("another", nil, time.Now()) {
			t.Error("a drop of everything before counts for ever")
		}
	})
}
