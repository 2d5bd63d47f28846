package stratatest

import (
	"slices"

	"github.com/strata-cache/strata/remote"
)

// Snapshot is what a [Tier] held at some time. It can be restored any number of
// times.
type Snapshot struct {
	names map[string]*nameSpace
}

// Snapshot returns what the store holds, for all names.
func (t *Tier) Snapshot() Snapshot {
	_, unlock := t.lock()
	defer unlock()
	return Snapshot{cloneNames(t.store.names)}
}

// Restore sets the store back to s, as if a server had been restarted from an
// old file, or another had taken over that had not heard of everything. That
// is another authority, so the epochs change: no value from before is read, and
// what was known of tags means nothing. Rights that are in s are good again.
// Nobody is told.
func (t *Tier) Restore(s Snapshot) {
	_, unlock := t.lock()
	defer unlock()
	t.store.names = cloneNames(s.names)
	t.store.changes++
	for _, n := range t.store.names {
		n.epoch = newEpoch()
		t.store.begin(n)
	}
}

// Restart empties the store, as the restart of a server that keeps nothing on
// disk: every name gets another epoch. Nobody is told.
func (t *Tier) Restart() { t.Restore(Snapshot{}) }

// ForgetLane makes the store forget the lane of key, as if a server that is
// short of memory had evicted it.
func (t *Tier) ForgetLane(key string) {
	_, unlock := t.lock()
	defer unlock()
	t.store.changes++
	t.own().lanes[t.Lane(key)] = remote.Word{}
}

// ForgetTags makes the store forget what it knows of tags, as if a server that
// is short of memory had evicted it. The tag clock is kept elsewhere.
func (t *Tier) ForgetTags() {
	_, unlock := t.lock()
	defer unlock()
	if n := t.own(); n.asked { // else it knows of none
		n.tags = nil
	}
}

// Spoil makes what is held under key unreadable, as if another program had
// written to it. The next store repairs it.
func (t *Tier) Spoil(key string) {
	now, unlock := t.lock()
	defer unlock()
	for _, s := range t.record(key, now).slots {
		s.spoilt = s.id != 0
	}
}

// cloneNames copies all but the tables of tags, which no restored store keeps.
func cloneNames(names map[string]*nameSpace) map[string]*nameSpace {
	all := map[string]*nameSpace{}
	for name, n := range names {
		c := *n
		c.tags = nil
		c.lanes, c.records = slices.Clone(n.lanes), map[string]*record{}
		for key, r := range n.records {
			c.records[key] = r.clone()
		}
		all[name] = &c
	}
	return all
}

func (r *record) clone() *record {
	c := *r
	c.slots = map[uint64]*slot{}
	for schema, s := range r.slots {
		copied := *s // data is never written to
		c.slots[schema] = &copied
	}
	return &c
}
