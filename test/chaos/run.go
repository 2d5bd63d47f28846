//go:build linux

package chaos

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/checker"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/test/internal/cluster"
)

// Options are the settings of a run.
type Options struct {
	// For is the time for which faults are injected. The end of a run takes
	// some seconds more.
	For time.Duration
	// Seed decides which faults come when, and which calls the clients make.
	Seed uint64
	// Workers is the number of processes, Rate the calls that each makes in a
	// second.
	Workers int
	Rate    float64
	// Every is the mean time between faults; zero means none.
	Every time.Duration
	// Only names the kinds of faults to draw, separated by commas; empty means all.
	Only string
	// Strict lets instances serve nothing from L1 while their bus is silent.
	Strict bool
	// Sentinel lets instances find Redis by sentinels, which fail over by
	// themselves. Then no faults are about connections.
	Sentinel bool
	// Cluster lets instances use a Redis Cluster, of three primaries with a replica each. Then
	// no faults are about connections.
	Cluster bool
	// Repoint lets the addresses of Redis lead to the replica, which is promoted, while the
	// former primary lives on. Some connections stay there.
	Repoint bool
	// Memcached is the number of servers of memcached that are L2; zero makes Redis L2.
	Memcached int
	// Alone runs without a bus: Memory.TTL then bounds the life of entries in L1.
	Alone bool
	// Break names the way in which the cache is broken; see [cluster.Config].
	Break string
	// Log gets a line for each fault and each problem. It may be nil.
	Log io.Writer
}

// The bounds that the judge applies. docs/promises.md has the promises under
// Agreement; times are upper bounds on a machine that has other things to do.
const (
	// delay is the longest time that a drop takes to reach a connected
	// instance.
	delay = time.Second
	// rejoin is the time that an instance may take, after the end of a fault,
	// until it is connected again: the longest pause before it dials, and the
	// time for which it leaves L2 alone.
	rejoin = 3 * time.Second
	// notice is the time that an instance may take to find its bus silent.
	notice = 4 * time.Second
	// unconfirmed is the time for which it may then serve its entries.
	unconfirmed = 30 * time.Second
	// slow is the longest time between a read of L2 and the storing of its value in L1.
	slow = 2 * time.Second
	// retry is the time for which a failed drop may be pending, a fault of the
	// longest kind included.
	retry = 25 * time.Second
	// settle is the time after the end of faults within which every failed drop
	// must have succeeded.
	settle = 16 * time.Second

	lease    = 2 * time.Second
	longTTL  = time.Hour
	shortTTL = 2 * time.Second
	// early is the time by which lives and leases may end earlier in memcached,
	// which counts whole seconds.
	early = 2 * time.Second
	// aloneTTL is Memory.TTL without a bus. countsAge is the time for which an instance
	// may not know a drop of everything then.
	aloneTTL  = 2 * time.Second
	countsAge = time.Second
	clients   = 8 // for each 500 calls a second
	keys      = 200
)

// run is a cluster and the record of its faults.
type run struct {
	t      testing.TB
	o      Options
	rand   *rand.Rand
	clock  cluster.Clock
	dir    string
	origin *cluster.Origin

	primary, replica *servers.Redis
	repointed        checker.Time // when the primary that lives on was replaced; 0 if none lives on
	replication      *cluster.Proxy
	watched          *servers.Watched // with sentinels; then there are no proxies
	nodes            *servers.Cluster // of a cluster; then there are none either
	memcached        []*servers.Memcached

	slots    []*slot
	lives    []*life
	windows  []window
	losses   []checker.Loss
	problems []string // faults that the history does not show

	mu     sync.Mutex // guards below
	stalls []cluster.Span
}

// slot is the place of a worker: its proxies stay when it is replaced.
type slot struct {
	index int
	tier  []*cluster.Proxy // of each server
	bus   *cluster.Proxy
	p     *cluster.Process
	life  *life
}

// life is the life of one worker, from its start to its end.
type life struct {
	slot, instance int
	born           checker.Time
	died           checker.Time // Never if it lived to the end
	path           string
}

// Run runs a cluster through faults and returns the report.
func Run(t testing.TB, o Options) *Report {
	t.Helper()
	r := &run{t: t, o: o, rand: rand.New(rand.NewPCG(o.Seed, 0)), clock: cluster.NewClock(), dir: t.TempDir()}
	r.start()
	defer r.watch()()
	r.logf("seed %d: %d workers, %.0f calls a second each, a fault every %v for %v", o.Seed, o.Workers, o.Rate, o.Every, o.For)
	for _, s := range r.slots {
		r.do(s, cluster.Command{Op: "start"})
	}
	r.shake()
	stats := r.finish()
	return r.report(stats)
}

// watch notes the times in which this process, with the proxies and the origin
// in it, does not run. They count as faults. It ends when stop is called.
func (r *run) watch() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for stalls := cluster.Stalls(r.clock); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if s, yes := stalls(); yes {
				r.mu.Lock()
				r.stalls = append(r.stalls, s)
				r.mu.Unlock()
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

func (r *run) logf(format string, args ...any) {
	if r.o.Log != nil {
		fmt.Fprintf(r.o.Log, "%8.2fs  %s\n", time.Duration(r.clock.Now()).Seconds(), fmt.Sprintf(format, args...))
	}
}

func (r *run) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// start starts everything but the clients.
func (r *run) start() {
	var err error
	r.origin, err = cluster.StartOrigin(r.dir, r.clock)
	r.must(err)
	r.t.Cleanup(r.origin.Close)
	r.must(os.Mkdir(r.snapshots(), 0o700))
	switch {
	case r.o.Sentinel:
		r.startWatched()
		return
	case r.o.Cluster:
		r.startNodes()
		return
	}
	r.primary = servers.StartRedis(r.t, "--repl-diskless-sync-delay", "0")
	r.replica = servers.StartRedis(r.t, "--repl-diskless-sync-delay", "0")
	r.replication = r.proxy(r.primary.Addr)
	r.follow(r.replica)
	// With its first replica a server begins another history: L2 becomes absent.
	for end := time.Now().Add(20 * time.Second); !r.replicates(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatal("the replica is not up to date within 20 seconds")
		}
	}
	for range r.o.Memcached {
		r.memcached = append(r.memcached, servers.StartMemcached(r.t))
	}
	for i := range r.o.Workers {
		s := &slot{index: i, bus: r.proxy(r.primary.Addr)}
		for _, m := range r.memcached {
			s.tier = append(s.tier, r.proxy(m.Addr))
		}
		if len(s.tier) == 0 {
			s.tier = append(s.tier, r.proxy(r.primary.Addr))
		}
		r.slots = append(r.slots, s)
		r.birth(s)
	}
}

func (r *run) proxy(to string) *cluster.Proxy {
	p, err := cluster.StartProxy(to)
	r.must(err)
	r.t.Cleanup(p.Close)
	return p
}

// birth starts a worker in a slot.
func (r *run) birth(s *slot) {
	n := len(r.lives)
	s.life = &life{slot: s.index, instance: n, died: checker.Never, path: filepath.Join(r.dir, fmt.Sprintf("instance%d", n))}
	r.lives = append(r.lives, s.life)
	var err error
	s.life.born = r.clock.Now()
	c := cluster.Config{
		Instance: n, Clock: r.clock, Origin: r.origin.Path, Records: s.life.path, Break: r.o.Break, Strict: r.o.Strict,
		Service: services[r.o.Seed%2], Neighbour: services[2], Snapshots: r.snapshots(),
		TTL: longTTL, Short: shortTTL, Lease: lease, Clients: max(1, int(r.o.Rate)/500) * clients, Keys: r.keys(), Rate: r.o.Rate, Seed: r.o.Seed,
	}
	r.ways(s, &c)
	r.overMemcached(s, &c)
	s.p, err = cluster.Start(c)
	r.must(err)
	r.t.Cleanup(s.p.Kill)
}

// services are the names of services. The cache of a run has one of the first
// two, and the other cache in each process the third.
var services = [3]string{"", "first", "second"} // read-only

// snapshots returns the directory of the files that instances save.
func (r *run) snapshots() string { return filepath.Join(r.dir, "snapshots") }

// keys returns the number of keys. With changes of primary they are many: a value that
// such a change leaves behind must be read before its key is dropped once more.
func (r *run) keys() int {
	if r.o.Sentinel || r.o.Repoint || r.o.Cluster {
		return 15 * keys
	}
	return keys
}

// ways tells a worker how it reaches Redis.
func (r *run) ways(s *slot, c *cluster.Config) {
	switch {
	case r.watched != nil:
		c.Sentinels = r.watched.Sentinels()
	case r.nodes != nil:
		c.Nodes = addresses(r.nodes)
	default:
		c.Tier, c.Bus = s.tier[0].Addr, s.bus.Addr
	}
}

// do lets a worker carry out a command.
func (r *run) do(s *slot, c cluster.Command) cluster.Answer {
	a, err := s.p.Do(c)
	if err != nil {
		r.problem("instance %d: %v", s.life.instance, err)
	}
	return a
}

func (r *run) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.logf("PROBLEM: %s", text)
	r.problems = append(r.problems, text)
}

// admin sends a command to a server itself.
func (r *run) admin(to *servers.Redis, args ...any) (string, error) {
	c, err := redis.New(redis.Options{Network: "unix", Addr: to.Socket})
	if err != nil {
		return "", err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return c.Do(ctx, args...).String()
}

// follow makes a server a replica of the primary, through the proxy for that.
func (r *run) follow(replica *servers.Redis) {
	r.replication.Aim(r.primary.Addr)
	r.replication.Reset()
	host, port, _ := strings.Cut(r.replication.Addr, ":")
	_, err := r.admin(replica, "REPLICAOF", host, port)
	r.must(err)
}

// replicates reports whether the replica is up to date.
func (r *run) replicates() bool {
	text, err := r.admin(r.replica, "INFO", "replication")
	return err == nil && strings.Contains(text, "master_link_status:up")
}

// finish ends the clients, waits until failed drops have succeeded, and asks
// every instance for every key.
func (r *run) finish() []cluster.Answer {
	for _, s := range r.slots {
		r.do(s, cluster.Command{Op: "stop"})
	}
	r.logf("faults and clients have ended")
	for _, s := range r.slots {
		r.do(s, cluster.Command{Op: "settle", Within: settle})
	}
	r.logf("nothing is pending")
	// The last drops must have reached all instances before these are asked.
	<-time.After(delay + r.unheard())
	var stats []cluster.Answer
	for _, s := range r.slots {
		r.do(s, cluster.Command{Op: "final"})
		stats = append(stats, r.do(s, cluster.Command{Op: "stats"}))
	}
	for _, s := range r.slots {
		if s.p.Crashed() {
			r.problem("instance %d has crashed", s.life.instance)
			continue
		}
		if a := r.do(s, cluster.Command{Op: "close"}); a.Goroutines > 1 {
			r.problem("instance %d: %d goroutines are left after Close", s.life.instance, a.Goroutines)
		}
	}
	return stats
}
