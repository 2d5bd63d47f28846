// The position of the namespace: its state and the versions of all lanes. A lane is
// known; or unmade, as long as it has had no drop; or lost: then it gets a new, random
// version.
// Invariant: after a drop may have been lost, the position differs from all earlier
// ones: a lost lane gets a random version, and the epoch changes when a server
// may have lost data, as far as servers report their authority. A lane without a key is
// lost if this tier has seen a version of it, or if its server may have evicted the key since
// it began to run.

package tier

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/remote"
)

// laneTries is the number of attempts to make missing lane versions and read
// them back.
const laneTries = 4

// Lane returns the lane of key.
func (t *Tier) Lane(key string) uint16 { return layout.LaneOf(key) }

// Position reads the namespace state and the versions of all lanes.
//
// In a cluster the versions come from several servers, and so not from one
// instant. The epoch names all of these servers, and changes when one of them
// may have lost something.
func (t *Tier) Position(ctx context.Context) (p remote.Position, err error) {
	var ns *layout.State
	err = t.onOne(ctx, func(s *site, ask layout.Ask) error {
		// On one server the lanes are read over the same connection as the state, so both come from
		// one server even during a failover.
		if ns, err = s.askState(ask); err == nil && t.all == nil {
			p.Lanes, err = t.lanes(ask)
		}
		return err
	})
	if err == nil {
		p.Epoch, p.Drops, p.Expiries, p.Clock = ns.Epoch, ns.Drops, ns.Expiries, ns.Clock
		if t.all != nil {
			p.Spread = true
			var homes string
			p.Lanes, homes, err = t.spreadLanes(ctx)
			// A server other than the one of the namespace may have lost lanes. Its id is a part of
			// the epoch, so that its restart or failover changes the epoch.
			p.Epoch += "@" + homes
		}
	}
	if err != nil {
		return remote.Position{}, t.explained(t.cleanNamespace(ctx, err))
	}
	return p, nil
}

// made are the lanes of which a tier has seen a version.
type made [layout.Lanes / 64]atomic.Uint64

func (m *made) has(lane uint16) bool { return m[lane/64].Load()&(1<<(lane%64)) != 0 }

func (m *made) add(lane uint16) {
	if !m.has(lane) { // nearly always
		m[lane/64].Or(1 << (lane % 64))
	}
}

// keeps reports whether the server of a connection has evicted none of its keys without a
// life since it began to run.
func keeps(ask layout.Ask) (bool, error) {
	var b layout.Batch
	b.Add("INFO", "memory")
	b.Add("INFO", "stats")
	replies, err := ask(&b)
	if err != nil {
		return false, err
	}
	return layout.Keeps(replies[0], replies[1]), nil
}

// lanes returns the versions of all lanes, and gives a version to each lost lane.
func (t *Tier) lanes(ask layout.Ask) ([]remote.LaneVersion, error) {
	mget := []any{"MGET"}
	for lane := range uint16(layout.Lanes) {
		mget = append(mget, t.names.LaneAt(lane))
	}
	var b layout.Batch // from the second try on it begins with commands that make versions
	// Each try sends the versions made in the last one in front of the MGET. So the versions are
	// read back: if another instance has made one first, both get the same.
	for try := range laneTries {
		b.Add(mget...)
		replies, err := ask(&b)
		if err != nil {
			return nil, err
		}
		for _, v := range replies {
			if err := refusal(v); err != nil {
				return nil, err
			}
		}
		v := replies[len(replies)-1]
		if v.Len() != layout.Lanes {
			return nil, errAnswer
		}
		b = layout.Batch{}
		found := make([]remote.LaneVersion, 0, layout.Lanes)
		var unmade []uint16
		for e := range v.Elems() {
			lane := uint16(len(found))
			v, ok := layout.ParseLaneVersion(string(e.Bytes()))
			switch {
			case ok:
				t.made.add(lane)
			// Most lanes of a small cache have had no drop. Their keys are not made: 1024 keys for
			// each cache would take memory on the server for nothing.
			case e.Kind() == resp.Null && !t.made.has(lane):
				v, unmade = layout.Unmade, append(unmade, lane)
			// The lane had a version once, or its key holds something else. A drop may have been
			// lost with it, so it gets a version that no instance has seen.
			default:
				t.makeLane(&b, lane, e.Kind() == resp.Null && try == 0)
			}
			found = append(found, v)
		}
		// Asked after the lanes: a key that was evicted before them is counted.
		if len(unmade) > 0 {
			kept, err := keeps(ask)
			if err != nil {
				return nil, err
			}
			for _, lane := range unmade {
				if !kept {
					t.makeLane(&b, lane, try == 0)
				}
			}
		}
		// No version had to be made: all of them were read at one moment.
		if b.N == 0 {
			return found, nil
		}
	}
	return nil, errLost
}

// makeLane queues the command that makes the version of a lane. absent: the lane has no key, as
// far as is known in time. Else its key is of another type, or holds no version, and is
// replaced.
func (t *Tier) makeLane(b *layout.Batch, lane uint16, absent bool) {
	set := []any{"SET", t.names.LaneAt(lane), layout.LaneVersion(remote.LaneVersion{Nonce: nonce()})}
	if absent {
		set = append(set, "NX") // another instance may be first
	} else {
		t.foreign.Add(1) // of another type, or no version
	}
	b.Add(set...)
}

// spreadLanes is lanes in a cluster. homes is a digest of the ids of all
// servers with lanes.
func (t *Tier) spreadLanes(ctx context.Context) (found []remote.LaneVersion, homes string, err error) {
	found = make([]remote.LaneVersion, layout.Lanes)
	ids := make([]string, layout.Lanes)
	name := func(lane int) string { return t.names.LaneAt(uint16(lane)) }
	var mu sync.Mutex // guards found and ids
	err = t.each(layout.Lanes, name, func(part []int) error {
		// A part shrinks to the lanes that have moved to other servers since the topology was read.
		// The first of them leads to its server.
		for len(part) > 0 {
			var some []remote.LaneVersion
			var id string
			var again []int
			err := t.at(ctx, name(part[0]), true, func(ctx context.Context, s *site) (err error) {
				some, id, again, err = s.someLanes(ctx, part)
				return err
			})
			if err != nil {
				return err
			}
			mu.Lock()
			for j, i := range part {
				found[i], ids[i] = some[j], id
			}
			mu.Unlock()
			part = pick(part, again)
		}
		return nil
	})
	// Nodes answer in any order. Sorted and without repetitions the ids give the same digest as
	// long as the same servers, in the same lives, have the lanes.
	slices.Sort(ids)
	return found, layout.Digest(strings.Join(slices.Compact(ids), " ")), err
}

// someLanes returns the versions of the lanes on one server, gives a version to each lost
// lane, and returns the id of the server. again are the indexes of the lanes on other
// servers; if the first lane is one of them, someLanes returns the redirection as its
// error.
func (s *site) someLanes(ctx context.Context, lanes []int) (found []remote.LaneVersion, id string, again []int, err error) {
	err = s.srv.Together(ctx, true, func(ask layout.Ask) error {
		// Together may run this function again on another connection: what the first run has found
		// is of a server that may be gone.
		found, again = make([]remote.LaneVersion, len(lanes)), nil
		var b layout.Batch // from the second try on it begins with commands that make versions
		home := s.askHome(&b)
		todo := make([]int, len(lanes))
		for i := range todo {
			todo[i] = i
		}
		for try := range laneTries {
			for _, i := range todo {
				b.Add("GET", s.names.LaneAt(uint16(lanes[i])))
			}
			replies, err := ask(&b)
			if err != nil {
				return err
			}
			// The report comes over the same connection as the lanes, so its id is the id of the
			// server that has them.
			if try == 0 {
				if _, err := s.answeredHome(home, replies); err != nil {
					return err
				}
				id = home.ID
			}
			b = layout.Batch{}
			missing, unmade := todo[:0], []int(nil)
			for j, v := range replies[len(replies)-len(todo):] {
				i := todo[j]
				lane := uint16(lanes[i])
				version, ok := layout.ParseLaneVersion(string(v.Bytes()))
				switch err := refusal(v); {
				case ok:
					s.made.add(lane)
					found[i] = version
				case i == 0 && s.elsewhere(err):
					return err
				case s.elsewhere(err):
					again = append(again, i)
				case v.Kind() == resp.Null && !s.made.has(lane):
					found[i], unmade = layout.Unmade, append(unmade, i)
				default:
					s.makeLane(&b, lane, v.Kind() == resp.Null && try == 0)
					missing = append(missing, i)
				}
			}
			// Asked after the lanes: a key that was evicted before them is counted.
			if len(unmade) > 0 {
				kept, err := keeps(ask)
				if err != nil {
					return err
				}
				for _, i := range unmade {
					if !kept {
						s.makeLane(&b, uint16(lanes[i]), try == 0)
						missing = append(missing, i)
					}
				}
			}
			if todo = missing; len(todo) == 0 {
				return nil
			}
		}
		return errLost
	})
	return found, id, again, err
}
