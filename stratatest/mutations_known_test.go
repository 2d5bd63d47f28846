package stratatest

import (
	"context"
	"slices"

	"github.com/strata-cache/strata/remote"
)

// knownHeld changes the results of a Get with known values.
func knownHeld(f func(h *remote.Held, known remote.ID)) func(*Tier, context.Context, []string, []remote.ID) ([]remote.Held, error) {
	return func(t *Tier, ctx context.Context, keys []string, known []remote.ID) ([]remote.Held, error) {
		held, err := t.Get(ctx, keys, known...)
		for i := range held {
			f(&held[i], known[i])
		}
		return held, err
	}
}

// leftOut leaves out the data of h.
func leftOut(h *remote.Held) { h.Data, h.Same = nil, true }

func knownMutations() []mutation {
	first := map[remote.ID]bool{}
	return []mutation{
		{name: "the data comes all the same", check: "KnownValueMayBeLeftOut", known: knownHeld(func(h *remote.Held, _ remote.ID) {
			if h.Same {
				h.Data = []byte{}
			}
		})},
		{name: "lives are left out", check: "KnownValueMayBeLeftOut", known: knownHeld(func(h *remote.Held, _ remote.ID) {
			if h.Same {
				h.Fresh = 0
			}
		})},
		{name: "what is known is fresh", check: "KnownValueMayBeLeftOut", known: knownHeld(func(h *remote.Held, _ remote.ID) {
			if h.Same {
				h.Fresh, h.Soft = h.Left, false
			}
		})},
		{name: "known values need no lease", check: "KnownValueMayBeLeftOut", request: func(r *remote.Request) {
			if r.Known == r.Replace {
				r.Replace = 0
			}
		}},
		{name: "any ID will do", check: "OtherValuesAreNotLeftOut", known: knownHeld(func(h *remote.Held, known remote.ID) {
			if known != 0 && !h.Absent() {
				leftOut(h)
			}
		})},
		{name: "no ID will do", check: "OtherValuesAreNotLeftOut", known: knownHeld(func(h *remote.Held, known remote.ID) {
			if known == 0 && !h.Absent() {
				leftOut(h)
			}
		})},
		{name: "values stay known when they are replaced", check: "OtherValuesAreNotLeftOut", known: knownHeld(func(h *remote.Held, known remote.ID) {
			if first[known] {
				leftOut(h)
			}
			first[h.ID] = true
		}), get: eachHeld(func(h *remote.Held) { first[h.ID] = first[h.ID] || !h.Absent() })},
		{name: "dropped values are the same", check: "OtherValuesAreNotLeftOut", known: knownHeld(func(h *remote.Held, known remote.ID) {
			if h.Absent() && known != 0 {
				leftOut(h)
			}
		})},
		{name: "extended values keep their IDs", check: "ExtendedValueIsKnownByEarlierIDs", known: knownHeld(func(h *remote.Held, known remote.ID) {
			if h.Same {
				h.ID = known
			}
		})},
		{name: "known values have their earlier lives", check: "ExtendedValueIsKnownByEarlierIDs", known: knownHeld(func(h *remote.Held, known remote.ID) {
			if h.Same && h.ID != known {
				h.Fresh, h.Left = long, 2*long
			}
		})},
		{name: "known IDs are sorted", check: "KnownValuesLineUp", known: func(t *Tier, ctx context.Context, keys []string, known []remote.ID) ([]remote.Held, error) {
			for i, id := range known {
				if id != 0 {
					known[i] = slices.Max(known)
				}
			}
			held, err := t.Get(ctx, keys, known...)
			for i := range held {
				if known[i] != 0 && !held[i].Same {
					leftOut(&held[i])
				}
			}
			return held, err
		}},
	}
}
