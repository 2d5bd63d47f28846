package tier_test

import (
	"fmt"
	"strconv"
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

// TestBatchOfWhichTheFirstKeyHasMovedToADeadServer has the slot of the first key of a server's part
// moved to a dead server.
func TestBatchOfWhichTheFirstKeyHasMovedToADeadServer(t *testing.T) {
	keys := []string{"moved", "0", "1", "2", "3", "4", "5"}
	for down := range 3 {
		tr := failing(down, (down+1)%3, true)
		what := "down " + strconv.Itoa(down) + ", "
		_, err := tr.Get(t.Context(), keys)
		partly(t, what+"Get", err, keys, down)
		puts := make([]remote.Put, len(keys))
		drops := make([]remote.Drop, len(keys))
		requests := make([]remote.Request, len(keys))
		for i, k := range keys {
			puts[i] = remote.Put{Key: k, Left: time.Minute, Lease: remote.Lease{Token: 7}}
			drops[i] = remote.Drop{Key: k, Token: time.Minute}
			requests[i] = remote.Request{Key: k}
		}
		_, err = tr.Put(t.Context(), puts)
		partly(t, what+"Put", err, keys, down)
		_, err = tr.Drop(t.Context(), drops)
		partly(t, what+"Drop", err, keys, down)
		acquired, err := tr.Acquire(t.Context(), requests, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range acquired {
			if dead := keys[i] == "moved" || int(keys[i][0]-'0')%3 == down; dead != (a.Err != nil) {
				t.Errorf("%sAcquire: key %s: %v", what, keys[i], a.Err)
			}
		}
	}
}
