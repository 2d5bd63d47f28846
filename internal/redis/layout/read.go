// The fields of an entry, parsed to the state on which entryrules decides and
// written back. A field is missing, damaged or readable.
// Invariant: a damaged lease, token or hold counts as missing. A damaged state of a
// value is unreadable: the value is absent, and takes up room.

package layout

import (
	"strconv"
	"strings"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/redis/resp"
)

// known is the state of an entry read at the time now, in ms of the server's
// clock.
type known struct {
	entryrules.State
	now  int64
	lane string // its version, in the stored form
}

// need tells which data an operation reads besides the state of its own value
// type.
type need struct {
	value  bool // the data of the value
	others bool // the states of other types
	lane   bool // the version of the lane
}

func needs(op entryrules.Operation) need {
	switch op := op.(type) {
	case entryrules.Acquire:
		return need{value: true}
	case entryrules.Put:
		return need{others: true, lane: true}
	case entryrules.Drop:
		return need{others: op.Soft, lane: true}
	}
	return need{}
}

// read reads the state of the entry: in one round trip, or in two if values of
// other types count.
func (e Entry) read(t *tx, w need) (k known, err error) {
	n, entry := e.Names, e.Names.Entry(e.Key)
	r, err := t.read(func(b *Batch) {
		// Everything is read in one round trip, under the WATCH that goes out with it. The value
		// itself is read only if the operation returns it.
		get := []any{"HMGET", entry, n.State, n.Lease, "h", n.Awaited, "t"}
		if w.value {
			get = append(get, n.Value)
		}
		b.Add(get...)
		b.Add("PTTL", entry)
		b.Add("TIME")
		if w.lane {
			b.Add("GET", n.Lane(e.Key))
		}
		// Which other types there are shows only in the names of the fields, so their states take
		// another round trip.
		if w.others {
			b.Add("HKEYS", entry)
		}
	})
	if err != nil {
		return k, err
	}
	f := fields(r[0], 6)
	own := parseSlot(n.Schema, f[0], f[1], f[3])
	if f[5].Kind() == resp.Bulk {
		own.Value.Data = f[5].Bytes()
	}
	k.now = Time(r[2])
	k.State = entryrules.State{Slots: []entryrules.Slot{own}, Hold: parseHold(text(f[2])), Token: parseToken(text(f[4]))}
	// PTTL is a duration; the end is a time of the clock by which the operation is decided.
	if pttl := r[1].Int(); pttl >= 0 {
		k.Until = k.now + max(1, pttl) // the server still has the entry
	}
	if w.lane {
		k.lane = text(r[3])
	}
	if w.others {
		others, err := t.others(entry, n.Schema, r[len(r)-1])
		k.Slots = append(k.Slots, others...)
		return k, err
	}
	return k, nil
}

// others reads the slots of other value types than own, of an entry with fields
// of these names.
func (t *tx) others(entry, own string, names resp.Value) (slots []entryrules.Slot, err error) {
	var schemas []string
	get := []any{"HMGET", entry}
	seen := map[string]bool{own: true}
	for v := range names.Elems() {
		name := text(v)
		// The first letter of a field's name says its kind. Fields of other kinds have no value
		// type in their names.
		if name == "" || !strings.Contains("svlw", name[:1]) || seen[name[1:]] {
			continue
		}
		schema := name[1:]
		seen[schema], schemas = true, append(schemas, schema)
		get = append(get, "s"+schema, "l"+schema, "w"+schema)
	}
	if len(schemas) == 0 {
		return nil, nil
	}
	r, err := t.read(func(b *Batch) { b.Add(get...) })
	if err != nil {
		return nil, err
	}
	f := fields(r[0], 3*len(schemas))
	for i, schema := range schemas {
		slots = append(slots, parseSlot(schema, f[3*i], f[3*i+1], f[3*i+2]))
	}
	return slots, nil
}

// field is a field of an entry in the stored form.
type field struct{ name, text string }

// storedFields returns the fields of a state without the data of values.
// Unreadable values are not written.
func storedFields(s entryrules.State) (all []field) {
	for i := range s.Slots {
		slot := &s.Slots[i]
		switch {
		// An unreadable value stays as it is: its text is empty before and after, so it is never
		// written. It is named so that a drop removes its field.
		case slot.Value.Unreadable:
			all = append(all, field{"s" + slot.Schema, ""})
		case slot.Value.ID != 0:
			all = append(all, field{"s" + slot.Schema, string(AppendState(nil, &slot.Value))})
		}
		if l := slot.Lease; l.Token != 0 {
			all = append(all, field{"l" + slot.Schema, Hex(l.Token) + " " + times(l.Until, l.Length)})
		}
		if slot.Awaited {
			all = append(all, field{"w" + slot.Schema, "1"})
		}
	}
	if t := s.Token; t.Token != 0 {
		mark := ""
		if t.Quiet {
			mark = "0"
		}
		all = append(all, field{"t", mark + Hex(t.Token) + " " + times(t.Until)})
	}
	if h := s.Hold; h != (entryrules.Hold{}) {
		all = append(all, field{"h", times(h.Until, h.Length)})
	}
	return all
}

func times(ms ...int64) string {
	var b []byte
	for i, n := range ms {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(b)
}

// parseSlot parses the fields of one value type.
func parseSlot(schema string, state, lease, awaited resp.Value) entryrules.Slot {
	return entryrules.Slot{
		Schema: schema, Value: Value(state, ""), Lease: parseLease(text(lease)), Awaited: awaited.Kind() != resp.Null,
	}
}

// Value parses the field with the state of a value; it has no data. It
// allocates nothing for a value with the namespace state known.
func Value(state resp.Value, known string) entryrules.Value {
	if state.Kind() == resp.Null {
		return entryrules.Value{}
	}
	v, ok := ParseState(state.Bytes(), known)
	if !ok {
		return entryrules.Value{Unreadable: true}
	}
	return v
}

// parseLease parses a lease. A damaged lease counts as missing, as in the
// scripts.
func parseLease(s string) (l entryrules.Lease) {
	token, rest, _ := strings.Cut(s, " ")
	till, length, _ := strings.Cut(rest, " ")
	if l.Token = hex(token); l.Token != 0 {
		l.Until, l.Length = number(till), number(length)
	}
	return l
}

func parseToken(s string) (t entryrules.Token) {
	token, till, _ := strings.Cut(s, " ")
	if t.Token = hex(token); t.Token != 0 {
		t.Until, t.Quiet = number(till), token[0] == '0'
	}
	return t
}

func parseHold(s string) entryrules.Hold {
	till, length, _ := strings.Cut(s, " ")
	return entryrules.Hold{Until: number(till), Length: number(length)}
}

// hex parses a token; a damaged one is zero.
func hex(s string) uint64 {
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		return 0
	}
	return n
}
