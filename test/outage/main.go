//go:build linux

// Command outage shows the cost of one failing server of three memcached for callers of the
// keys of the two others. Two instances of a cache read, set and invalidate keys; then each
// server in turn is paused, killed and slowed down.
//
//	go run ./outage -for 6s
//
// A row is about the keys of healthy servers: the share of calls that L2 has confirmed, the 99th
// percentile of their durations, as a factor of the percentile without a fault, and the longest
// duration. It ends with the servers that the cache names in Stats.ServersLeftAlone. The command
// ends with status 1 if less than 99 % are confirmed, if the percentile is more than doubled, or if
// the cache names another server than the one at fault.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
	"github.com/strata-cache/strata/test/internal/cluster"
)

func main() {
	each := flag.Duration("for", 6*time.Second, "how long each fault lasts")
	rate := flag.Int("rate", 400, "calls a second of each instance")
	flag.Parse()
	r := &run{rate: *rate}
	err := r.start()
	if err == nil {
		err = r.all(*each)
	}
	r.stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	keys    = 600
	callers = 8 // of each instance
	slow    = 300 * time.Millisecond
)

// run is a fleet, and the instances that use it.
type run struct {
	rate      int
	members   []*servers.MemcachedServer
	lines     []*cluster.Proxy
	clients   []*memcached.Client
	instances []*strata.Cache[string, string]
	tier      remote.Fleet // as an instance has it
	failed    bool
}

func (r *run) start() error {
	var addrs []string
	for range 3 {
		m, err := servers.RunMemcached()
		if err != nil {
			return err
		}
		r.members = append(r.members, m)
		p, err := cluster.StartProxy(m.Addr)
		if err != nil {
			return err
		}
		r.lines, addrs = append(r.lines, p), append(addrs, p.Addr)
	}
	bus := stratatest.NewBus()
	for range 2 {
		c, err := memcached.New(memcached.Options{Servers: addrs})
		if err != nil {
			return err
		}
		r.clients = append(r.clients, c)
		one, err := strata.New(strata.Options[string, string]{
			Name: "outage", TTL: time.Hour,
			Loader: func(context.Context, string) (string, error) { return "value", nil },
			Memory: strata.Memory[string, string]{Off: true},
			Remote: strata.Remote[string, string]{Tier: memcached.NewTier(c), Bus: bus.Connect()},
		})
		if err != nil {
			return err
		}
		r.instances = append(r.instances, one)
	}
	r.tier = memcached.NewTier(r.clients[0]).Bind(remote.Space{Name: "outage"}).(*memcached.Tier)
	for i := range keys {
		if err := r.instances[0].Set(context.Background(), name(i), "value"); err != nil {
			return err
		}
	}
	return nil
}

func name(i int) string { return fmt.Sprint("key", i) }

func (r *run) stop() {
	for i, one := range r.instances {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = one.Close(ctx)
		cancel()
		_ = r.clients[i].Close()
	}
	for i, m := range r.members {
		m.Close()
		r.lines[i].Close()
	}
}

// fault is a way for a server to fail, and the end of that.
type fault struct {
	name       string
	begin, end func(m *servers.MemcachedServer, p *cluster.Proxy) error
}

var faults = []fault{ // read-only
	{
		"paused",
		func(m *servers.MemcachedServer, _ *cluster.Proxy) error {
			return syscall.Kill(m.Pid(), syscall.SIGSTOP)
		},
		func(m *servers.MemcachedServer, _ *cluster.Proxy) error {
			return syscall.Kill(m.Pid(), syscall.SIGCONT)
		},
	},
	{
		"killed",
		func(m *servers.MemcachedServer, _ *cluster.Proxy) error { m.Kill(); return nil },
		func(m *servers.MemcachedServer, _ *cluster.Proxy) error { return m.Restart() },
	},
	{
		"slow",
		func(_ *servers.MemcachedServer, p *cluster.Proxy) error { p.Slow(slow); return nil },
		func(_ *servers.MemcachedServer, p *cluster.Proxy) error { p.Slow(0); return nil },
	},
}

func (r *run) all(each time.Duration) error {
	fmt.Printf("%-8s %-22s %10s %8s %10s %10s %7s %10s %8s  %s\n", "fault", "server", "calls", "of others", "confirmed", "p99", "factor", "longest", "loads", "left alone")
	for _, f := range faults {
		for i := range r.members {
			healthy := r.work(each, i)
			r.print("none", "", healthy, healthy)
			if err := f.begin(r.members[i], r.lines[i]); err != nil {
				return err
			}
			r.print(f.name, r.lines[i].Addr, healthy, r.work(each, i))
			if err := f.end(r.members[i], r.lines[i]); err != nil {
				return err
			}
			if err := r.settle(); err != nil {
				return err
			}
		}
	}
	if r.failed {
		return errors.New("outage: a server at fault disturbs the keys of others")
	}
	return nil
}

// settle waits until all servers are used again.
func (r *run) settle() error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		s := r.work(time.Second, -1)
		if s.confirmed == s.others && len(s.named) == 0 {
			return nil
		}
	}
	return errors.New("outage: the servers are not used again within a minute")
}

// tally counts the outcomes of calls. others, confirmed and loads count calls for keys of
// healthy servers.
type tally struct {
	mu                              sync.Mutex
	calls, others, confirmed, loads int
	took                            [windows][]time.Duration
	named                           []string
}

// windows is the number of parts of the time of a fault. The percentile is the median of
// the percentiles of the parts, since a busy machine holds calls up in some of them.
const windows = 9

func (t *tally) p99() time.Duration {
	var all []time.Duration
	for _, took := range t.took {
		if slices.Sort(took); len(took) > 0 {
			all = append(all, took[len(took)*99/100])
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func (t *tally) longest() (d time.Duration) {
	for _, took := range t.took {
		d = max(d, slices.Max(append(took, 0)))
	}
	return d
}

func (r *run) print(fault, server string, healthy, t *tally) {
	share, factor := 100*float64(t.confirmed)/float64(t.others), float64(t.p99())/float64(healthy.p99())
	fmt.Printf("%-8s %-22s %10d %8d %9.2f%% %10v %6.2fx %10v %8d  %s\n", fault, server, t.calls, t.others, share, t.p99().Round(time.Microsecond), factor, t.longest().Round(time.Microsecond), t.loads, strings.Join(t.named, " "))
	if fault != "none" && (share < 99 || factor > 2 || len(t.named) != 1 || t.named[0] != server) {
		r.failed = true
	}
}

// work lets the instances be called for some time, while a server may be at fault.
func (r *run) work(lasts time.Duration, at int) *tally {
	t := &tally{}
	start := time.Now()
	end := start.Add(lasts)
	pause := time.Second * callers / time.Duration(r.rate)
	var wg sync.WaitGroup
	for _, one := range r.instances {
		for range callers {
			wg.Go(func() {
				tick := time.NewTicker(pause)
				defer tick.Stop()
				for time.Now().Before(end) {
					<-tick.C
					window := min(windows-1, int(windows*time.Since(start)/lasts))
					r.call(t, one, at, window)
				}
			})
		}
	}
	wg.Go(func() {
		for time.Now().Before(end) {
			time.Sleep(100 * time.Millisecond) // between two looks
			for _, one := range r.instances {
				for _, server := range one.Stats().ServersLeftAlone {
					if !slices.Contains(t.named, server) {
						t.named = append(t.named, server)
					}
				}
			}
		}
	})
	wg.Wait()
	return t
}

// call makes one call, and notes its outcome.
func (r *run) call(t *tally, one *strata.Cache[string, string], at, window int) {
	key, loaded := name(rand.IntN(keys)), false
	ctx := context.Background()
	var err error
	begun := time.Now()
	switch rand.IntN(10) {
	case 0:
		err = one.Set(ctx, key, "value")
	case 1:
		err = one.Expire(ctx, key)
	default:
		_, err = one.GetOrLoad(ctx, key, func(context.Context, string) (string, error) {
			loaded = true
			return "value", nil
		})
	}
	took := time.Since(begun)
	well := at < 0 || r.home(key) != at
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls++
	if !well {
		return
	}
	t.others++
	if err == nil {
		t.confirmed++
	}
	if loaded {
		t.loads++
	}
	t.took[window] = append(t.took[window], took)
}

// home is the place of a key's server.
func (r *run) home(key string) int {
	server := r.tier.ServerOf(key)
	return slices.IndexFunc(r.lines, func(p *cluster.Proxy) bool { return p.Addr == server })
}
