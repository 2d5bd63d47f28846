package stratatest

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/remote"
)

// namespace is the state of one cache name. After a loss of it the store
// draws another epoch for the new one.
type namespace struct {
	asked                  bool // a view has read the state, so that it is kept
	epoch                  string
	drops, expiries, clock uint64
	tags                   *tagTable // nil until a view asks for tags, and after a loss
	lanes                  []remote.LaneVersion
	entries                map[string]entryrules.State // of keys
}

// tagTable has the clocks of the last drops of tags.
type tagTable struct {
	floor            uint64 // the clock at which the table was made: earlier drops are unknown
	dropped, expired map[string]uint64
}

func newEpoch() string { return fmt.Sprintf("%x", nonce()) }

// own returns the view's namespace.
func (t *Tier) own() *namespace {
	n := t.store.names[t.space.Name]
	if n == nil {
		n = &namespace{epoch: newEpoch(), entries: map[string]entryrules.State{}, lanes: make([]remote.LaneVersion, t.store.lanes)}
		t.store.begin(n)
		t.store.names[t.space.Name] = n
	}
	return n
}

// state is the text of the namespace state that leases carry.
func (n *namespace) state() string { return fmt.Sprintf("%s.%d.%d", n.epoch, n.drops, n.expiries) }

// lease returns a lease with the state and the tag clock only.
func (n *namespace) lease() remote.Lease {
	n.asked = true
	return remote.Lease{State: n.state(), Clock: n.clock}
}

// move counts a drop in a lane.
func (n *namespace) move(lane uint16) (was, is remote.LaneVersion) {
	was = n.lanes[lane]
	n.lanes[lane] = remote.LaneVersion{Count: was.Count + 1, Nonce: nonce()}
	return was, n.lanes[lane]
}

// table returns the table of tags. If there is none, it makes one at a clock
// that no lease has yet.
func (n *namespace) table() *tagTable {
	n.asked = true
	// The clock goes on, so that no lease from before the loss has the floor of the new table.
	if n.tags == nil {
		n.clock++
		n.tags = newTagTable(n.clock)
	}
	return n.tags
}

// begin begins an epoch of n. The table of tags begins at a clock that no
// earlier load has.
func (s *store) begin(n *namespace) {
	s.clock++
	n.clock = max(n.clock+1, s.clock<<32)
	n.tags = newTagTable(n.clock)
}

func newTagTable(floor uint64) *tagTable {
	return &tagTable{floor: floor, dropped: map[string]uint64{}, expired: map[string]uint64{}}
}

// DropAll makes everything with the view's name absent, or stale if soft, for
// all schemas. That includes later stores under a lease or token from before.
func (t *Tier) DropAll(ctx context.Context, soft bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, unlock := t.lock()
	defer unlock()
	t.own().asked = true
	kind, count := remote.AllDropped, &t.own().drops
	if soft {
		kind, count = remote.AllExpired, &t.own().expiries
	}
	*count++
	t.store.changes++
	m := t.message(kind, "")
	m.Is.Count = *count
	t.announce([]remote.Message{m})
	return nil
}

// DropTags increments the tag clock for each tag and notes it with the tag.
func (t *Tier) DropTags(ctx context.Context, tags []string, soft bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(tags) == 0 {
		return nil
	}
	_, unlock := t.lock()
	defer unlock()
	n := t.own()
	t.store.changes++
	table := n.table()
	kind, drops := remote.TagDropped, table.dropped
	if soft {
		kind, drops = remote.TagExpired, table.expired
	}
	messages := make([]remote.Message, len(tags))
	for i, tag := range tags {
		messages[i] = t.message(kind, tag)
		messages[i].Was.Count = n.clock
		n.clock++
		messages[i].Is.Count = n.clock
		drops[tag] = n.clock
	}
	t.announce(messages)
	return nil
}

// Tags returns the drops of each tag. A tag without a drop since then counts
// as dropped when the table of tags was made.
func (t *Tier) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(tags) == 0 {
		return nil, nil
	}
	_, unlock := t.lock()
	defer unlock()
	table := t.own().table()
	known := make([]remote.Tag, len(tags))
	for i, tag := range tags {
		known[i] = remote.Tag{Dropped: max(table.floor, table.dropped[tag]), Expired: table.expired[tag]}
	}
	return known, nil
}

// Position returns the position of the view's name. A lane without a version
// gets one.
func (t *Tier) Position(ctx context.Context) (remote.Position, error) {
	if err := ctx.Err(); err != nil {
		return remote.Position{}, err
	}
	_, unlock := t.lock()
	defer unlock()
	n := t.own()
	n.asked = true
	for i := range n.lanes {
		if n.lanes[i] == (remote.LaneVersion{}) {
			n.lanes[i].Nonce = nonce()
		}
	}
	return remote.Position{
		Epoch: n.epoch, Drops: n.drops, Expiries: n.expiries, Clock: n.clock, Lanes: slices.Clone(n.lanes),
	}, nil
}

// Changes returns the number of drops in all namespaces of the store, and of
// its losses.
func (t *Tier) Changes(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	_, unlock := t.lock()
	defer unlock()
	return fmt.Sprint(t.store.changes), nil
}

// Lane returns the lane of key.
func (t *Tier) Lane(key string) uint16 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return uint16(h.Sum32() % uint32(t.store.lanes))
}
