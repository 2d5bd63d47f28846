//go:build linux

package chaos

import (
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/testing/checker"
	"github.com/strata-cache/strata/test/internal/cluster"
)

// gather makes a history of the records of the origin, the workers and the injector.
func (r *run) gather() (h *checker.History, logs []*cluster.Log) {
	for _, l := range r.lives {
		log, err := cluster.ReadLog(l.path, l.instance)
		if err != nil {
			r.problem("instance %d: %v", l.instance, err)
			log = &cluster.Log{}
		}
		logs = append(logs, log)
		for _, s := range log.Surprises {
			r.problem("instance %d: %s", l.instance, s)
		}
	}
	r.addStalls(logs)
	h = &checker.History{Writes: r.origin.Writes(), Losses: r.losses, Excuses: r.excuseTags()}
	for i, l := range r.lives {
		h.Loads = append(h.Loads, logs[i].Loads...)
		h.Fences = append(h.Fences, ended(l, logs[i])...)
		gaps := r.gaps(l)
		r.markSuspect(l, logs[i], gaps)
		h.Reads = append(h.Reads, logs[i].Reads...)
		if r.o.Alone {
			h.Links = append(h.Links, checker.Link{Instance: l.instance, At: l.born, State: checker.Down})
		} else {
			h.Links = append(h.Links, links(l, gaps, h)...)
		}
		if r.watched != nil || r.nodes != nil { // the first question to each server repeats the drops so far
			to := l.born + checker.Time(rejoin)
			h.Excuses = append(h.Excuses,
				checker.Excuse{Cluster: true, Instance: checker.Shared, From: l.born, To: to}, checker.Excuse{Instance: l.instance, From: l.born, To: to})
		}
		r.excuseLoads(l, logs[i], h)
	}
	for i := range h.Fences {
		r.excuseFence(&h.Fences[i], h)
	}
	for _, w := range r.windows {
		h.Notes = append(h.Notes, checker.Note{At: w.from, Text: w.name + " begins"}, checker.Note{At: w.to, Text: w.name + " ends"})
		if w.tier || w.process {
			h.Excuses = append(h.Excuses, checker.Excuse{
				Cluster: true, Instance: checker.Shared, From: w.from, To: w.to + checker.Time(rejoin+lease),
			})
		}
		if w.learns { // a read during which drops are repeated passes L2 by, and joins no load
			h.Excuses = append(h.Excuses, checker.Excuse{Instance: checker.Shared, From: w.from, To: w.to + checker.Time(hears)})
		}
	}
	return h, logs
}

// addStalls makes windows of the times in which processes did not run although no
// fault had stopped them. A stall of this process is one of all proxies, which
// run in it.
func (r *run) addStalls(logs []*cluster.Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.stalls {
		f := r.about(0, "stall of the proxies")
		f.from, f.to = s.From, s.To
		r.windows = append(r.windows, f.window)
	}
	for i, l := range r.lives {
		for _, s := range logs[i].Stalls {
			stopped := slices.ContainsFunc(r.windows, func(w window) bool {
				return w.process && slices.Contains(w.slots, l.slot) && s.From <= w.to && s.To >= w.from
			})
			if !stopped {
				r.windows = append(r.windows, window{name: "stall of", slots: []int{l.slot}, process: true, from: s.From, to: s.To})
			}
		}
	}
}

// ended returns the fences of a life. A call without a return has failed. No
// instance tries a failed call of a killed process again.
func ended(l *life, log *cluster.Log) []checker.Fence {
	fences := log.Fences
	for _, f := range log.Open {
		f.Return, f.Failed = l.died, true
		fences = append(fences, f)
	}
	for i := range fences {
		fences[i].Lost = fences[i].Failed && l.died != checker.Never
	}
	return fences
}

// links returns the states of a worker's connection to the bus: deaf, and later
// down, in a gap, and connected again after the time that the way back may
// take. It adds the excuses that follow.
func links(l *life, gaps []window, h *checker.History) (all []checker.Link) {
	for _, g := range gaps {
		all = append(all, checker.Link{Instance: l.instance, At: g.from, State: checker.Deaf})
		if known := g.from + checker.Time(notice); known < g.to {
			all = append(all, checker.Link{Instance: l.instance, At: known, State: checker.Down})
		}
		all = append(all, checker.Link{Instance: l.instance, At: g.to + checker.Time(rejoin), State: checker.Connected})
		h.Excuses = append(h.Excuses, checker.Excuse{Instance: l.instance, From: g.from, To: g.to + checker.Time(rejoin+delay)})
	}
	return all
}

// gaps returns the times in which a worker may have missed messages. A gap goes
// on while L2 does not answer, because the worker cannot find out then which
// messages it has missed. Gaps that meet are one.
func (r *run) gaps(l *life) (gaps []window) {
	gaps = []window{{from: l.born, to: l.born}} // it is not connected when it is born
	var silent []window
	for _, w := range r.windows {
		switch about := slices.Contains(w.slots, l.slot) && w.to >= l.born && w.from < l.died; {
		case about && (w.bus || w.process):
			gaps = append(gaps, w)
		case about:
			silent = append(silent, w)
		}
	}
	byFrom := func(a, b window) int { return int(a.from - b.from) }
	slices.SortFunc(gaps, byFrom)
	slices.SortFunc(silent, byFrom)
	for i := 0; i < len(gaps); i++ {
		g := &gaps[i]
		for _, w := range silent {
			if w.from <= g.to+checker.Time(rejoin+delay) && w.to >= g.from {
				g.to = max(g.to, w.to)
			}
		}
		if i+1 < len(gaps) && gaps[i+1].from <= g.to+checker.Time(rejoin+delay) {
			g.to = max(g.to, gaps[i+1].to)
			gaps = slices.Delete(gaps, i+1, i+2)
			i-- // it may reach further
		}
	}
	return gaps
}

// markSuspect marks the reads that may have got suspect entries, although their
// instance is connected: an entry from before a gap is confirmed when it is next
// read, and if L2 does not answer then, it may be served as in the gap.
func (r *run) markSuspect(l *life, log *cluster.Log, gaps []window) {
	slices.Sort(log.RemoteErrors)
	for i := range log.Reads {
		read := &log.Reads[i]
		from, to := min(read.Call, read.Return), max(read.Call, read.Return)
		recent := slices.ContainsFunc(gaps, func(g window) bool {
			return g.from <= to && g.to+checker.Time(rejoin+delay+slow+unconfirmed) >= from
		})
		if !recent {
			continue
		}
		n, _ := slices.BinarySearch(log.RemoteErrors, from)
		read.Degraded = n < len(log.RemoteErrors) && log.RemoteErrors[n] <= to+checker.Time(10*time.Millisecond) ||
			slices.ContainsFunc(r.windows, func(w window) bool {
				return w.tier && slices.Contains(w.slots, l.slot) && w.from <= to && w.to+checker.Time(rejoin) >= from
			})
	}
}

// excuseLoads adds the excuses for loads that follow from the records of a worker.
func (r *run) excuseLoads(l *life, log *cluster.Log, h *checker.History) {
	for _, s := range log.Left {
		e := checker.Excuse{Instance: l.instance, Key: s.Key, From: s.From, To: s.To}
		if s.Key == "" { // a drop of everything, which others hear of
			e.Instance, e.To = checker.Shared, s.To+checker.Time(delay)
		}
		h.Excuses = append(h.Excuses, e)
	}
	for _, s := range log.Dropped {
		r.excuseDrop(s.Key, s.From, s.To, h)
	}
	for _, at := range log.RemoteErrors { // L2 had no part in calls around then
		h.Excuses = append(h.Excuses, checker.Excuse{
			Cluster: true, Instance: checker.Shared, From: at - checker.Time(delay), To: at + checker.Time(delay),
		})
	}
	for _, load := range log.Unfinished { // its lease runs out
		h.Excuses = append(h.Excuses, checker.Excuse{
			Cluster: true, Instance: checker.Shared, Key: load.Key, From: load.Call, To: min(l.died, r.clock.Now()) + checker.Time(lease+delay),
		})
	}
	for _, load := range log.Loads {
		stored := load.Return < l.died-checker.Time(delay)
		if load.OK && stored {
			continue
		}
		// It may have ended the key's entry, or kept its value to itself.
		to := load.Return + checker.Time(delay)
		if !stored {
			to += checker.Time(lease)
		}
		r.excuseDrop(load.Key, load.Call, to, h)
	}
}

// excuseFence adds the excuses for loads that follow from a fence. The time at
// which a failed one is carried out is not known.
func (r *run) excuseFence(f *checker.Fence, h *checker.History) {
	to := f.Return
	if f.Key == "" {
		to += checker.Time(delay)
	}
	if f.Failed {
		to += checker.Time(retry)
	}
	r.excuseDrop(f.Key, f.Call, to, h)
}

// excuseDrop excuses one more load of the key when it is dropped, and on each
// instance when the message arrives.
func (r *run) excuseDrop(key string, from, to checker.Time, h *checker.History) {
	h.Excuses = append(h.Excuses,
		checker.Excuse{Cluster: true, Instance: checker.Shared, Key: key, From: from, To: to},
		checker.Excuse{Instance: checker.Shared, Key: key, From: from, To: to + checker.Time(delay)})
}

// promise returns the bounds by which histories of keys with a TTL are judged.
func (r *run) promise(ttl time.Duration) checker.Promise {
	p := checker.Promise{
		// An instance that joins may still miss messages on their way, so the
		// delay is added to the time in which it must notice a change.
		Slack: delay, Unconfirmed: unconfirmed, Slow: slow,
		// A refresh begins at 8/10 of the TTL, less the time of a value on its way.
		TTL: ttl*8/10 - 100*time.Millisecond,
	}
	if r.o.Strict {
		p.Unconfirmed = 0
	}
	if r.o.Memcached > 0 {
		p.TTL = min(p.TTL, max(ttl-early-slow, 1))
	}
	if r.o.Alone { // a loaded value may be as old as the longest load
		p.Unconfirmed, p.Slow = r.unheard(), slow+(lease+early)*3/2
	}
	return p
}

// judge judges h, the keys with a short TTL apart.
func (r *run) judge(h *checker.History) []checker.Violation {
	var all []checker.Violation
	for _, c := range []struct {
		short bool
		ttl   time.Duration
	}{{true, shortTTL}, {false, longTTL}} {
		part := *h
		part.Reads = keep(h.Reads, func(r *checker.Read) bool { return cluster.Short(r.Key) == c.short })
		part.Loads = keep(h.Loads, func(l *checker.Load) bool { return cluster.Short(l.Key) == c.short })
		all = append(all, part.Judge(r.promise(c.ttl))...)
	}
	slices.SortFunc(all, func(a, b checker.Violation) int { return int(a.At - b.At) })
	return all
}

func keep[E any](all []E, ok func(*E) bool) (kept []E) {
	for i := range all {
		if ok(&all[i]) {
			kept = append(kept, all[i])
		}
	}
	return kept
}

// trace returns the events of a key shortly before a time, as lines.
func trace(h *checker.History, key string, at checker.Time) []string {
	since := at - checker.Time(8*time.Second)
	near := func(t checker.Time) bool { return t >= since && t <= at+checker.Time(100*time.Millisecond) }
	about := func(k string) bool { return k == key || k == "" }
	part := checker.History{
		Writes: keep(h.Writes, func(w *checker.Write) bool { return w.Key == key && near(w.At) }),
		Fences: keep(h.Fences, func(f *checker.Fence) bool { return about(f.Key) && (near(f.Call) || near(f.Return)) }),
		Reads:  keep(h.Reads, func(r *checker.Read) bool { return r.Key == key && near(r.Return) }),
		Loads:  keep(h.Loads, func(l *checker.Load) bool { return l.Key == key && (near(l.Call) || near(l.Return)) }),
		Links:  keep(h.Links, func(l *checker.Link) bool { return near(l.At) }),
		Notes:  keep(h.Notes, func(n *checker.Note) bool { return near(n.At) }),
	}
	return part.Trace()
}

// opinions compares the opinions of instances about their bus with the faults
// of the injector. It reports an instance that does not find a silent bus in
// time. found has the times that this took, back the times until the bus was
// connected again.
func (r *run) opinions(logs []*cluster.Log) (found, back []time.Duration) {
	for i, l := range r.lives {
		for _, w := range r.windows {
			if !w.bus || w.process || !slices.Contains(w.slots, l.slot) || w.from < l.born || w.to+checker.Time(rejoin) > l.died {
				continue
			}
			if w.silent && w.to-w.from > checker.Time(notice) && !r.disturbed(w) {
				at, ok := next(logs[i].Opinions, w.from, false)
				if !ok || at > w.from+checker.Time(notice) {
					r.problem("instance %d did not notice in %v that its bus is silent (%s, at %v)", l.instance, notice, w.name, time.Duration(w.from))
				}
				found = append(found, time.Duration(at-w.from))
			}
			if at, ok := next(logs[i].Opinions, w.to, true); ok && !r.disturbed(w) {
				back = append(back, time.Duration(at-w.to))
			}
		}
	}
	return found, back
}

// unmarked reports values that an instance served without the mark Degraded,
// although they were so old that it must have known by then that it hears nothing.
func (r *run) unmarked(h *checker.History, logs []*cluster.Log) {
	const old = checker.Time(notice + delay)
	part := checker.History{Writes: h.Writes, Fences: h.Fences, Links: h.Links}
	for i, l := range r.lives {
		for _, a := range logs[i].Asked {
			paused := slices.ContainsFunc(r.windows, func(w window) bool {
				return w.process && slices.Contains(w.slots, l.slot) && a.Call >= w.from && a.Call-old <= w.to
			})
			if !a.Degraded && !paused {
				part.Reads = append(part.Reads, a)
			}
		}
	}
	part.Ages((&run{}).promise(longTTL), func(a *checker.Read, age time.Duration, connected bool) {
		if age > time.Duration(old) && !connected {
			r.problem("instance %d: read of %s at %v got a value dropped %v before, and does not say that it is degraded", a.Instance, a.Key, time.Duration(a.Call), age)
		}
	})
}

// disturbed reports whether another fault was about the same slots at the time
// of w or right after.
func (r *run) disturbed(w window) bool {
	return slices.ContainsFunc(r.windows, func(o window) bool {
		same := o.from == w.from && o.name == w.name
		near := o.from <= w.to+checker.Time(2*rejoin) && o.to+checker.Time(2*rejoin) >= w.from
		return !same && near && (o.bus || o.process) &&
			slices.ContainsFunc(o.slots, func(s int) bool { return slices.Contains(w.slots, s) })
	})
}

// next returns the first time, not before at, at which an instance had the given opinion about its
// bus; at itself if it had that opinion already.
func next(all []cluster.Opinion, at checker.Time, hears bool) (checker.Time, bool) {
	was := false
	for _, o := range all {
		if o.At > at {
			if was == hears {
				return at, true
			}
			if o.Hears == hears {
				return o.At, true
			}
		}
		was = o.Hears
	}
	return at, was == hears
}
