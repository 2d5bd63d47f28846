package fleet

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/strata-cache/strata/internal/slots"
)

// Refresh has the topology asked for anew, once for all who want it and not
// more often than servers can bear. hint, if not empty, is a server that knows
// more than others. It returns a channel that is closed when the refresh has
// ended, or nil after Close.
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
	if f.done != nil {
		return f.done
	}
	age := now.Sub(f.begun)
	if age > 2*betweenMost { // whoever wants to know now has another reason
		f.pause = 0
	}
	f.done = make(chan struct{})
	if !f.watching {
		f.watching = true
		f.tasks.Go(f.watch)
	}
	in := f.pause - age
	f.tasks.Go(func() { f.refresh(in) })
	return f.done
}

// refresh asks, in a while, for the topology and makes it what is known.
func (f *Fleet[N]) refresh(in time.Duration) {
	if in > 0 {
		f.sleep(in)
	}
	f.mu.Lock()
	hint := f.hint
	f.begun, f.hint = time.Now(), ""
	f.mu.Unlock()
	m, err := f.ask(f.candidates(hint))
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.view.Load()
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

// candidates are the servers to ask, the best first.
func (f *Fleet[N]) candidates(hint string) []string {
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
	if v := f.view.Load(); v != nil {
		shards := v.topology.Shards
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

// answer is what one server has said.
type answer struct {
	m   *slots.Map
	err error
}

// ask asks servers until one answers. One that keeps silent is not waited for
// before the next is asked.
func (f *Fleet[N]) ask(addrs []string) (*slots.Map, error) {
	ctx, cancel := context.WithTimeout(f.ctx, f.o.Timeout)
	defer cancel() // those who are late need not go on
	answers := make(chan answer, len(addrs))
	next := time.NewTimer(hedge)
	defer next.Stop()
	due := true
	var err error
	for asked, heard := 0, 0; heard < len(addrs); {
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
			err = a.err
			heard++
			due = true
		}
	}
	return nil, err
}

// adopt makes m what is known, and lets go of nodes that are not what they were.
// changed says that it is not what was known. mu is held.
func (f *Fleet[N]) adopt(m *slots.Map, changed bool) {
	v := &View[N]{topology: m, at: time.Now()}
	left := f.nodes
	f.nodes = make(map[place]N, len(left))
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
	for _, n := range left {
		f.tasks.Go(func() { f.dismiss(n) })
	}
}

// dismiss closes a node that nobody finds any more, once calls that run there
// have had their time; one that says nothing at once. A server that has lost
// its role may be found in that role again, by another node with connections of
// its own: none outlives what it was opened for.
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

// watch has the topology refreshed when calls wait for a node that says nothing,
// which no error tells of, and now and then.
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
		return v != nil // before the first, those who call ask
	}
	for _, n := range f.Nodes() {
		// One that is silent for longer than a failover takes is slow, or was
		// asked to wait.
		d := f.o.Silent(n, now)
		if d >= stallAfter && (d < stallMost || now.Sub(v.at) >= stallMost) {
			return true
		}
	}
	return false
}
