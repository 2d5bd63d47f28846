//go:build linux

package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/testing/checker"
	"github.com/strata-cache/strata/test/internal/cluster"
)

// window is a time in which a fault was under way.
type window struct {
	name string
	// slots are the numbers of the slots with the affected instances.
	slots []int
	// bus says that messages may have been lost, tier that L2 may not have answered,
	// process that the instances did not run, silent that nothing came over the bus.
	// learns says that instances hear of another server without a gap.
	bus, tier, process, silent, learns bool
	from, to                           checker.Time
}

// fault is a disturbance of the cluster for a while.
type fault struct {
	window
	// uses names the parts of the cluster that no other fault may touch meanwhile.
	uses []string
	// lasts is the time between begin and end, which themselves do not wait for long.
	lasts      time.Duration
	begin, end func()
}

// kind draws a fault, or nil if it cannot be had at the moment.
type kind struct {
	name   string
	weight int
	draw   func(r *run, lasts time.Duration) *fault
}

// kinds are the faults. The table is read-only.
var kinds = []kind{
	{"kill", 4, (*run).killWorker},
	{"stop", 4, (*run).stopWorker},
	{"blackhole", 6, (*run).blackHole},
	{"reset", 3, (*run).reset},
	{"slow", 3, (*run).slowDown},
	{"buscut", 5, (*run).cutBus},
	{"redisstop", 2, (*run).stopRedis},
	{"redisempty", 3, (*run).restartRedis},
	{"promote", 3, (*run).promote},
	{"mcstop", 5, (*run).stopMemcached},
	{"mckill", 5, (*run).killMemcached},
}

// shake injects faults until the time is over, at most two at once, and ends
// them all.
func (r *run) shake() {
	end := time.Now().Add(r.o.For)
	next := end
	if r.o.Every > 0 {
		next = time.Now().Add(2 * time.Second)
	}
	var active []*fault
	for {
		at := next
		if len(active) > 0 && active[0].due(r.clock).Before(at) {
			at = active[0].due(r.clock)
		}
		if at.After(end) {
			at = end
		}
		<-time.After(time.Until(at))
		now := time.Now()
		for len(active) > 0 && (!active[0].due(r.clock).After(now) || !now.Before(end)) {
			r.heal(active[0])
			active = active[1:]
		}
		if !now.Before(end) {
			return
		}
		if !now.Before(next) {
			next = now.Add(time.Duration((0.3 + 1.4*r.rand.Float64()) * float64(r.o.Every)))
			active = r.strike(active)
		}
	}
}

// due returns the time at which a begun fault must end.
func (f *fault) due(c cluster.Clock) time.Time {
	return time.Now().Add(time.Duration(f.from-c.Now()) + f.lasts)
}

// strike begins a fault that touches nothing an active one does.
func (r *run) strike(active []*fault) []*fault {
	if len(active) >= 2 {
		return active
	}
	// Another draw may fit where one touches an active fault or cannot be had.
	for range 10 {
		f := r.draw()
		if f == nil || slices.ContainsFunc(active, func(a *fault) bool {
			return slices.ContainsFunc(f.uses, func(u string) bool { return slices.Contains(a.uses, u) })
		}) {
			continue
		}
		f.from = r.clock.Now()
		r.logf("%s, for %v", f.name, f.lasts.Round(10*time.Millisecond))
		f.begin()
		active = append(active, f)
		slices.SortFunc(active, func(a, b *fault) int {
			return int((a.from + checker.Time(a.lasts)) - (b.from + checker.Time(b.lasts)))
		})
		return active
	}
	return active
}

func (r *run) heal(f *fault) {
	f.end()
	f.to = r.clock.Now()
	r.linger(f)
	r.windows = append(r.windows, f.window)
}

func (r *run) draw() *fault {
	total := 0
	kinds := kinds
	switch {
	case r.watched != nil:
		kinds = sentinelKinds
	case r.nodes != nil:
		kinds = clusterKinds
	case r.o.Repoint:
		kinds = repointKinds
	}
	for _, k := range kinds {
		total += k.weight
	}
	n := r.rand.IntN(total)
	lasts := time.Second + time.Duration(r.rand.Float64()*float64(9*time.Second))
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			if r.o.Only != "" && !slices.Contains(strings.Split(r.o.Only, ","), k.name) {
				return nil
			}
			if !r.has(k.name) {
				return nil
			}
			return k.draw(r, lasts)
		}
	}
	return nil
}

// pick draws a slot, and a fault about it.
func (r *run) pick(lasts time.Duration, name string) (*slot, *fault) {
	s := r.slots[r.rand.IntN(len(r.slots))]
	f := &fault{lasts: lasts, uses: []string{fmt.Sprint("slot ", s.index)}, begin: func() {}, end: func() {}}
	f.name, f.slots = fmt.Sprintf("%s %d", name, s.index), []int{s.index}
	return s, f
}

// about returns a fault of Redis itself, which affects all instances.
func (r *run) about(lasts time.Duration, name string) *fault {
	f := &fault{lasts: lasts, uses: []string{"redis"}, begin: func() {}, end: func() {}}
	f.name, f.bus, f.tier, f.silent = name, true, r.o.Memcached == 0, true
	for i := range r.slots {
		f.slots = append(f.slots, i)
	}
	return f
}

// killWorker kills a worker; another takes its slot.
func (r *run) killWorker(lasts time.Duration) *fault {
	s, f := r.pick(lasts/5, "kill worker")
	f.bus, f.process = true, true
	f.begin = func() {
		if s.p.Crashed() {
			r.problem("instance %d has crashed", s.life.instance)
		}
		s.p.Kill()
		s.life.died = r.clock.Now()
	}
	f.end = func() {
		r.birth(s)
		r.do(s, cluster.Command{Op: "start"})
	}
	return f
}

// stopWorker pauses a worker.
func (r *run) stopWorker(lasts time.Duration) *fault {
	s, f := r.pick(lasts, "stop worker")
	f.bus, f.process = true, true
	f.begin = func() { s.p.Stop() }
	f.end = func() { s.p.Continue() }
	return f
}

// lines draws which of a slot's proxies a fault is about.
func (r *run) lines(s *slot, f *fault) []*cluster.Proxy {
	n := r.rand.IntN(3)
	switch {
	case n == 0 || r.o.Alone:
		f.tier = true
		f.name += ", tier"
		return s.tier
	case n == 1:
		f.bus = true
		f.name += ", bus"
		return []*cluster.Proxy{s.bus}
	}
	f.tier, f.bus = true, true
	f.name += ", tier and bus"
	return s.lines()
}

// lines are all proxies of a slot.
func (s *slot) lines() []*cluster.Proxy { return append(slices.Clone(s.tier), s.bus) }

// blackHole lets bytes disappear, without an end of the connection.
func (r *run) blackHole(lasts time.Duration) *fault {
	s, f := r.pick(lasts, "black hole before")
	lines := r.lines(s, f)
	way := []cluster.Way{cluster.BothWays, cluster.BothWays, cluster.Requests, cluster.Replies}[r.rand.IntN(4)]
	f.name += [...]string{"", " (requests)", " (replies)", ""}[way]
	f.silent = f.bus && way != cluster.Requests
	all := func(way cluster.Way) {
		for _, p := range lines {
			p.BlackHole(way)
		}
	}
	f.begin = func() { all(way) }
	f.end = func() { all(0) }
	return f
}

// reset breaks connections, which may be made again at once.
func (r *run) reset(time.Duration) *fault {
	s, f := r.pick(0, "reset of")
	lines := r.lines(s, f)
	f.begin = func() {
		for _, p := range lines {
			p.Reset()
		}
	}
	return f
}

// slowDown delays all bytes, by at most 200 ms, so that messages still arrive
// in time.
func (r *run) slowDown(lasts time.Duration) *fault {
	s, f := r.pick(lasts, "slow line before")
	lines := r.lines(s, f)
	f.bus = false
	late := time.Duration(1+r.rand.IntN(200)) * time.Millisecond
	f.name += fmt.Sprintf(" (%v)", late)
	all := func(d time.Duration) {
		for _, p := range lines {
			p.Slow(d)
		}
	}
	f.begin = func() { all(late) }
	f.end = func() { all(0) }
	return f
}

// cutBus breaks the bus alone, and refuses it. In a long run some cuts last
// longer than an instance may serve unconfirmed entries.
func (r *run) cutBus(lasts time.Duration) *fault {
	if r.o.For > 3*time.Minute && r.rand.IntN(5) == 0 {
		lasts += unconfirmed + notice
	}
	s, f := r.pick(lasts, "cut of the bus of")
	f.bus, f.silent = true, true
	f.begin = func() {
		s.bus.Refuse(true)
		s.bus.Reset()
	}
	f.end = func() { s.bus.Refuse(false) }
	return f
}

// stopRedis pauses Redis.
func (r *run) stopRedis(lasts time.Duration) *fault {
	f := r.about(lasts, "stop Redis")
	f.begin = r.primary.Stop
	f.end = r.primary.Continue
	return f
}

// restartRedis kills Redis, and starts it again with nothing in it.
func (r *run) restartRedis(lasts time.Duration) *fault {
	f := r.about(lasts/3, "kill Redis and restart it empty")
	f.begin = r.primary.Kill
	f.end = r.primary.Restart
	return f
}

// onTheWay is how long a write may be on its way to the replica.
const onTheWay = checker.Time(500 * time.Millisecond)

// lossAt is a loss that begins at t, with the writes that were on their way.
func lossAt(t checker.Time) checker.Loss { return checker.Loss{From: t, Since: t - onTheWay} }

// promote puts the replica in the place of the primary. The replica lacks the
// last writes, although the primary has acknowledged them.
func (r *run) promote(lasts time.Duration) *fault {
	if !r.replicates() {
		return nil
	}
	f := r.about(lasts/5, "promote the replica")
	loss := checker.Loss{}
	f.begin = func() {
		loss.Since = r.clock.Now() - onTheWay
		r.replication.BlackHole(cluster.BothWays)
	}
	f.end = func() {
		loss.From = r.clock.Now()
		f.from = loss.From
		r.primary.Kill()
		r.primary, r.replica = r.replica, r.primary
		_, err := r.admin(r.primary, "REPLICAOF", "NO", "ONE")
		r.must(err)
		for _, s := range r.slots {
			r.aim(s)
		}
		loss.To = r.clock.Now() + checker.Time(rejoin)
		if r.o.Memcached == 0 {
			r.losses = append(r.losses, loss)
		}
		r.replication.BlackHole(0)
		r.replica.Restart()
		r.follow(r.replica)
	}
	return f
}
