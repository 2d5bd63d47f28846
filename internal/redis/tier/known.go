// Reads of values that the caller may have already: the state tells whether it has them, and
// a second command reads the missing ones. A script could do both at once, but takes five
// times as long for a large value as HMGET.
// Invariant: a value is Same only if its state, or the field with its earlier ids, names the
// id that the caller has given for this key.

package tier

import (
	"cmp"
	"context"
	"time"

	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/remote"
)

// pickKnown is pick for ids, a list that may be empty.
func pickKnown(known []remote.ID, some []int) []remote.ID {
	if len(known) == 0 {
		return nil
	}
	return pick(known, some)
}

// getUnknown is getSome without the values that the caller has.
func (s *site) getUnknown(ctx context.Context, ask bool, ns *layout.State, keys []string, known []remote.ID) (held []remote.Held, again []int, err error) {
	// The first round trip brings the values of keys of which the caller has none, and of the
	// others the state and the earlier ids alone, which are small.
	replies, ns, err := s.read(ctx, ask, ns, func(b *layout.Batch) {
		for i, k := range keys {
			if known[i] == 0 {
				b.Text = s.appendGet(b.Text, k)
			} else {
				b.Text = s.appendGetState(b.Text, k)
			}
			b.N++
		}
	})
	if err != nil {
		return nil, nil, err
	}
	held = make([]remote.Held, len(keys))
	var unknown []int
	var moved error
	now := ns.Now(time.Now())
	for i, v := range replies {
		done := true
		if known[i] == 0 {
			held[i], err = s.held(v, ns, now)
		} else {
			held[i], done, err = s.heldState(v, ns, now, known[i])
		}
		switch {
		case s.elsewhere(err):
			again, moved = append(again, i), cmp.Or(moved, err)
		case err != nil:
			return nil, nil, err
		case !done:
			unknown = append(unknown, i)
		}
	}
	switch {
	case len(again) == len(keys):
		return nil, nil, moved
	case len(unknown) == 0:
		return held, again, nil
	}
	// The second round trip brings the values that the caller turned out not to have. The state was
	// read a moment ago: getSome reads it again only if a connection was opened since.
	values, later, err := s.getSome(ctx, false, ns, pick(keys, unknown))
	if err != nil {
		return nil, nil, err
	}
	for j, i := range unknown {
		held[i] = values[j]
	}
	return held, append(again, pick(unknown, later)...), nil
}

// appendGetState appends the command that reads the state of key's value and its earlier ids.
func (t *Tier) appendGetState(dst []byte, key string) []byte {
	dst = append(dst, hmget...)
	dst = t.appendEntry(dst, key)
	dst = resp.AppendString(dst, t.names.State)
	return resp.AppendString(dst, t.names.Earlier)
}

// heldState parses the reply to the command of appendGetState. done is false if there is a
// value that the caller does not have.
func (t *Tier) heldState(v resp.Value, ns *layout.State, now int64, known remote.ID) (h remote.Held, done bool, err error) {
	if refusal(v) != nil {
		h, err = t.held(v, ns, now)
		return h, true, err
	}
	var f [2]resp.Value // state, earlier ids
	i := 0
	for e := range v.Elems() {
		if i < len(f) {
			f[i] = e
		}
		i++
	}
	found := layout.Value(f[0], ns.Text)
	if h = t.open(&found, ns, now); h.Absent() {
		return h, true, nil
	}
	// A state that is fresh or stale is not enough: the caller's value is the stored one only if
	// the ids say so. Otherwise the value has to be read (promise F8b).
	h.Same = layout.HasBytes(found.ID, f[1].Bytes(), uint64(known))
	return h, h.Same, nil
}
