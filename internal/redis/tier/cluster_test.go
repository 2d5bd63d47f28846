package tier_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/tier"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
)

// node is a stub in a cluster.
type node struct {
	stub
	home layout.Home
	run  string // as INFO reports it
	info int    // how often it was asked
	// epoch is the current epoch in CLUSTER INFO.
	epoch   int
	passing bool
}

func (n *node) Home() *layout.Home { return &n.home }
func (n *node) Settled() bool      { return !n.passing }

// nodes are a cluster in which "MOVED i" leads to node i.
type nodes struct {
	all     []*node
	thought func(key string) int // where a key is thought to be
	// refreshed are the nodes that the topology was asked of again.
	refreshed []tier.Node
}

func (c *nodes) Follow(ctx context.Context, key string, _ bool, f func(context.Context, tier.Node) error) error {
	at := c.thought(key)
	for hop := 0; ; hop++ {
		err := f(ctx, c.all[at])
		var refused *layout.Refusal
		if !errors.As(err, &refused) || hop == 5 {
			return err
		}
		to, ok := strings.CutPrefix(refused.Text, "MOVED ")
		if !ok {
			return err
		}
		i, err := strconv.Atoi(to)
		if err != nil || i < 0 || i >= len(c.all) {
			return refused
		}
		at = i
	}
}

func (c *nodes) Split(n int, key func(int) string) [][]int {
	parts := make([][]int, len(c.all))
	for i := range n {
		at := c.thought(key(i))
		parts[at] = append(parts[at], i)
	}
	var some [][]int
	for _, p := range parts {
		if len(p) > 0 {
			some = append(some, p)
		}
	}
	return some
}

func (c *nodes) Serving(context.Context) (all []tier.Node, err error) {
	for _, n := range c.all {
		all = append(all, n)
	}
	if all == nil {
		err = errEnd
	}
	return all, err
}

func (c *nodes) MaxValue() int { return 1 << 20 }

func (c *nodes) Refresh(n tier.Node) { c.refreshed = append(c.refreshed, n) }

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// newNodes returns a cluster of n nodes with the namespace state on node 0.
// held answers commands about keys.
func newNodes(n int, held func(at int, command string) string) *nodes {
	c := &nodes{thought: func(string) int { return 0 }}
	var mu sync.Mutex // nodes are asked at the same time
	for i := range n {
		d := &node{run: fmt.Sprint("run", i)}
		d.answer = func(command string) string {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case isNamespace(command):
				return stateE
			case command == "INFO server":
				d.info++
				return bulk("run_id:" + d.run + "\r\n")
			case command == "INFO replication":
				return bulk("master_replid:r\r\n")
			case command == "CLUSTER INFO":
				return bulk(fmt.Sprintf("cluster_state:ok\r\ncluster_my_epoch:%d\r\n", d.epoch))
			case command == "TIME":
				return "*2\r\n$1\r\n1\r\n$1\r\n0\r\n"
			}
			return held(i, command)
		}
		c.all = append(c.all, d)
	}
	return c
}

// value returns a value put while its server reported run as its run.
func value(run string) string {
	return "*2\r\n" + bulk("v "+run) + bulk("90000 90000 7 e@"+layout.Digest(run+"r0")+".0.0")
}

func TestValueFromAnotherLifeOfItsServerIsAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stored := "run1"
		c := newNodes(2, func(int, string) string { return value(stored) })
		c.thought = func(key string) int {
			if strings.Contains(key, "word") {
				return 0
			}
			return 1
		}
		tr := tier.NewOnCluster(c, nil).Bind(remote.Space{Name: "n", Schema: 1})
		get := func(want string) {
			t.Helper()
			h, err := tr.Get(t.Context(), []string{"k"})
			if err != nil || string(h[0].Data) != want {
				t.Errorf("got %q, %v; want %q", h[0].Data, err, want)
			}
		}
		get("v run1")
		get("v run1")
		if c.all[1].info != 1 || c.all[0].info != 0 {
			t.Errorf("asked %d and %d times about themselves", c.all[0].info, c.all[1].info)
		}
		stored = "run0" // by another server: the slot has moved
		get("")
		stored = "run1"
		get("v run1")

		c.all[1].run = "run9" // it was restarted, or another one is behind its address
		c.all[1].opened++
		get("")
		stored = "run9"
		get("v run9")

		c.all[1].run = "run10" // unheard
		time.Sleep(layout.Age)
		get("")
		stored = "run10"
		get("v run10")
		c.all[1].run = "run11"
		tr.Recheck()
		get("")

		stored = "run11"
		get("v run11")
		c.all[1].epoch++ // it has taken over a slot
		c.all[1].opened++
		get("")
		c.all[1].epoch--
		c.all[1].opened++
		get("v run11")
		c.all[1].passing = true // as it is reported for one key alone
		get("")
		c.all[1].passing = false
		get("v run11")
	})
}

func TestLeaseNamesTheServerThatGaveIt(t *testing.T) {
	c := newNodes(2, func(int, string) string { return ok })
	c.thought = func(key string) int {
		if strings.Contains(key, "word") {
			return 0
		}
		return 1
	}
	tr := tier.NewOnCluster(c, nil).Bind(remote.Space{Name: "n", Schema: 1})
	want := "e@" + layout.Digest("run1r0") + ".0.0"
	_, l, err := kit.Acquire(t.Context(), tr, "k", time.Minute)
	if err != nil || l.State != want {
		t.Errorf("Acquire: %+v, %v; want the word %s", l, err, want)
	}
	_, ls, err := kit.AcquireMany(t.Context(), tr, []string{"k", "l"}, time.Minute)
	if err != nil || ls[0].State != want || ls[1].State != want {
		t.Errorf("AcquireMany: %+v, %v", ls, err)
	}
	ls, err = tr.Drop(t.Context(), []remote.Drop{{Key: "k", Token: time.Minute}, {Key: "l", Token: time.Minute}})
	if err != nil || ls[0].State != want || ls[1].State != want {
		t.Errorf("Drop: %+v, %v", ls, err)
	}
}

func TestBatchFollowsEachOfItsKeys(t *testing.T) {
	home := map[string]int{}
	key := func(command string) string {
		i := strings.Index(command, "}=")
		key, _, _ := strings.Cut(command[i+2:], " ")
		return key
	}
	c := newNodes(3, func(at int, command string) string {
		if h := home[key(command)]; h != at {
			return fmt.Sprintf("-MOVED %d\r\n", h)
		}
		if strings.HasPrefix(command, "EVAL") {
			return ok
		}
		return value(fmt.Sprint("run", at))
	})
	for name, thought := range map[string]func(string) int{
		"as it is":          func(string) int { return -1 },
		"all on one":        func(string) int { return 0 },
		"all on a third":    func(string) int { return 2 },
		"each on the wrong": func(k string) int { return (home[k] + 1) % 3 },
	} {
		t.Run(name, func(t *testing.T) {
			c.thought = func(k string) int {
				_, k, entry := strings.Cut(k, "}=")
				if !entry {
					return 0
				}
				if at := thought(k); at >= 0 {
					return at
				}
				return home[k]
			}
			tr := tier.NewOnCluster(c, nil).Bind(remote.Space{Name: "n", Schema: 1})
			var keys []string
			var drops []remote.Drop
			for i := range 60 {
				keys = append(keys, fmt.Sprint("k", i))
				home[keys[i]] = i * 7 % 3
				drops = append(drops, remote.Drop{Key: keys[i], Token: time.Minute})
			}
			held, err := tr.Get(t.Context(), keys)
			if err != nil {
				t.Fatal(err)
			}
			for i, h := range held {
				if want := fmt.Sprint("v run", home[keys[i]]); string(h.Data) != want {
					t.Errorf("%s holds %q, want %q", keys[i], h.Data, want)
				}
			}
			at := func(i int, l remote.Lease) bool {
				return l.State == "e@"+layout.Digest(fmt.Sprintf("run%dr0", home[keys[i]]))+".0.0" && l.Token != 0
			}
			_, leases, err := kit.AcquireMany(t.Context(), tr, keys, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			var puts []remote.Put
			for i, l := range leases {
				if !at(i, l) {
					t.Errorf("the lease on %s is %+v", keys[i], l)
				}
				puts = append(puts, remote.Put{Key: keys[i], Lease: l, Left: time.Minute})
			}
			if no, err := tr.Put(t.Context(), puts); err != nil || len(no) != 0 {
				t.Errorf("Put: %v, %v", no, err)
			}
			leases, err = tr.Drop(t.Context(), drops)
			if err != nil {
				t.Fatal(err)
			}
			for i, l := range leases {
				if !at(i, l) {
					t.Errorf("the token on %s is %+v", keys[i], l)
				}
			}
		})
	}
}

// TestLeasesOfOneServerOutliveTheFailureOfAnother requests leases on three
// servers, one of which refuses all commands about keys.
func TestLeasesOfOneServerOutliveTheFailureOfAnother(t *testing.T) {
	for name, down := range map[string]int{"the first": 0, "the second": 1, "the last": 2} {
		c := newNodes(3, func(at int, command string) string {
			if at == down {
				return "-LOADING for the test\r\n"
			}
			return ok
		})
		c.thought = func(key string) int {
			if i, err := strconv.Atoi(key[len(key)-1:]); err == nil {
				return i % 3
			}
			return 0
		}
		tr := tier.NewOnCluster(c, nil).Bind(remote.Space{Name: "n", Schema: 1})
		acquired, err := tr.Acquire(t.Context(), kit.Requests("0", "1", "2", "3", "4", "5"), time.Minute)
		if err != nil || len(acquired) != 6 {
			t.Fatalf("%s: Acquire = %d results, %v; want 6", name, len(acquired), err)
		}
		for i, a := range acquired {
			if failed := i%3 == down; (a.Err != nil) != failed || (a.Lease.Token != 0) == failed {
				t.Errorf("%s: key %d: %+v; want an error: %t", name, i, a, failed)
			}
		}
		acquired, err = tr.Acquire(t.Context(), kit.Requests(strconv.Itoa(down), strconv.Itoa(down+3)), time.Minute)
		if err == nil || acquired != nil {
			t.Errorf("%s: of that server alone: %v, %v; want one error", name, acquired, err)
		}
	}
}

func TestPositionOfAClusterNamesAllServersWithLanes(t *testing.T) {
	made := map[string]string{}
	c := newNodes(3, func(at int, command string) string {
		f := strings.Fields(command)
		var lane int
		fmt.Sscanf(f[1], "strata:{n:%d}lane", &lane)
		if lane%3 != at {
			return fmt.Sprintf("-MOVED %d\r\n", lane%3)
		}
		switch f[0] {
		case "SET":
			made[f[1]] = f[2]
			return "+OK\r\n"
		case "GET":
			if text, ok := made[f[1]]; ok {
				return bulk(text)
			}
			return "$-1\r\n"
		}
		return "-ERR unknown\r\n"
	})
	c.thought = func(key string) int { return len(key) % 2 } // often wrong
	tr := tier.NewOnCluster(c, nil).Bind(remote.Space{Name: "n", Schema: 1})
	position := func() remote.Position {
		t.Helper()
		p, err := tr.Position(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for lane, version := range p.Lanes {
			if got := fmt.Sprintf("%d.%x", version.Count, version.Nonce); got != made[fmt.Sprintf("strata:{n:%d}lane", lane)] {
				t.Fatalf("lane %d has %s", lane, got)
			}
		}
		return p
	}
	first := position()
	if !first.Spread || len(first.Lanes) != 1024 || !strings.HasPrefix(first.Epoch, "e@") {
		t.Errorf("spread %t, %d lanes, epoch %s", first.Spread, len(first.Lanes), first.Epoch)
	}
	if again := position(); again.Epoch != first.Epoch {
		t.Errorf("the epoch changed from %s to %s for nothing", first.Epoch, again.Epoch)
	}
	for i, n := range c.all {
		was := position()
		n.run += "x"
		if is := position(); is.Epoch == was.Epoch {
			t.Errorf("node %d has another life, and the epoch is still %s", i, is.Epoch)
		}
	}
}

// FuzzAnswersOfACluster lets servers answer anything.
func FuzzAnswersOfACluster(f *testing.F) {
	f.Add(stateE, value("run1"), ok)
	f.Add(stateE, "-MOVED 1\r\n", ok)
	f.Add("-MOVED 0\r\n", "-ASK 1\r\n", "-TRYAGAIN\r\n")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		var n atomic.Int64
		next := func(int, string) string {
			i := n.Add(1)
			if i > 3000 {
				return ""
			}
			return []string{a, b, c}[i%3]
		}
		all := newNodes(2, next)
		if len(c)%2 == 0 { // not even itself does it know
			all.all[1].answer = func(command string) string { return next(1, command) }
		}
		all.thought = func(key string) int { return len(key) % 2 }
		tr := tier.NewOnCluster(all, nil).Bind(remote.Space{Name: "n", Schema: 1})
		ctx := context.Background()
		keys := []string{"k", "ll", "mmm"}
		if h, err := tr.Get(ctx, keys); err == nil && len(h) != 3 {
			t.Fatalf("%d results for three keys", len(h))
		}
		if h, l, err := kit.AcquireMany(ctx, tr, keys, time.Minute); err == nil && (len(h) != 3 || len(l) != 3) {
			t.Fatalf("%d, %d results for three keys", len(h), len(l))
		}
		lease := remote.Lease{Token: 7, State: "e.0.0"}
		if no, err := tr.Put(ctx, []remote.Put{{Key: "k", Left: 1, Lease: lease}, {Key: "ll", Left: 1, Lease: lease}}); err == nil && len(no) > 2 {
			t.Fatalf("refused %v", no)
		}
		if d, err := tr.Drop(ctx, []remote.Drop{{Key: "k", Token: 1}, {Key: "ll"}, {Key: "mmm"}}); err == nil && len(d) != 3 {
			t.Fatalf("%d leases", len(d))
		}
		if p, err := tr.Position(ctx); err == nil && (len(p.Lanes) != 1024 || p.Epoch == "") {
			t.Fatalf("position %+v", p)
		}
		_, _ = tr.Probe(ctx)
	})
}
