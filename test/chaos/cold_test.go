//go:build linux

package chaos_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/test/internal/cluster"
)

// trio is three processes on one Redis and one origin, without clients of
// their own.
type trio struct {
	t       *testing.T
	origin  *cluster.Origin
	workers []*cluster.Process
}

const shortLease = 500 * time.Millisecond

func startTrio(t *testing.T, lease time.Duration) *trio {
	t.Helper()
	if testing.Short() {
		t.Skip("-short")
	}
	dir, clock, r := t.TempDir(), cluster.NewClock(), servers.StartRedis(t)
	o, err := cluster.StartOrigin(dir, clock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	c := &trio{t: t, origin: o}
	for i := range 3 {
		p, err := cluster.Start(cluster.Config{
			Instance: i, Clock: clock, Origin: o.Path, Records: filepath.Join(dir, fmt.Sprint(i)), Tier: r.Addr, Bus: r.Addr,
			TTL: time.Hour, Short: time.Hour, Lease: lease, Keys: 1000,
			Timeout: 20 * time.Second, // so that a busy machine does not look like a dead server
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		c.workers = append(c.workers, p)
		c.do(i, cluster.Command{Op: "settle", Within: 20 * time.Second})
	}
	return c
}

func (c *trio) do(i int, cmd cluster.Command) cluster.Answer {
	c.t.Helper()
	a, err := c.workers[i].Do(cmd)
	if err != nil {
		c.t.Error(err)
	}
	return a
}

// start lets a worker carry out a command. The answer comes over the channel.
func (c *trio) start(i int, cmd cluster.Command) chan cluster.Answer {
	answer := make(chan cluster.Answer, 1)
	go func() {
		a, err := c.workers[i].Do(cmd)
		if err != nil {
			a.Error = err.Error()
		}
		answer <- a
	}()
	return answer
}

func (c *trio) arrives(h *cluster.Hold) {
	c.t.Helper()
	c.t.Cleanup(h.Release)
	select {
	case <-h.Arrived:
	case <-time.After(20 * time.Second):
		c.t.Fatal("the origin was not asked")
	}
}

func (c *trio) loads(key string, want int) {
	c.t.Helper()
	if n := c.origin.Reads(key); n != want {
		c.t.Errorf("%d loads of %s; want %d", n, key, want)
	}
}

// got fails the test unless all callers got value.
func (c *trio) got(a cluster.Answer, value string, callers int) {
	c.t.Helper()
	if want := map[string]int{value: callers}; !maps.Equal(a.Values, want) || a.Error != "" {
		c.t.Errorf("callers got %v (%s); want %v", a.Values, a.Error, want)
	}
}

func TestThreeProcessesOfTenThousandCallersLoadAColdKeyOnce(t *testing.T) {
	c := startTrio(t, 20*time.Second) // a busy machine may need longer than the short one for the load
	const takes = 200 * time.Millisecond
	var answers []chan cluster.Answer
	for i := range c.workers {
		answers = append(answers, c.start(i, cluster.Command{Op: "read", Key: "cold", Callers: callers, Takes: takes}))
	}
	var slowest []time.Duration
	for _, answer := range answers {
		a := <-answer
		c.got(a, "cold:0", callers)
		slowest = append(slowest, a.Slowest)
	}
	c.loads("cold", 1)
	t.Logf("%d callers in each of 3 processes; the load took %v, the slowest caller of each waited %v", callers, takes, slowest)
}

func TestHolderThatIsKilledMidLoadCostsOneMoreLoad(t *testing.T) {
	c := startTrio(t, shortLease)
	hold := c.origin.Hold("cold")
	first := c.start(0, cluster.Command{Op: "read", Key: "cold", Callers: callers})
	c.arrives(hold)
	others := []chan cluster.Answer{
		c.start(1, cluster.Command{Op: "read", Key: "cold", Callers: callers}),
		c.start(2, cluster.Command{Op: "read", Key: "cold", Callers: callers}),
	}
	waits(t, c)
	c.loads("cold", 1)
	c.workers[0].Kill()
	killed := time.Now()
	if a := <-first; a.Error == "" {
		t.Errorf("a process that was killed answered %v", a.Values)
	}
	for _, answer := range others {
		c.got(<-answer, "cold:0", callers)
	}
	c.loads("cold", 2)
	t.Logf("the others had the value %v after the holder of a lease of %v was killed", time.Since(killed).Round(time.Millisecond), shortLease)
}

// waits waits for longer than a lease lasts without renewal. Meanwhile the
// second and third process ask for a key on which the first one has a lease.
func waits(t *testing.T, c *trio) {
	t.Helper()
	<-time.After(3 * shortLease / 2)
	if c.workers[0].Crashed() {
		t.Fatal("the holder has crashed")
	}
}

func TestLateHolderStoresNothing(t *testing.T) {
	c := startTrio(t, shortLease)
	hold := c.origin.Hold("cold")
	late := c.start(0, cluster.Command{Op: "read", Key: "cold", Callers: 1})
	c.arrives(hold) // its answer is version 0
	c.workers[0].Stop()
	t.Cleanup(c.workers[0].Continue)
	c.origin.Write("cold") // no Invalidate: nothing but the lease keeps version 0 out

	c.got(c.do(1, cluster.Command{Op: "read", Key: "cold", Callers: 1}), "cold:1", 1)
	c.loads("cold", 2)
	hold.Release()
	c.workers[0].Continue()
	if a := <-late; !slices.Equal(slices.Collect(maps.Keys(a.Values)), []string{"cold:0"}) {
		t.Errorf("the late holder's own caller got %v; want what it has loaded", a.Values)
	}
	if s := c.do(0, cluster.Command{Op: "stats"}).Stats; s == nil || s.RemoteRefused != 1 {
		t.Error("the late holder does not say that L2 has refused its value")
	}
	for _, i := range []int{2, 1, 0} {
		c.got(c.do(i, cluster.Command{Op: "read", Key: "cold", Callers: 1}), "cold:1", 1)
	}
	c.loads("cold", 2)
}
