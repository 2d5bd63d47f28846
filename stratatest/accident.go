package stratatest

import (
	"maps"
	"slices"

	"github.com/strata-cache/strata/internal/entryrules"
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
	t.own().lanes[t.Lane(key)] = remote.LaneVersion{}
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
	_, unlock := t.lock()
	defer unlock()
	s, ok := t.own().entries[key]
	if !ok {
		return
	}
	s.Slots = slices.Clone(s.Slots)
	for i := range s.Slots {
		if v := &s.Slots[i].Value; v.ID != 0 {
			*v = entryrules.Value{Unreadable: true}
		}
	}
	t.own().entries[key] = s
}

// cloneNames copies all but the tables of tags, which no restored store keeps.
// The states of entries are shared: they are replaced, not changed.
func cloneNames(names map[string]*nameSpace) map[string]*nameSpace {
	all := map[string]*nameSpace{}
	for name, n := range names {
		c := *n
		c.tags = nil
		c.lanes, c.entries = slices.Clone(n.lanes), maps.Clone(n.entries)
		all[name] = &c
	}
	return all
}
