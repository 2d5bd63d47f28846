package castier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata/remote"
)

// now returns the present time of a server.
func (t *Tier) now(ctx context.Context, server int) (instant, error) {
	return t.names.clock(server).now(ctx, func(ctx context.Context) (time.Time, time.Duration, error) {
		ctx, s, err := t.on(ctx, server)
		if err != nil {
			return time.Time{}, 0, err
		}
		return askTime(ctx, s)
	})
}

// Get implements [remote.Tier]. If only some servers answer, the error is
// [remote.KeyErrors]. Large values take a second round trip, unless they are known.
func (t *Tier) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	all := make([]remote.Held, len(keys))
	errs := make([]error, len(keys))
	byServer := map[int][]int{}
	for i, key := range keys {
		if err := checkName(key); err != nil {
			return nil, err
		}
		item, _ := t.entry(key)
		home := t.servers.Home(item)
		byServer[home] = append(byServer[home], i)
	}
	each(byServer, func(server int, some []int) {
		err := t.read(ctx, server, reading{keys, known, all, errs}, some)
		for _, i := range some {
			// A key with an error must not have half of an answer.
			if errs[i] = t.of(server, cmp.Or(err, errs[i])); errs[i] != nil {
				all[i] = remote.Held{}
			}
		}
	})
	return all, remote.JoinKeys(errs)
}

// reading is a Get: its arguments, and the result and the error of each key.
type reading struct {
	keys  []string
	known []remote.ID
	all   []remote.Held
	errs  []error
}

// read reads the entries of some keys from their server.
func (t *Tier) read(ctx context.Context, server int, g reading, some []int) error {
	var lost map[int]uint64
	for turn := 0; len(some) > 0; turn++ {
		if turn == maxTurns {
			return errContended
		}
		if err := t.states(ctx, server, g, some); err != nil {
			return err
		}
		var values []*wanted
		for _, i := range some {
			if _, is := referred(g.all[i].Data); is && g.errs[i] == nil {
				values = append(values, &wanted{at: i, key: g.keys[i], held: &g.all[i]})
			}
		}
		if len(values) == 0 {
			return nil
		}
		if err := t.fetch(ctx, server, values); err != nil {
			return err
		}
		// A missing item may belong to a value replaced since the state was read.
		some = nil
		for _, w := range values {
			g.errs[w.at] = w.err
			// The same value missing twice was not replaced but evicted: to read on would change
			// nothing.
			if w.lost != 0 && lost[w.at] != w.lost {
				if lost == nil {
					lost = map[int]uint64{}
				}
				some, lost[w.at] = append(some, w.at), w.lost
			}
		}
	}
	return nil
}

// states reads the states of some keys from their server.
func (t *Tier) states(ctx context.Context, server int, g reading, some []int) error {
	if _, err := t.now(ctx, server); err != nil {
		return err
	}
	r := t.ask(ctx, server)
	keys := make([]string, len(some))
	for k, i := range some {
		keys[k], _ = t.entry(g.keys[i])
	}
	// The keys of a call to a Store differ; callers may name a key twice.
	distinct, places := distinctOf(keys)
	items, errs, err := t.readBehind(ctx, &r, distinct)
	if err != nil {
		return err
	}
	items, errs = spread(items, errs, places)
	at := t.names.clock(server).at(time.Now())
	for k, i := range some {
		g.all[i], g.errs[i] = remote.Held{}, errs.at(k)
		if items[k].Version == (Version{}) || g.errs[i] != nil {
			continue
		}
		_, name := t.entry(g.keys[i])
		v := t.open(items[k].Value, name).Slot(t.schema).Value
		if g.all[i] = held(v, r.state, at.late); len(g.known) > 0 {
			leaveOut(&g.all[i], &v, g.known[i])
		}
	}
	return nil
}

// DropAll implements [remote.Tier]: it counts a drop on each server. If only some
// servers answer, the error is a [remote.NotToldError].
func (t *Tier) DropAll(ctx context.Context, soft bool) error {
	// This instance must not believe in the counters that it has read before its own drop.
	defer t.names.recheck()
	return onAll(t.servers, func(server int) error { return t.dropOn(ctx, server, soft) })
}

// Moved tells t that the list of the servers of its [Fleet] has changed. A server of the new list
// may have items that missed drops: while the server was not in the list, or while their keys had
// other homes. So no value from before is used: each server counts a drop of everything, for each
// namespace in use, now or before its next use. If only some servers have answered, the error is a
// [remote.NotToldError].
func Moved(ctx context.Context, t *Tier) error {
	if first, _ := t.servers.Servers(); first == 0 {
		return nil
	}
	t.mu.Lock()
	all := slices.DeleteFunc(slices.Collect(maps.Values(t.byName)), (*namespace).unused)
	t.mu.Unlock()
	return onAll(t.servers, func(server int) error {
		for _, n := range all {
			if err := (&Tier{shared: t.shared, names: n}).know(ctx, server); err != nil {
				return err
			}
		}
		return nil
	})
}

// know asks for the counters of a server, unless they are known.
func (t *Tier) know(ctx context.Context, server int) error {
	r := t.ask(ctx, server)
	if r.done {
		return nil
	}
	_, _, err := t.readBehind(ctx, &r, nil)
	return t.of(server, err)
}

// onAll calls f for all servers at once. If it fails for some of them, the error is a
// [remote.NotToldError].
func onAll(s Fleet, f func(server int) error) error {
	servers := map[int]bool{}
	first, n := s.Servers()
	for i := range n {
		servers[first+i] = true
	}
	var mu sync.Mutex // guards untold and errs
	var untold []string
	var errs []error
	each(servers, func(server int, _ bool) {
		if err := f(server); err != nil {
			mu.Lock()
			defer mu.Unlock()
			untold, errs = append(untold, s.Name(server)), append(errs, err)
		}
	})
	switch len(untold) {
	case 0:
		return nil
	// No server was told: that is an ordinary failure, and the caller repeats the whole drop.
	case len(servers):
		return errors.Join(errs...)
	}
	slices.Sort(untold)
	return &remote.NotToldError{Servers: untold, Err: errors.Join(errs...)}
}

// dropOn counts a drop on a server.
func (t *Tier) dropOn(ctx context.Context, server int, soft bool) error {
	kind := byte(dropsItem)
	if soft {
		kind = expiriesItem
	}
	_, err := t.add(ctx, server, append(t.tellEarlier(server, kind), t.names.counter(t.names.several(), kind, 1)))
	return t.of(server, err)
}

// Servers implements [remote.Fleet].
func (t *Tier) Servers() []string {
	first, n := t.servers.Servers()
	all := make([]string, n)
	for i := range all {
		all[i] = t.servers.Name(first + i)
	}
	return all
}

// ServerOf implements [remote.Fleet].
func (t *Tier) ServerOf(key string) string {
	item, _ := t.entry(key)
	return t.servers.Name(t.servers.Home(item))
}

// DropAllOf implements [remote.Fleet]. A server outside the list has nothing to drop: if it
// comes back, no value from before is used.
func (t *Tier) DropAllOf(ctx context.Context, server string, soft bool) error {
	first, n := t.servers.Servers()
	for at := first; at < first+n; at++ {
		if t.servers.Name(at) == server {
			defer t.names.recheck()
			return t.dropOn(ctx, at, soft)
		}
	}
	if first == 0 {
		return fmt.Errorf("castier: there is no server %q", server)
	}
	return nil
}
