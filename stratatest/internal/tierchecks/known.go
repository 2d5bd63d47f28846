package tierchecks

import (
	"strings"

	"github.com/strata-cache/strata/remote"
)

// knownChecks are the promises about values that the caller has. A tier need not leave
// any out.
func knownChecks() []tierCheck {
	return []tierCheck{
		{"KnownValueMayBeLeftOut", checkKnown},
		{"OtherValuesAreNotLeftOut", checkKnownOthers},
		{"ExtendedValueIsKnownByEarlierIDs", checkKnownExtended},
		{"KnownValuesLineUp", checkKnownLineUp},
	}
}

// largeValue is a value beginning with name that it pays to leave out.
func largeValue(name string) string { return name + strings.Repeat(".", 5000) }

// reads reads key for a caller that holds the bytes in has, with the ID known. It returns the value
// as the caller has it then.
func (v *view) reads(key string, known remote.ID, has string) remote.Held {
	v.Helper()
	held, err := v.Get(v.ctx, []string{key}, known)
	if err != nil || len(held) != 1 {
		v.Fatalf("Get(%q) with a known value = %d results, %v; want 1", key, len(held), err)
	}
	return v.whole(held[0], known, has)
}

// whole returns h with the bytes has if its own were left out.
func (v *view) whole(h remote.Held, known remote.ID, has string) remote.Held {
	v.Helper()
	switch {
	case !h.Same:
		return h
	case known == 0, h.Absent(), h.Data != nil:
		v.Errorf("held %.100v is Same; the caller has value %d", h, known)
	}
	h.Data, h.Same = []byte(has), false
	return h
}

// asks requests the lease of key, for the time long, for a caller that holds the bytes in has, with
// the ID known. It returns the value as the caller has it then.
func (v *view) asks(key string, replace, known remote.ID, has string) (remote.Held, remote.Lease) {
	v.Helper()
	a, err := v.Acquire(v.ctx, []remote.Request{{Key: key, Replace: replace, Known: known}}, long)
	if err != nil || len(a) != 1 || a[0].Err != nil {
		v.Fatalf("Acquire(%q) with a known value = %d results, %v", key, len(a), err)
	}
	return v.whole(a[0].Held, known, has), a[0].Lease
}

// isHeld fails unless h is the value with that ID and these bytes, fresh.
func (v *view) isHeld(event string, h remote.Held, id remote.ID, data string) {
	v.Helper()
	if h.ID != id || string(h.Data) != data || h.Fresh <= 0 || h.Left < h.Fresh || h.Soft || h.All {
		v.Errorf("%s: held %.60q, ID %d, Fresh %v, Left %v, Soft %t; want %.20q with ID %d, fresh", event, h.Data, h.ID, h.Fresh, h.Left, h.Soft, data, id)
	}
}

// checkKnown: a value that the caller has comes with its state, and the lease for it is
// granted, or not, as to others.
func checkKnown(v *view) {
	old := largeValue("old")
	v.fill("k", old)
	id := v.holdsFresh("k", old).ID
	v.isHeld("Get", v.reads("k", id, old), id, old)
	held, lease := v.asks("k", 0, id, old)
	v.isHeld("Acquire", held, id, old)
	if lease.Grant != remote.Free {
		v.Errorf("Acquire of a fresh value that is known = grant %d, want Free", lease.Grant)
	}
	held, lease = v.asks("k", id, id, old)
	v.isHeld("Acquire to replace", held, id, old)
	if lease.Grant != remote.Granted {
		v.Fatalf("Acquire to replace a value that is known = grant %d, want Granted", lease.Grant)
	}
	if h, l := v.asks("k", id, id, old); l.Grant != remote.Busy || h.ID != id {
		v.Errorf("Acquire beside it = grant %d, ID %d; want Busy, %d", l.Grant, h.ID, id)
	}
	v.drop(remote.Drop{Key: "k", Soft: true})
	if h := v.reads("k", id, old); h.ID != id || string(h.Data) != old || h.Fresh > 0 || !h.Soft {
		v.Errorf("made stale: held %.60q, ID %d, Fresh %v, Soft %t; want the value %d, Soft", h.Data, h.ID, h.Fresh, h.Soft, id)
	}
}

// checkKnownOthers: a tier leaves out a value only for the ID of the value itself.
func checkKnownOthers(v *view) {
	old, other, now := largeValue("old"), largeValue("other"), largeValue("new")
	v.fill("k", old)
	was := v.holdsFresh("k", old).ID
	v.fill("other", other)
	ids := map[string]remote.ID{"none": 0, "an older value": was, "another key's": v.holdsFresh("other", other).ID}
	v.stores("k", now, v.refreshes("k", old, was))
	id := v.holdsFresh("k", now).ID
	ids["a guess"] = id ^ 1
	for name, known := range ids {
		v.isHeld("Get with the ID of "+name, v.reads("k", known, "wrong"), id, now)
		held, _ := v.asks("k", 0, known, "wrong")
		v.isHeld("Acquire with the ID of "+name, held, id, now)
	}
	for key, data := range map[string]string{"k": now, "other": other} { // others are not mistaken for it either
		if h := v.reads(key, id, now); string(h.Data) != data {
			v.Errorf("%q: got %.20q, want %.20q", key, h.Data, data)
		}
	}
	v.drop(remote.Drop{Key: "k"})
	if h := v.reads("k", id, now); !h.Absent() || h.Data != nil {
		v.Errorf("after a drop: held %.60q, ID %d; want absent", h.Data, h.ID)
	}
	if h, l := v.asks("k", 0, id, now); !h.Absent() || h.Data != nil || l.Grant != remote.Granted {
		v.Errorf("after a drop: Acquire = grant %d, held ID %d; want Granted, absent", l.Grant, h.ID)
	}
}

// checkKnownExtended: an extended value has another ID and other lives, and may still
// be known by an earlier one. The value that replaces it is not.
func checkKnownExtended(v *view) {
	old, now := largeValue("old"), largeValue("new")
	v.fill("k", old)
	id := v.holdsFresh("k", old).ID
	var ids []remote.ID
	for range 5 {
		lease := v.refreshes("k", old, id)
		v.extends("k", lease, id)
		ids, id = append(ids, id), remote.ID(lease.Token)
		for _, known := range ids {
			h := v.reads("k", known, old)
			v.isHeld("Get of an extended value", h, id, old)
			v.lives(h, 3*long, 4*long)
			held, _ := v.asks("k", 0, known, old)
			v.isHeld("Acquire of an extended value", held, id, old)
		}
	}
	v.stores("k", now, v.refreshes("k", old, id))
	ids, id = append(ids, id), v.holdsFresh("k", now).ID
	lease := v.refreshes("k", now, id)
	v.extends("k", lease, id)
	for _, known := range ids {
		v.isHeld("Get of the next value", v.reads("k", known, "wrong"), remote.ID(lease.Token), now)
	}
}

// checkKnownLineUp: each known ID is about the key with its index.
func checkKnownLineUp(v *view) {
	keys := []string{"a", "b", "c", "d"}
	known := make([]remote.ID, len(keys))
	for i, key := range keys {
		if key == "d" {
			continue // absent
		}
		v.fill(key, largeValue(key))
		if known[i] = v.holdsFresh(key, largeValue(key)).ID; key == "b" {
			known[i] = 0
		}
	}
	known[3] = known[0]
	held, err := v.Get(v.ctx, keys, known...)
	if err != nil || len(held) != len(keys) {
		v.Fatalf("Get = %d results, %v; want %d", len(held), err, len(keys))
	}
	for i, key := range keys[:3] {
		if h := v.whole(held[i], known[i], largeValue(key)); string(h.Data) != largeValue(key) {
			v.Errorf("%q: got %.20q", key, h.Data)
		}
	}
	if h := v.whole(held[3], known[3], "wrong"); !h.Absent() {
		v.Errorf("an absent key: held %.60v", h)
	}
}
