// Drops that the tier has confirmed lately. An old primary may have confirmed them
// after another server had taken its place, and then no server but the old one knows
// them. So the queue repeats them when the tier has learned of another server.
//
// States of a drop: young, old (half of its time is over), forgotten; or taken by
// Repeat, and pending from then on.
//
// Invariant: a confirmed drop is remembered for rememberFor at least, by itself or by
// a drop of everything in place of too many single ones.

package retry

import (
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata/remote"
)

// rememberFor is the least time for which a confirmed drop is remembered. It is
// longer than the time in which a client hears of another server: without a bus and
// with one address this time is the life of a connection, a minute.
const rememberFor = 90 * time.Second

// confirmed are the lately confirmed drops.
type confirmed struct {
	max int // of keys and tags in each of the two

	mu         sync.Mutex // guards below
	young, old pending
	since      time.Time // young has no drops from before it
	all        time.Time // of the last drop that became a part of one of everything
}

// note adds drops to the young ones by add, and bounds their number.
func (c *confirmed) note(add func(*pending, time.Time)) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.since) >= rememberFor {
		c.old, c.young, c.since = c.young, pending{}, now
	}
	if add(&c.young, now); c.young.many(c.max) {
		c.young.collapse(now, c.max/2)
	}
	if c.young.all != nil {
		c.all = now
	}
}

// take returns all remembered drops, and forgets them.
func (c *confirmed) take() (all [2]pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.since) >= 2*rememberFor {
		c.young, c.old = pending{}, pending{}
	}
	all = [2]pending{c.old, c.young}
	c.old, c.young = pending{}, pending{}
	return all
}

// Confirmed notes drops that the tier has confirmed.
func (q *Queue) Confirmed(drops []remote.Drop) {
	if len(drops) == 0 {
		return
	}
	q.confirmed.note(func(p *pending, now time.Time) { p.addKeys(drops, now) })
}

// ConfirmedTags notes drops of tags that the tier has confirmed.
func (q *Queue) ConfirmedTags(tags []string, soft bool) {
	if len(tags) == 0 {
		return
	}
	q.confirmed.note(func(p *pending, _ time.Time) { p.addTags(tags, soft) })
}

// ConfirmedAll notes a drop of everything that the tier has confirmed.
func (q *Queue) ConfirmedAll(soft bool) {
	q.confirmed.note(func(p *pending, now time.Time) {
		if !soft {
			p.collapse(now, q.o.MaxKeys/2)
		} else if !p.coverByAll(true) {
			p.all = &item{soft: true}
		}
	})
}

// Remembers reports whether a drop of a key, or of one of tags, was confirmed lately, or a drop of everything,
// which may stand for many single ones, since a time.
func (q *Queue) Remembers(key string, tags []string, since time.Time) bool {
	c := &q.confirmed
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.all.IsZero() && !c.all.Before(since) {
		return true
	}
	for _, p := range []*pending{&c.young, &c.old} {
		if p.keys[key] != nil || slices.ContainsFunc(tags, func(t string) bool { return p.tags[t] != nil }) {
			return true
		}
	}
	return false
}

// Repeat makes the lately confirmed drops pending, and reports whether there were
// any. It is called when another server than the confirming one may answer from now
// on.
func (q *Queue) Repeat() (any bool) {
	for _, p := range q.confirmed.take() {
		any = any || p.len() > 0
		q.again(&p)
	}
	return any
}

// again makes the drops of p pending, with the rest of their holds.
func (q *Queue) again(p *pending) {
	now := time.Now()
	if drops := p.takeKeys(len(p.keys), now).drops; len(drops) > 0 {
		q.Add(drops, AtOnce)
	}
	for _, soft := range []bool{false, true} {
		var tags []string
		for t, it := range p.tags {
			if it.soft == soft {
				tags = append(tags, t)
			}
		}
		if slices.Sort(tags); len(tags) > 0 {
			q.AddTags(tags, soft, AtOnce)
		}
	}
	if p.all != nil {
		q.AddAll(p.all.soft, AtOnce)
	}
}
