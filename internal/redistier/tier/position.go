// The position of the namespace: its state and the versions of all lanes. A lane is
// known, or missing: then it gets a new, random version.
// Invariant: after a drop may have been lost, the position differs from all earlier
// ones: a missing lane gets a random version, and the epoch changes when a server
// may have lost data, as far as servers report their authority.

package tier

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/strata-cache/strata/internal/redistier/layout"
	"github.com/strata-cache/strata/internal/redistier/namespace"
	"github.com/strata-cache/strata/internal/redistier/watch"
	"github.com/strata-cache/strata/internal/resp"
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
	var ns *namespace.State
	err = t.onOne(ctx, func(s *site, ask watch.Ask) error {
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
			p.Epoch += "@" + homes
		}
	}
	if err != nil {
		return remote.Position{}, t.explained(t.cleanNamespace(ctx, err))
	}
	return p, nil
}

// lanes returns the versions of all lanes, and gives a version to each lane
// that has none.
func (t *Tier) lanes(ask watch.Ask) ([]remote.LaneVersion, error) {
	mget := []any{"MGET"}
	for lane := range uint16(layout.Lanes) {
		mget = append(mget, t.names.LaneAt(lane))
	}
	var b watch.Batch // from the second try on it begins with commands that make versions
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
		b = watch.Batch{}
		found := make([]remote.LaneVersion, 0, layout.Lanes)
		for e := range v.Elems() {
			v, ok := layout.ParseLaneVersion(string(e.Bytes()))
			if found = append(found, v); !ok {
				t.makeLane(&b, t.names.LaneAt(uint16(len(found)-1)), e, try == 0)
			}
		}
		if b.N == 0 {
			return found, nil
		}
	}
	return nil, errLost
}

// makeLane queues the command that makes the version of a lane. v is the reply
// that has none.
func (t *Tier) makeLane(b *watch.Batch, key string, v resp.Value, first bool) {
	set := []any{"SET", key, layout.LaneVersion(remote.LaneVersion{Nonce: nonce()})}
	if first && v.Kind() == resp.Null {
		set = append(set, "NX") // another instance may be first
	} else {
		t.foreign.Add(1) // of another type, or no version
	}
	b.Add(set...)
}

// spreadLanes is lanes in a cluster. homes is a digest of the ids of all
// servers with lanes.
func (t *Tier) spreadLanes(ctx context.Context) (found []remote.LaneVersion, homes string, err error) {
	names := make([]string, layout.Lanes)
	for i := range names {
		names[i] = t.names.LaneAt(uint16(i))
	}
	found = make([]remote.LaneVersion, len(names))
	ids := make([]string, len(names))
	var mu sync.Mutex // guards found and ids
	err = t.each(len(names), func(i int) string { return names[i] }, func(part []int) error {
		for len(part) > 0 {
			var some []remote.LaneVersion
			var id string
			var again []int
			err := t.at(ctx, names[part[0]], true, func(ctx context.Context, s *site) (err error) {
				some, id, again, err = s.someLanes(ctx, pick(names, part))
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
	slices.Sort(ids)
	return found, namespace.Digest(strings.Join(slices.Compact(ids), " ")), err
}

// someLanes returns the versions of lanes that one server has, gives a version
// to each that has none, and returns the id of the server. again are the
// indexes of lanes that another server has; if the first lane is one of them,
// someLanes returns the error of that.
func (s *site) someLanes(ctx context.Context, names []string) (found []remote.LaneVersion, id string, again []int, err error) {
	err = s.srv.Together(ctx, true, func(ask watch.Ask) error {
		found, again = make([]remote.LaneVersion, len(names)), nil
		var b watch.Batch // from the second try on it begins with commands that make versions
		home := s.askHome(&b)
		todo := make([]int, len(names))
		for i := range todo {
			todo[i] = i
		}
		for try := range laneTries {
			for _, i := range todo {
				b.Add("GET", names[i])
			}
			replies, err := ask(&b)
			if err != nil {
				return err
			}
			if try == 0 {
				if _, err := s.answeredHome(home, replies); err != nil {
					return err
				}
				id = home.ID
			}
			b = watch.Batch{}
			missing := todo[:0]
			for j, v := range replies[len(replies)-len(todo):] {
				i := todo[j]
				version, ok := layout.ParseLaneVersion(string(v.Bytes()))
				switch err := refusal(v); {
				case ok:
					found[i] = version
				case i == 0 && s.elsewhere(err):
					return err
				case s.elsewhere(err):
					again = append(again, i)
				default:
					s.makeLane(&b, names[i], v, try == 0)
					missing = append(missing, i)
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
