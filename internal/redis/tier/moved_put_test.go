package tier_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/redis/tier"
	"github.com/strata-cache/strata/remote"
)

// TestBatchOfWhichTheFirstKeyHasMovedIsStoredOnce stores values of one server under rights that can
// be used once. The slot of the first key has moved, or is about to.
func TestBatchOfWhichTheFirstKeyHasMovedIsStoredOnce(t *testing.T) {
	var mu sync.Mutex
	used := map[string]bool{}
	c := newNodes(2, func(at int, command string) string {
		if !strings.HasPrefix(command, "EVAL") {
			return value(fmt.Sprint("run", at))
		}
		_, key, _ := strings.Cut(command, "}=")
		key, _, _ = strings.Cut(key, " ")
		home := 0
		if key == "moved" {
			home = 1
		}
		if home != at {
			return fmt.Sprintf("-MOVED %d\r\n", home)
		}
		mu.Lock()
		defer mu.Unlock()
		if used[key] {
			return ":0\r\n"
		}
		used[key] = true
		return ":1\r\n"
	})
	tr := tier.NewOnCluster(c, nil).Bind(remote.Space{Name: "n", Schema: 1})
	var puts []remote.Put
	for _, key := range []string{"moved", "a", "b", "c"} {
		puts = append(puts, remote.Put{Key: key, Left: time.Minute, Lease: remote.Lease{Token: 7}})
	}
	if refused, err := tr.Put(t.Context(), puts); err != nil || len(refused) != 0 {
		t.Errorf("Put: refused %v, %v, and the servers have stored %v", refused, err, used)
	}
}
