package slots

import (
	"context"
	"math/rand/v2"
	"time"
)

// A refresh waits until it is due, asks servers one after the other, and adopts
// the first topology. watch starts refreshes at regular times and when nodes are
// silent. Invariant: one refresh runs at a time, and its channel is closed when it
// has ended, with or without a topology.

// Refresh starts a refresh of the topology, or joins the one that runs or
// waits. Refreshes begin at least the time between apart, to bound the load on
// servers. hint, if not empty, is the server to ask first. Refresh returns a
// channel, closed at the end of the refresh, or nil after Close.
func (f *Fleet[N]) Refresh(hint string) <-chan struct{} {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	if hint != "" {
		f.hint = hint
	}
	// Many calls fail at once in a failover. All of them wait for one refresh.
	if f.done != nil {
		return f.done
	}
	age := now.Sub(f.begun)
	if age > 2*betweenMost { // after so long the call has a new reason
		f.pause = 0
	}
	f.done = make(chan struct{})
	// The watcher begins with the first refresh: a client that was never used has no goroutine.
	if !f.watching {
		f.watching = true
		f.tasks.Go(f.watch)
	}
	in := f.pause - age
	f.tasks.Go(func() { f.refresh(in) })
	return f.done
}

// refresh waits for the duration in, asks for the topology and adopts it.
func (f *Fleet[N]) refresh(in time.Duration) {
	if in > 0 {
		f.sleep(in)
	}
	f.mu.Lock()
	hint, failed := f.hint, f.err != nil
	f.begun, f.hint = time.Now(), ""
	f.mu.Unlock()
	// The lock is not held while servers are asked. Calls go on by the old view meanwhile.
	m, err := f.ask(f.candidates(hint, failed))
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.view.Load()
	// Refreshes that bring nothing new become rare. A change means that more may follow, so the
	// next one may come soon again.
	f.pause = max(between, min(2*f.pause, betweenMost))
	if f.err = err; err == nil && !f.closed {
		changed := old == nil || !m.Same(old.topology)
		if changed {
			f.pause = between
		}
		f.adopt(m, changed)
	}
	close(f.done)
	f.done = nil
}

// candidates returns the servers to ask, the best first: the hint, primaries,
// replicas, seeds; after a failure the seeds before the others.
func (f *Fleet[N]) candidates(hint string, failed bool) []string {
	var all []string
	seen := map[string]bool{"": true}
	add := func(addrs ...string) {
		for _, a := range addrs {
			if !seen[a] {
				seen[a] = true
				all = append(all, a)
			}
		}
	}
	add(hint)
	// After a failure all known servers may have gone: then the names of the seeds lead to others. In any order, since the
	// first ones may be silent for longer than the question may take.
	if failed {
		for _, i := range rand.Perm(len(f.o.Seeds)) {
			add(f.o.Seeds[i])
		}
	}
	if v := f.view.Load(); v != nil {
		shards := v.topology.Shards
		// Primaries hear of a failover first. Clients ask them in random orders, so that no server
		// gets the questions of all.
		for _, i := range rand.Perm(len(shards)) {
			add(shards[i].Primary)
		}
		for _, i := range rand.Perm(len(shards)) {
			add(shards[i].Replicas...)
		}
	}
	add(f.o.Seeds...)
	return all
}

// answer is the answer of one server.
type answer struct {
	m   *Map
	err error
}

// ask asks servers until one answers with a topology. It asks the next server
// after an error, or after the time hedge without an answer.
func (f *Fleet[N]) ask(addrs []string) (*Map, error) {
	ctx, cancel := context.WithTimeout(f.ctx, f.o.Timeout)
	defer cancel() // ends the requests still running
	// There is room for all answers, so the goroutine of a late one does not wait for a reader.
	answers := make(chan answer, len(addrs))
	next := time.NewTimer(hedge)
	defer next.Stop()
	due := true
	var err error
	for asked, heard := 0, 0; heard < len(addrs); {
		// A silent server costs hedge, not the whole timeout: the next one is asked beside it.
		if due && asked < len(addrs) {
			addr := addrs[asked]
			f.tasks.Go(func() {
				m, err := f.o.Ask(ctx, addr)
				answers <- answer{m, err}
			})
			asked++
			next.Reset(hedge)
		}
		due = false
		select {
		case <-next.C:
			due = true
		case a := <-answers:
			if a.err == nil {
				return a.m, nil
			}
			// Servers are asked in any order, which must not decide whether the calls that wait go on.
			err = f.o.Telling(err, a.err)
			heard++
			due = true
		}
	}
	return nil, err
}

// adopt makes a view of m, and dismisses the nodes that m does not have.
// changed is true if m differs from the last topology. mu is held.
func (f *Fleet[N]) adopt(m *Map, changed bool) {
	v := &View[N]{topology: m, at: time.Now()}
	left := f.nodes
	f.nodes = make(map[place]N, len(left))
	// A node that stays keeps its connections. Its owner is told of a change of the topology,
	// because the server may have got or lost slots.
	stay := func(p place) N {
		if n, ok := left[p]; ok {
			if changed {
				f.o.Changed(n)
			}
			f.nodes[p] = n
			delete(left, p)
		}
		return f.at(p)
	}
	for _, s := range m.Shards {
		v.primaries = append(v.primaries, stay(place{addr: s.Primary}))
		if !f.o.Replicas {
			continue
		}
		var replicas []N
		for _, addr := range s.Replicas {
			replicas = append(replicas, stay(place{addr: addr, replica: true}))
		}
		v.replicas = append(v.replicas, replicas)
	}
	f.view.Store(v)
	// The remaining nodes have no place in the new topology.
	for _, n := range left {
		f.tasks.Go(func() { f.dismiss(n) })
	}
}

// dismiss closes a node that has left the view: a silent node at once, others
// after the time grace, so that running calls can end. If the server returns in
// the same role, it gets a new node with new connections.
func (f *Fleet[N]) dismiss(n N) {
	if f.o.Silent(n, time.Now()) < stallAfter {
		f.sleep(grace)
	}
	f.o.Close(n)
}

// sleep waits for d, or until Close.
func (f *Fleet[N]) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.ctx.Done():
	}
}

// watch refreshes the topology each refreshEvery, and when calls wait for a
// silent node: silence causes no error that would start a refresh.
func (f *Fleet[N]) watch() {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case now := <-ticker.C:
			if f.due(now) {
				f.Refresh("")
			}
		}
	}
}

func (f *Fleet[N]) due(now time.Time) bool {
	v := f.view.Load()
	if v == nil || now.Sub(v.at) >= refreshEvery {
		return v != nil // before the first view, calls start refreshes
	}
	for _, n := range f.Nodes() {
		// A node that has not answered for longer than a failover takes is slow, or runs a command
		// that blocks it.
		d := f.o.Silent(n, now)
		if d >= stallAfter && (d < stallMost || now.Sub(v.at) >= stallMost) {
			return true
		}
	}
	return false
}
