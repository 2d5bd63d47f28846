//go:build linux

package chaos

import (
	"fmt"
	"time"

	"github.com/strata-cache/strata/internal/testing/checker"
	"github.com/strata-cache/strata/internal/testing/servers"
)

// sentinelKinds are the faults of a run with sentinels. The table is read-only.
var sentinelKinds = []kind{
	{"kill", 4, (*run).killWorker},
	{"stop", 4, (*run).stopWorker},
	{"killprimary", 6, (*run).killPrimary},
	{"pauseprimary", 6, (*run).pausePrimary},
	{"demote", 4, (*run).demote},
	{"sentinelstop", 4, (*run).stopSentinel},
	{"pauselate", 6, (*run).pauseLate},
	{"demotelate", 6, (*run).demoteLate},
	{"pauseall", 6, (*run).pauseAll},
}

// failover is the shortest life of a fault that makes sentinels promote a replica.
const failover = 5 * time.Second

// patient is the number of the sentinel to pause. It is always the same one: after
// a pause a sentinel takes no part in failovers for half a minute.
const patient = 2

// startWatched starts servers that sentinels watch, and the workers.
func (r *run) startWatched() {
	r.watched = servers.StartWatched(r.t, 1)
	for i := range r.o.Workers {
		s := &slot{index: i}
		r.slots = append(r.slots, s)
		r.birth(s)
	}
}

// depose returns a fault that makes sentinels promote the replica, or nil if the
// replica has not caught up. begin gets the primary. end gets the same server,
// after another one has taken its place.
func (r *run) depose(lasts time.Duration, name string, begin, end func(primary int)) *fault {
	primary, ok := r.watched.Settled()
	if !ok {
		return nil
	}
	f := r.about(max(lasts, failover), name)
	f.silent = false // the sentinels decide for how long it is
	loss := checker.Loss{}
	f.begin = func() {
		loss = lossAt(r.clock.Now())
		begin(primary)
	}
	f.end = func() {
		is := r.watched.AwaitPrimary(primary, 0, 1)
		loss.To = r.clock.Now() + checker.Time(rejoin)
		r.losses = append(r.losses, loss)
		r.logf("the primary is server %d", is)
		end(primary)
	}
	return f
}

// killPrimary kills the primary. It comes back empty, as a primary by its own
// account.
func (r *run) killPrimary(lasts time.Duration) *fault {
	return r.depose(lasts, "kill the primary",
		func(i int) { r.watched.Servers[i].Kill() },
		func(i int) { r.watched.Servers[i].Restart() })
}

// pausePrimary pauses the primary. It comes back as it was, as a primary by its own
// account.
func (r *run) pausePrimary(lasts time.Duration) *fault {
	return r.depose(lasts, "pause the primary",
		func(i int) { r.watched.Servers[i].Stop() },
		func(i int) { r.watched.Servers[i].Continue() })
}

// demote lets the sentinels promote the replica while the primary is well.
func (r *run) demote(time.Duration) *fault {
	return r.depose(0, "demote the primary", func(int) {
		if err := r.watched.Failover(); err != nil {
			r.problem("SENTINEL FAILOVER: %v", err)
		}
	}, func(int) {})
}

// pauseLate pauses the primary and a worker. Both go on when another primary has taken
// the place of the first. The first one then confirms writes of the worker until the
// worker hears of the other.
func (r *run) pauseLate(lasts time.Duration) *fault {
	return r.late(r.pausePrimary(lasts), "and worker", rejoin)
}

// demoteLate lets the sentinels promote the replica while a worker is paused.
func (r *run) demoteLate(lasts time.Duration) *fault {
	return r.late(r.demote(lasts), "and pause worker", rejoin)
}

// late returns f, a change of primary, with a worker paused from its begin until a moment
// after its end. hears is the time that the worker may then take to hear of the change.
func (r *run) late(f *fault, name string, hears time.Duration) *fault {
	if f == nil {
		return nil
	}
	s := r.slots[r.rand.IntN(len(r.slots))]
	after := time.Duration(r.rand.IntN(300)) * time.Millisecond
	f.name += fmt.Sprintf(" %s %d", name, s.index)
	f.uses = append(f.uses, fmt.Sprint("slot ", s.index))
	f.process = true // for all: their windows end together
	begin, end := f.begin, f.end
	f.begin = func() {
		s.p.Stop()
		begin()
	}
	f.end = func() {
		end()
		<-time.After(after)
		s.p.Continue()
		last := &r.losses[len(r.losses)-1]
		last.To = r.clock.Now() + checker.Time(hears)
	}
	return f
}

// pauseAll pauses the primary, a worker and a sentinel. When another primary has taken the
// place of the first, they go on in any order. The sentinel names the first one until it has
// heard of the other.
func (r *run) pauseAll(lasts time.Duration) *fault {
	f := r.pauseLate(lasts)
	if f == nil {
		return nil
	}
	f.name += " and a sentinel"
	f.uses = append(f.uses, "sentinel")
	first := r.rand.IntN(2) == 0
	begin, end := f.begin, f.end
	f.begin = func() {
		r.watched.StopSentinel(patient)
		begin()
	}
	f.end = func() {
		if first {
			r.watched.ContinueSentinel(patient)
		}
		end()
		if !first {
			r.watched.ContinueSentinel(patient)
		}
	}
	return f
}

// stopSentinel pauses a sentinel.
func (r *run) stopSentinel(lasts time.Duration) *fault {
	f := &fault{lasts: lasts, uses: []string{"sentinel"}}
	f.name = fmt.Sprintf("stop sentinel %d", patient)
	f.begin = func() { r.watched.StopSentinel(patient) }
	f.end = func() { r.watched.ContinueSentinel(patient) }
	return f
}
