package tier_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/redis/tier"
	"github.com/strata-cache/strata/remote"
)

// counting returns a cluster of nodes that report their changes: by a script
// or, if plain is set, by INFO.
func counting(n int, plain bool, counts []int, epochs []int) *nodes {
	return newNodes(n, func(at int, command string) string {
		name, _, _ := strings.Cut(command, " ")
		switch {
		case counts[at] < 0:
			return bulk("")
		case command == "INFO persistence":
			return bulk(fmt.Sprintf("rdb_changes_since_last_save:%d\r\nrdb_last_save_time:1700000000\r\n", counts[at]))
		case plain && name == "EVALSHA":
			return "-NOPERM this user has no permissions to run the 'evalsha' command\r\n"
		case name == "EVALSHA" && strings.HasSuffix(command, " 0 1"):
			return bulk(fmt.Sprintf("%d 1700000000  ok %d %d", counts[at], epochs[at], epochs[at]))
		}
		return "-ERR unknown\r\n"
	})
}

// TestChangesOfAClusterAreThoseOfAllServers has one server after the other change
// something, or become another one.
func TestChangesOfAClusterAreThoseOfAllServers(t *testing.T) {
	for _, plain := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			counts, epochs := []int{5, 5, 5}, []int{1, 2, 3}
			c := counting(3, plain, counts, epochs)
			tr := tier.NewOnCluster(c, nil)
			ask := func() string {
				t.Helper()
				time.Sleep(remote.ChangesAge)
				text, err := tr.Bind(remote.Space{Name: "n"}).Changes(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			before := ask()
			differs := func(what string) {
				t.Helper()
				after := ask()
				if after == before || after == "" {
					t.Errorf("plain %v, %s: %q before and %q after", plain, what, before, after)
				}
				before = after
			}
			if again := ask(); again != before || again == "" {
				t.Errorf("plain %v, nothing has changed: %q, then %q", plain, before, again)
			}
			for i, n := range c.all {
				counts[i]++
				differs(fmt.Sprintf("a write on node %d", i))
				epochs[i]++
				n.epoch++
				differs(fmt.Sprintf("another epoch of node %d", i))
				n.opened++
				differs(fmt.Sprintf("a new connection to node %d", i))
			}
			tr = tier.NewOnCluster(&nodes{all: c.all[:2], thought: c.thought}, nil)
			differs("a server that serves nothing any more")
			counts[1] = -1
			if text := ask(); text != "" {
				t.Errorf("plain %v, a server does not tell: %q", plain, text)
			}
			c.all[1].answer = func(string) string { return "" }
			time.Sleep(remote.ChangesAge)
			if text, err := tr.Changes(t.Context()); err == nil {
				t.Errorf("plain %v, a server is gone: %q", plain, text)
			}
			if text, err := tier.NewOnCluster(&nodes{}, nil).Changes(t.Context()); err == nil {
				t.Errorf("plain %v, no server is known: %q", plain, text)
			}
		})
	}
}

// TestVersionsOfASlotOnItsWaySettleNothing: the server to which a slot moves need not
// be known to serve anything, so that Changes does not ask it.
func TestVersionsOfASlotOnItsWaySettleNothing(t *testing.T) {
	for _, at := range []string{"word", "lane"} {
		synctest.Test(t, func(t *testing.T) {
			c := newNodes(2, func(_ int, command string) string {
				switch {
				case strings.HasSuffix(command, " 0 1"):
					return bulk("5 1700000000  ok 1 1")
				case strings.HasPrefix(command, "GET"):
					return bulk("1.a")
				}
				return "-ERR unknown\r\n"
			})
			c.thought = func(key string) int {
				if strings.Contains(key, at) {
					return 1
				}
				return 0
			}
			tr := tier.NewOnCluster(c, nil).Bind(remote.Space{Name: "n"})
			ask := func() string {
				t.Helper()
				time.Sleep(remote.ChangesAge)
				text, err := tr.Changes(t.Context())
				if err != nil || text == "" {
					t.Fatalf("%q, %v", text, err)
				}
				if _, err := tr.Position(t.Context()); err != nil {
					t.Fatal(err)
				}
				return text
			}
			if a, b := ask(), ask(); a != b {
				t.Errorf("%s: nothing has changed: %q, then %q", at, a, b)
			}
			c.all[1].passing = true
			ask()
			if a, b := ask(), ask(); a == b {
				t.Errorf("%s is on its way, and %q is where it stands", at, a)
			}
			c.all[1].passing = false
			ask()
			if a, b := ask(), ask(); a != b {
				t.Errorf("%s has arrived: %q, then %q", at, a, b)
			}
		})
	}
}

// TestNodeThatIsBehindItsClusterIsNoticed: a node that has lost its place answers as
// before until it hears of the loss. The others know a newer configuration.
func TestNodeThatIsBehindItsClusterIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := []int{5, 5, 5}
		own, current := []int{1, 2, 3}, []int{3, 3, 3}
		c := newNodes(3, func(at int, command string) string {
			if strings.HasSuffix(command, " 0 1") {
				return bulk(fmt.Sprintf("%d 1700000000 0 ok %d %d", counts[at], current[at], own[at]))
			}
			return "-ERR unknown\r\n"
		})
		tr := tier.NewOnCluster(c, nil)
		ask := func() {
			t.Helper()
			time.Sleep(remote.ChangesAge)
			if text, err := tr.Changes(t.Context()); text == "" || err != nil {
				t.Fatalf("%q, %v", text, err)
			}
		}
		if ask(); len(c.refreshed) != 0 {
			t.Error("the topology was asked for although all nodes are at the same epoch")
		}
		current[0], current[2] = 4, 4
		if ask(); len(c.refreshed) != 1 || c.refreshed[0] != tier.Node(c.all[0]) {
			t.Errorf("asked %d nodes for the topology; want one that has heard of the newest", len(c.refreshed))
		}
	})
}
