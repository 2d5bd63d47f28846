package stratatest

import (
	"maps"
	"slices"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/remote"
)

// Snapshot is the data of a [Tier] at some time. It can be restored any number
// of times.
type Snapshot struct {
	names map[string]*namespace
}

// Snapshot returns the data of the store, for all names.
func (t *Tier) Snapshot() Snapshot {
	_, unlock := t.lock()
	defer unlock()
	return Snapshot{cloneNames(t.store.names)}
}

// Restore sets the store back to s, as if a server had been restarted from an
// old file, or another server had taken over without the last changes. The
// restored store is another authority, so the epochs change: no earlier value
// is read, and the known drops of tags mean nothing. Leases and tokens in s
// are valid again. Nothing is announced.
func (t *Tier) Restore(s Snapshot) {
	_, unlock := t.lock()
	defer unlock()
	t.store.names = cloneNames(s.names)
	t.store.changes++
	t.store.moves.Add(1)
	for _, n := range t.store.names {
		n.epoch = newEpoch()
		t.store.begin(n)
	}
}

// Restart empties the store, as the restart of a server that keeps nothing on
// disk: every name gets another epoch. Nothing is announced.
func (t *Tier) Restart() { t.Restore(Snapshot{}) }

// ForgetLane makes the store forget the version of key's lane, as if a server
// short of memory had evicted it.
func (t *Tier) ForgetLane(key string) {
	_, unlock := t.lock()
	defer unlock()
	t.store.changes++
	t.own().lanes[t.Lane(key)] = remote.LaneVersion{}
}

// ForgetTags makes the store forget the table of tags, as if a server
// short of memory had evicted it. The tag clock is kept elsewhere.
func (t *Tier) ForgetTags() {
	_, unlock := t.lock()
	defer unlock()
	if n := t.own(); n.asked { // else there is no table
		n.tags = nil
	}
}

// Spoil makes the value under key unreadable, as if another program had written
// to it. The next store repairs it.
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

// cloneNames copies the names without the tables of tags, which no restored
// store keeps. The states of entries are shared: they are replaced, not
// changed.
func cloneNames(names map[string]*namespace) map[string]*namespace {
	all := map[string]*namespace{}
	for name, n := range names {
		c := *n
		c.tags = nil
		c.lanes, c.entries = slices.Clone(n.lanes), maps.Clone(n.entries)
		all[name] = &c
	}
	return all
}
