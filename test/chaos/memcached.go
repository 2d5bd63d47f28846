//go:build linux

package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/testing/checker"
	"github.com/strata-cache/strata/test/internal/cluster"
)

// Runs with memcached as L2, with the bus of Redis or without any.

// overMemcached gives a worker memcached as L2, if the run has it.
func (r *run) overMemcached(s *slot, c *cluster.Config) {
	if r.o.Memcached == 0 {
		return
	}
	c.Lease += early
	for i, m := range r.memcached {
		c.Memcached, c.Through = append(c.Memcached, m.Addr), append(c.Through, s.tier[i].Addr)
	}
	if r.o.Alone {
		c.Bus, c.Memory = "", aloneTTL
	}
}

// unheard returns the time for which an instance without a bus may serve an entry that
// another has dropped; zero for a run with a bus.
func (r *run) unheard() time.Duration {
	if r.o.Alone {
		return aloneTTL + countsAge
	}
	return 0
}

// has reports whether the run has the servers that a fault of this name is about.
func (r *run) has(fault string) bool {
	if slices.Contains([]string{"mcstop", "mckill"}, fault) {
		return r.o.Memcached > 0
	}
	return !r.o.Alone || !slices.Contains([]string{"buscut", "redisstop", "redisempty", "promote"}, fault)
}

// aim leads the lines of a slot to the current primary of Redis.
func (r *run) aim(s *slot) {
	lines := s.lines()
	if r.o.Memcached > 0 {
		lines = []*cluster.Proxy{s.bus}
	}
	for _, p := range lines {
		p.Aim(r.primary.Addr)
		p.Reset()
	}
}

// server draws a server of memcached, and a fault about it.
func (r *run) server(lasts time.Duration, name string) (n int, f *fault) {
	n = r.rand.IntN(len(r.memcached))
	f = &fault{lasts: lasts, uses: []string{fmt.Sprint("memcached ", n)}}
	f.name, f.tier = fmt.Sprintf("%s %d", name, n), true
	for i := range r.slots {
		f.slots = append(f.slots, i)
	}
	return n, f
}

// stopMemcached pauses a server.
func (r *run) stopMemcached(lasts time.Duration) *fault {
	n, f := r.server(lasts, "stop memcached")
	f.begin, f.end = r.memcached[n].Stop, r.memcached[n].Continue
	return f
}

// killMemcached kills a server, and starts it again with nothing in it.
func (r *run) killMemcached(lasts time.Duration) *fault {
	n, f := r.server(lasts/3, "kill memcached and restart it empty")
	f.begin, f.end = r.memcached[n].Kill, r.memcached[n].Restart
	return f
}

// excuseTags excuses loads of keys with tags: a tag that memcached does not know, or has
// lost, counts as dropped when it is first asked for.
func (r *run) excuseTags() (all []checker.Excuse) {
	for i := range keys {
		if key := cluster.Key(i); r.o.Memcached > 0 && cluster.Tag(key) != "" {
			all = append(all, checker.Excuse{Cluster: true, Instance: checker.Shared, Key: key, To: checker.Never})
		}
	}
	return all
}

// linger prolongs a fault of memcached: the longer a server did not answer, the later it
// is tried again.
func (r *run) linger(f *fault) {
	if r.o.Memcached > 0 && f.tier {
		f.to += min(f.to-f.from, checker.Time(18*time.Second)) + checker.Time(time.Second)
	}
}
