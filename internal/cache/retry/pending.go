// The set of pending drops, and the merging of drops of one key or tag.
//
// States of a drop: pending, taken by an attempt (and pending still), removed;
// replaced by a stronger or repeated drop, or by a drop of everything.
//
// Invariant: a key or tag has at most one item, which is as strong as all its
// drops since the last confirmed attempt. Each added drop makes a new item, so
// that an attempt from before does not remove it.

package retry

import (
	"math"
	"slices"
	"time"

	"github.com/strata-cache/strata/remote"
)

// pending is the set of pending drops. The queue's mutex guards it.
type pending struct {
	keys map[string]*item
	tags map[string]*item
	all  *item // drop of everything; nil if none
	// servers have the drops of all keys of a server.
	servers map[string]*item
}

// item is a pending drop. A stronger or a repeated drop replaces it by a new
// item.
type item struct {
	soft  bool
	until time.Time // end of the hold; zero if there is none
	// lease is the right of a put of nothing, which is in place of a drop if it has a token.
	lease remote.Lease
	// failures is the number of failed attempts. It is the goroutine's own.
	failures int
}

// put makes i the item of a name in one of the maps, which are made when they are needed.
func put(m *map[string]*item, name string, i *item) {
	if *m == nil {
		*m = make(map[string]*item)
	}
	(*m)[name] = i
}

// len returns the number of drops.
func (p *pending) len() int {
	n := len(p.keys) + len(p.tags) + len(p.servers)
	if p.all != nil {
		n++
	}
	return n
}

// many reports whether the drops of more than most keys and tags are in the set.
func (p *pending) many(most int) bool { return len(p.keys)+len(p.tags) > most }

// addKeys adds drops of keys. A pending drop of everything takes in the drops
// without a hold.
func (p *pending) addKeys(drops []remote.Drop, now time.Time) {
	covered := p.coverByAll(!slices.ContainsFunc(drops, func(d remote.Drop) bool { return !d.Soft || d.Hold > 0 }))
	for i := range drops {
		if d := &drops[i]; !covered || d.Hold > 0 {
			p.addKey(d, now)
		}
	}
}

// addTags adds drops of tags, unless a drop of everything takes them in.
func (p *pending) addTags(tags []string, soft bool) {
	if p.coverByAll(soft) {
		return
	}
	for _, t := range tags {
		p.addTag(t, soft)
	}
}

// addKey adds a drop of a key, merged with the pending drop of the same key.
func (p *pending) addKey(d *remote.Drop, now time.Time) {
	next := &item{soft: d.Soft}
	if d.Hold > 0 {
		next.until = now.Add(d.Hold)
	}
	if old := p.keys[d.Key]; old != nil {
		next.soft = next.soft && old.soft
		// As in the tier, a hold is never shortened.
		if old.until.After(next.until) {
			next.until = old.until
		}
	}
	put(&p.keys, d.Key, next)
}

// addPuts adds puts of nothing. A pending drop of the key, or of everything, takes them in. Of two
// puts of one key the second counts: where one of them was overtaken by the other, or by a drop, the
// values from before both are gone.
func (p *pending) addPuts(puts []remote.Put, now time.Time) {
	if len(puts) == 0 || p.coverByAll(false) {
		return
	}
	for i := range puts {
		key := puts[i].Key
		if old := p.keys[key]; old != nil && old.lease.Token == 0 {
			p.addKey(&remote.Drop{Key: key}, now)
			continue
		}
		put(&p.keys, key, &item{lease: puts[i].Lease})
	}
}

// addTag adds a drop of a tag, merged with the pending drop of the same tag.
func (p *pending) addTag(tag string, soft bool) {
	next := &item{soft: soft}
	if old := p.tags[tag]; old != nil {
		next.soft = next.soft && old.soft
	}
	put(&p.tags, tag, next)
}

// addServers adds drops of all keys of servers, unless a drop of everything takes them in.
func (p *pending) addServers(servers []string, soft bool) {
	if p.coverByAll(soft) {
		return
	}
	for _, server := range servers {
		next := &item{soft: soft}
		if old := p.servers[server]; old != nil {
			next.soft = next.soft && old.soft
		}
		put(&p.servers, server, next)
	}
}

// coverByAll reports whether the pending drop of everything includes a new drop
// of the given strength. If so, it replaces the item: an attempt under way may
// have been carried out before the new drop, and must not confirm it.
func (p *pending) coverByAll(soft bool) bool {
	if p.all == nil || p.all.soft && !soft {
		return false
	}
	p.all = &item{soft: p.all.soft}
	return true
}

// collapse replaces all drops by a hard drop of everything, except up to
// maxHolds running holds: a drop of everything gives no key a hold. The caller
// chooses maxHolds so low that the next added drops do not make the set
// collapse again.
func (p *pending) collapse(now time.Time, maxHolds int) {
	holds := make(map[string]*item)
	for key, it := range p.keys {
		if it.until.After(now) && len(holds) < maxHolds {
			holds[key] = &item{until: it.until}
		}
	}
	p.keys = holds
	clear(p.tags)
	clear(p.servers)
	p.all = &item{}
}

// takeServer returns work for the server with the fewest failures.
func (p *pending) takeServer() (w work) {
	least := leastFailed(p.servers)
	for server, it := range p.servers {
		if it.failures == least {
			return work{server: server, soft: it.soft, items: []*item{it}}
		}
	}
	return w
}

// takeTags returns work for up to n of the tags with the fewest failures, all
// soft or all hard.
func (p *pending) takeTags(n int) (w work) {
	least := leastFailed(p.tags)
	for tag, it := range p.tags {
		if it.failures > least {
			continue
		}
		if len(w.tags) == 0 {
			w.soft = it.soft
		}
		if it.soft == w.soft && len(w.tags) < n {
			w.tags, w.items = append(w.tags, tag), append(w.items, it)
		}
	}
	return w
}

// takeKeys returns work for up to n of the keys with the fewest failures, all drops or
// all puts of nothing. A drop gets the rest of its hold at now.
func (p *pending) takeKeys(n int, now time.Time) (w work) {
	least := leastFailed(p.keys)
	// A map begins anywhere, so that no key is always the last one.
	for key, it := range p.keys {
		puts := it.lease.Token != 0
		if it.failures > least || len(w.items) == n || len(w.items) > 0 && puts != (len(w.puts) > 0) {
			continue
		}
		if w.items = append(w.items, it); puts {
			w.puts = append(w.puts, remote.Put{Key: key, Lease: it.lease, Drops: true})
		} else {
			w.drops = append(w.drops, remote.Drop{Key: key, Soft: it.soft, Hold: max(0, it.until.Sub(now))})
		}
	}
	return w
}

// leastFailed returns the lowest number of failures in m.
func leastFailed(m map[string]*item) int {
	least := math.MaxInt
	for _, it := range m {
		least = min(least, it.failures)
	}
	return least
}

// remove removes the drops of w, except those that a newer item has replaced.
func (p *pending) remove(w *work) {
	if p.all == w.all {
		p.all = nil
	}
	for i, it := range w.items {
		m, name := p.servers, w.server
		switch {
		case len(w.tags) > 0:
			m, name = p.tags, w.tags[i]
		case len(w.drops) > 0:
			m, name = p.keys, w.drops[i].Key
		case len(w.puts) > 0:
			m, name = p.keys, w.puts[i].Key
		}
		if m[name] == it {
			delete(m, name)
		}
	}
}
