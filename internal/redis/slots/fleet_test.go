package slots_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/redis/slots"
)

var (
	errClosed = errors.New("closed")
	errDown   = errors.New("down")
	errBad    = errors.New("bad answer")
	errCrowd  = errors.New("crowd")
)

// node is a node with nothing but a name.
type node struct {
	addr    string
	replica bool
}

// world is a cluster: the topology, and the answers of its servers.
type world struct {
	mu       sync.Mutex
	topology *slots.Map
	down     map[string]bool          // refuse at once
	bad      map[string]bool          // give an answer that is none
	slow     map[string]time.Duration // answer late
	asked    []string
	at       []time.Duration // since began
	began    time.Time
	closed   []string
	told     []string             // calls of Changed
	stalled  map[string]time.Time // since when
}

// topology parses "a,b c" as two shards that share the slots: the primary a
// with the replica b, and the primary c.
func topology(t *testing.T, text string) *slots.Map {
	t.Helper()
	shards := strings.Fields(text)
	raw := resp.AppendArray(nil, len(shards))
	for i, s := range shards {
		nodes := strings.Split(s, ",")
		raw = resp.AppendArray(raw, 2+len(nodes))
		raw = resp.AppendInt(raw, int64(i*slots.Count/len(shards)))
		raw = resp.AppendInt(raw, int64((i+1)*slots.Count/len(shards)-1))
		for _, n := range nodes {
			raw = resp.AppendInt(resp.AppendString(resp.AppendArray(raw, 2), n), 1)
		}
	}
	v, err := resp.NewReader(strings.NewReader(string(raw)), resp.Limits{}).Read()
	if err != nil {
		t.Fatal(err)
	}
	m, err := slots.Asked{}.ParseSlots(v)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (w *world) ask(ctx context.Context, addr string) (*slots.Map, error) {
	w.mu.Lock()
	w.asked = append(w.asked, addr)
	w.at = append(w.at, time.Since(w.began))
	slow, down, bad := w.slow[addr], w.down[addr], w.bad[addr]
	w.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case down:
		return nil, errDown
	case bad:
		return nil, errBad
	}
	return w.topology, nil
}

// telling takes a bad answer for more telling than none.
func telling(a, b error) error {
	if a == nil || b == errBad {
		return b
	}
	return a
}

// questions returns the servers asked so far, and the times.
func (w *world) questions() (asked []string, at []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked), slices.Clone(w.at)
}

// ended returns the nodes closed so far, in order of their names.
func (w *world) ended() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(slices.Values(w.closed))
}

func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// run runs f in a bubble.
func run(t *testing.T, seeds, text string, f func(t *testing.T, w *world, c *slots.Fleet[*node])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{topology: topology(t, text), down: map[string]bool{}, bad: map[string]bool{}, slow: map[string]time.Duration{}, stalled: map[string]time.Time{}, began: time.Now()}
		c := slots.NewFleet(slots.Config[*node]{
			Seeds: strings.Fields(seeds), Ask: w.ask, Telling: telling, Replicas: true, Timeout: 5 * time.Second, Closed: errClosed, Crowd: errCrowd,
			Open: func(addr string, replica bool) *node { return &node{addr, replica} },
			Close: func(n *node) {
				w.change(func() { w.closed = append(w.closed, fmt.Sprint(n.addr, n.replica)) })
			},
			Changed: func(n *node) { w.change(func() { w.told = append(w.told, n.addr) }) },
			Silent: func(n *node, now time.Time) time.Duration {
				w.mu.Lock()
				defer w.mu.Unlock()
				if since, ok := w.stalled[n.addr]; ok {
					return now.Sub(since)
				}
				return 0
			},
		})
		defer c.Close()
		f(t, w, c)
	})
}

func primary(c *slots.Fleet[*node], slot int) string {
	if n, ok := c.View().Primary(slot); ok {
		return n.addr
	}
	return ""
}

func TestRefreshIsOneForAllAndNotTooOften(t *testing.T) {
	run(t, "a:1", "a b", func(t *testing.T, w *world, c *slots.Fleet[*node]) {
		w.slow["a:1"] = 50 * time.Millisecond
		w.slow["b:1"] = 50 * time.Millisecond
		if c.View() != nil {
			t.Error("there is a view before the first refresh")
		}
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { <-c.Refresh("") })
		}
		wg.Wait()
		if asked, _ := w.questions(); len(asked) != 1 || primary(c, 0) != "a:1" || primary(c, slots.Count-1) != "b:1" {
			t.Fatalf("asked %v, slot 0 at %s", asked, primary(c, 0))
		}
		for range 300 { // three seconds of complaints, and nothing is new
			c.Refresh("")
			time.Sleep(10 * time.Millisecond)
		}
		_, at := w.questions()
		if n := len(at); n < 4 || n > 8 {
			t.Errorf("asked %d times in 3 s: %v", n, at)
		}
		for i := range len(at) - 1 {
			if d := at[i+1] - at[i]; d < 100*time.Millisecond {
				t.Errorf("asked again after %v", d)
			}
		}
		time.Sleep(2 * time.Second)
		_, before := w.questions()
		start := time.Now()
		<-c.Refresh("") // a new reason does not wait for the pause of old ones
		if _, at := w.questions(); len(at) != len(before)+1 || time.Since(start) > 60*time.Millisecond {
			t.Errorf("asked %d times, after %v", len(at)-len(before), time.Since(start))
		}
	})
}

func TestWishForARefreshThatComesTooEarlyIsKept(t *testing.T) {
	run(t, "a:1", "a", func(t *testing.T, w *world, c *slots.Fleet[*node]) {
		<-c.Refresh("")
		w.change(func() { w.topology = topology(t, "b") })
		c.Refresh("b:1")
		time.Sleep(200 * time.Millisecond)
		if asked, _ := w.questions(); primary(c, 0) != "b:1" || fmt.Sprint(asked) != "[a:1 b:1]" {
			t.Errorf("slot 0 at %s, asked %v", primary(c, 0), asked)
		}
	})
}

func TestServerThatKeepsSilentCostsAFractionOfASecond(t *testing.T) {
	run(t, "x:1 y:1 z:1 a:1", "a", func(t *testing.T, w *world, c *slots.Fleet[*node]) {
		w.slow["x:1"], w.slow["y:1"] = time.Hour, time.Hour
		w.down["z:1"] = true
		start := time.Now()
		<-c.Refresh("")
		if took := time.Since(start); took != 400*time.Millisecond || c.Err() != nil || primary(c, 0) != "a:1" {
			t.Errorf("after %v: %v", took, c.Err())
		}
	})
	run(t, "x:1 y:1", "a", func(t *testing.T, w *world, c *slots.Fleet[*node]) {
		w.slow["x:1"], w.slow["y:1"] = time.Hour, time.Hour
		start := time.Now()
		<-c.Refresh("")
		if took := time.Since(start); took != 5*time.Second || !errors.Is(c.Err(), context.DeadlineExceeded) || c.View() != nil {
			t.Errorf("after %v: %v", took, c.Err())
		}
	})
}

func TestOldViewStaysWhileNoServerAnswers(t *testing.T) {
	run(t, "a:1", "a b", func(t *testing.T, w *world, c *slots.Fleet[*node]) {
		<-c.Refresh("")
		w.change(func() { w.down["a:1"], w.down["b:1"] = true, true })
		time.Sleep(time.Second)
		<-c.Refresh("")
		if !errors.Is(c.Err(), errDown) || primary(c, 0) != "a:1" {
			t.Errorf("%v, slot 0 at %s", c.Err(), primary(c, 0))
		}
	})
}

// TestErrorOfARefreshDoesNotDependOnTheOrderOfServers: a call ends by the bad answer of one
// server, and is repeated if none answers.
func TestErrorOfARefreshDoesNotDependOnTheOrderOfServers(t *testing.T) {
	for _, seeds := range []string{"bad:1 down:1 gone:1", "down:1 bad:1 gone:1", "down:1 gone:1 bad:1"} {
		run(t, seeds, "a", func(t *testing.T, w *world, c *slots.Fleet[*node]) {
			w.change(func() { w.down["down:1"], w.down["gone:1"], w.bad["bad:1"] = true, true, true })
			for range 8 { // after the first failure the seeds are asked in any order
				<-c.Refresh("")
				if c.Err() != errBad {
					t.Errorf("of %s: %v", seeds, c.Err())
				}
			}
		})
	}
}

func TestNodeThatLostItsRoleIsLetGo(t *testing.T) {
	run(t, "a:1", "a,b c", func(t *testing.T, w *world, c *slots.Fleet[*node]) {
		<-c.Refresh("")
		a, _ := c.View().Primary(0)
		other, _ := c.View().Primary(slots.Count - 1)
		read, _ := c.View().Replica(0)
		if read == nil || read.addr != "b:1" || !read.replica {
			t.Fatalf("the replica is %+v", read)
		}
		if _, ok := c.View().Replica(slots.Count - 1); ok {
			t.Error("a replica where there is none")
		}
		w.change(func() { w.topology = topology(t, "b,a c") })
		time.Sleep(time.Second)
		<-c.Refresh("")
		if b, _ := c.View().Primary(0); b.addr != "b:1" || b == read {
			t.Errorf("the new primary is %+v", b)
		}
		if n, _ := c.View().Primary(slots.Count - 1); n != other {
			t.Error("a node that has kept its role was replaced")
		}
		time.Sleep(500 * time.Millisecond)
		if ended := w.ended(); len(ended) != 0 {
			t.Errorf("%v closed under their calls", ended)
		}
		time.Sleep(time.Second)
		if ended := fmt.Sprint(w.ended()); ended != "[a:1false b:1true]" {
			t.Errorf("closed: %v", ended)
		}
		w.change(func() { w.topology = topology(t, "a,b c") })
		time.Sleep(time.Second)
		<-c.Refresh("")
		if n, _ := c.View().Primary(0); n.addr != "a:1" || n == a {
			t.Error("a node was taken back into a role it had lost")
		}
	})
}

func TestNodesAreToldThatTheTopologyHasChanged(t *testing.T) {
	run(t, "a:1", "a b", func(t *testing.T, w *world, c *slots.Fleet[*node]) {
		<-c.Refresh("")
		time.Sleep(time.Second)
		<-c.Refresh("")
		w.mu.Lock()
		if len(w.told) != 0 {
			t.Errorf("%v were told of no change", w.told)
		}
		w.topology = topology(t, "b c a")
		w.mu.Unlock()
		time.Sleep(time.Second)
		<-c.Refresh("")
		w.mu.Lock()
		defer w.mu.Unlock()
		if slices.Sort(w.told); fmt.Sprint(w.told) != "[a:1 b:1]" {
			t.Errorf("%v were told", w.told)
		}
	})
}

func TestStalledNodeHasTheTopologyAskedFor(t *testing.T) {
	run(t, "a:1", "a b", func(t *testing.T, w *world, c *slots.Fleet[*node]) {
		<-c.Refresh("")
		time.Sleep(10 * time.Second)
		if _, at := w.questions(); len(at) != 1 {
			t.Errorf("asked %v without a reason", at)
		}
		w.change(func() { w.stalled["a:1"] = time.Now() })
		time.Sleep(4 * time.Second)
		if _, at := w.questions(); len(at) < 3 || len(at) > 5 {
			t.Errorf("asked %v", at)
		}
		time.Sleep(time.Minute)
		if _, at := w.questions(); len(at) > 20 {
			t.Errorf("asked %d times in a minute of silence", len(at))
		}
		w.change(func() { clear(w.stalled) })
		time.Sleep(2 * time.Minute)
		if _, at := w.questions(); len(at) < 12 || len(at) > 25 {
			t.Errorf("asked %d times, two quiet minutes included", len(at))
		}
	})
}

func TestNamesOfServersAreBounded(t *testing.T) {
	run(t, "a:1", "a", func(t *testing.T, _ *world, c *slots.Fleet[*node]) {
		var err error
		n := 0
		for ; err == nil && n < 100_000; n++ {
			_, err = c.At(fmt.Sprint("h:", n))
		}
		if !errors.Is(err, errCrowd) || n > 10_000 {
			t.Errorf("%d nodes, %v", n, err)
		}
		<-c.Refresh("")
		if n := len(c.Nodes()); n != 1 {
			t.Errorf("%d nodes are kept", n)
		}
	})
}

func TestCloseEndsARefreshAndAllNodes(t *testing.T) {
	run(t, "a:1", "a,b", func(t *testing.T, w *world, c *slots.Fleet[*node]) {
		<-c.Refresh("")
		w.change(func() {
			w.slow["a:1"], w.slow["b:1"] = time.Hour, time.Hour
			w.topology = topology(t, "b,a")
		})
		time.Sleep(time.Second)
		done := c.Refresh("")
		start := time.Now()
		c.Close()
		<-done
		if time.Since(start) != 0 || len(w.ended()) != 2 || c.Err() != errClosed || c.Refresh("") != nil {
			t.Errorf("after %v: closed %v, %v", time.Since(start), w.ended(), c.Err())
		}
		if _, err := c.At("a:1"); err != errClosed {
			t.Errorf("At: %v", err)
		}
	})
}

// TestSeedsLeadToOtherServersWhenAllKnownOnesAreSilent: more of them than a question has time for.
func TestSeedsLeadToOtherServersWhenAllKnownOnesAreSilent(t *testing.T) {
	var old []string
	for i := range 30 {
		old = append(old, fmt.Sprint("o", i))
	}
	run(t, "seed:1", strings.Join(old, " "), func(t *testing.T, w *world, c *slots.Fleet[*node]) {
		<-c.Refresh("")
		w.change(func() {
			for _, name := range old {
				w.slow[name+":1"] = time.Hour
			}
			w.slow["seed:1"] = time.Millisecond
			w.topology = topology(t, "new")
		})
		for range 2 {
			time.Sleep(time.Minute) // in the bubble
			<-c.Refresh("")
		}
		if c.Err() != nil || primary(c, 0) != "new:1" {
			t.Errorf("%v, slot 0 at %s", c.Err(), primary(c, 0))
		}
	})
}
