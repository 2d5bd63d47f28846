package entryrules_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
)

// right is a lease or a token given to a caller.
type right struct {
	schema string // empty for a token
	drops  int    // how many drops there had been
	until  int64
	used   bool
	quiet  bool // it came with no drop: its Put is one
	given  int  // the number of operations before it
}

// judge checks the decisions about a key, with a clock that never goes back. It
// knows the promises, not the rules.
type judge struct {
	testing.TB
	s      entryrules.State
	now    int64
	rights map[uint64]*right
	tokens []uint64       // in the order in which they were given
	drops  int            // drops of the key
	hard   int            // all drops but Puts under a lease
	hold   int64          // until when leases are refused
	stores map[uint64]int // the number of operations before the last store, by the ID of its value
	done   []string
}

// play carries out the operations that a list of bytes encodes, and judges each
// decision.
func play(t testing.TB, list []byte) {
	j := &judge{TB: t, now: 1000, rights: map[uint64]*right{}, stores: map[uint64]int{}}
	for len(list) >= 4 {
		b := list[:4]
		list = list[4:]
		op := j.operation(b)
		j.done = append(j.done, fmt.Sprintf("%d: %+v", j.now, op))
		j.step(op)
		j.now += int64(b[3] % 40)
	}
}

func (j *judge) bad(format string, args ...any) {
	j.Helper()
	for _, line := range j.done {
		j.Log(line)
	}
	j.Fatalf(format, args...)
}

// operation decodes four bytes.
func (j *judge) operation(b []byte) entryrules.Operation {
	schema := string('a' + rune(b[1]%2))
	life := int64(b[2] % 60)
	recent := func(n byte) uint64 { // a right given before, mostly one of the last
		if len(j.tokens) == 0 {
			return 1
		}
		return j.tokens[max(0, len(j.tokens)-1-int(n%4))]
	}
	namespace := "e.0." + string('0'+rune(b[1]/128))
	next := uint64(len(j.done) + 1)
	switch b[0] % 9 {
	case 0, 1:
		return entryrules.Acquire{Schema: schema, Token: next, Length: life, Namespace: namespace, ID: recent(b[3]) * uint64(b[1]/64%2)}
	case 2, 3:
		put := entryrules.Put{Schema: schema, Token: recent(b[3]), Fresh: life / 2, Left: life, Namespace: namespace, Drops: b[1]&4 != 0}
		if r := j.rights[put.Token]; r != nil {
			put.Quiet = r.quiet
		}
		return put
	case 4:
		return entryrules.Drop{Hold: life * int64(b[1]&2/2), Token: next * uint64(b[1]&4/4), Life: int64(b[3] % 50), Quiet: b[1]&8 != 0}
	case 5:
		return entryrules.Drop{Soft: true, Left: int64(b[3] % 30), Hold: life * int64(b[1]&2/2), Token: next * uint64(b[1]&4/4), Life: int64(b[3] % 50)}
	case 6:
		return entryrules.Extend{Schema: schema, Token: recent(b[3]), ID: recent(b[1]), Fresh: life / 2, Left: life, Namespace: namespace}
	case 7:
		return entryrules.Release{Schema: schema, Token: recent(b[3])}
	}
	return entryrules.Renew{Schema: schema, Token: recent(b[3]), Length: life}
}

func (j *judge) step(op entryrules.Operation) {
	j.Helper()
	before, at := j.s, entryrules.Clock{Now: j.now, Slack: 1}
	copied := before
	copied.Slots = slices.Clone(before.Slots)
	next, a := entryrules.Decide(before, op, at)
	again, b := entryrules.Decide(before, op, at)
	if !reflect.DeepEqual(before, copied) || !reflect.DeepEqual(next, again) || !reflect.DeepEqual(a, b) {
		j.bad("the decision is not pure: %+v became %+v; %+v and %+v, %+v and %+v", copied, before, next, again, a, b)
	}
	j.s = next
	switch op := op.(type) {
	case entryrules.Acquire:
		j.acquired(op, a)
	case entryrules.Put:
		if a.Done {
			j.stored(op.Token, op.Schema, a.Announce == remote.Dropped)
		}
		if op.Quiet {
			j.settled(op, a)
		}
	case entryrules.Extend:
		if a.Done {
			j.stored(op.Token, op.Schema, false)
		}
	case entryrules.Release:
		if r := j.rights[op.Token]; a.Done && r != nil {
			r.used = true
		}
	case entryrules.Renew:
		if a.Done {
			j.rights[op.Token].until = j.now + op.Length
		}
	case entryrules.Drop:
		if op.Quiet && a.Announce == 0 {
			j.reserved(op)
		} else {
			j.dropped(op, a)
		}
	}
	j.consistent()
}

func (j *judge) acquired(op entryrules.Acquire, a entryrules.Answer) {
	j.Helper()
	if (a.Grant == remote.OnHold) != (j.hold > j.now) {
		j.bad("grant %d at %d with a hold until %d", a.Grant, j.now, j.hold)
	}
	if a.Grant != remote.Granted {
		return
	}
	for token, r := range j.rights {
		if r.schema == op.Schema && r.drops == j.drops && !r.used && r.until > j.now {
			j.bad("%d is given a lease at %d, and %d has one until %d", op.Token, j.now, token, r.until)
		}
		if r.schema == op.Schema {
			r.used = true // replaced
		}
	}
	j.rights[op.Token] = &right{schema: op.Schema, drops: j.drops, until: j.now + op.Length}
	j.tokens = append(j.tokens, op.Token)
}

// stored judges a store under a right: nothing was dropped since the right was
// given.
func (j *judge) stored(token uint64, schema string, drops bool) {
	j.Helper()
	r := j.rights[token]
	switch {
	case r == nil:
		j.bad("stored under %d, which was never given", token)
	case r.used:
		j.bad("stored under %d, which was used up or replaced", token)
	case r.schema == "" && (r.drops != j.hard || r.until <= j.now):
		j.bad("stored at %d under the token %d, good until %d: %d drops since", j.now, token, r.until, j.hard-r.drops)
	case r.schema != "" && (r.schema != schema || r.drops != j.drops || j.hold > j.now):
		j.bad("stored at %d under the lease %d of %q: %d drops since, hold until %d", j.now, token, r.schema, j.drops-r.drops, j.hold)
	}
	r.used = true
	j.stores[token] = len(j.done)
	if drops {
		j.drops++
	}
}

// settled judges the Put under a quiet token, stored or refused: all instances hear of it, and
// nothing is read from before the token was given.
func (j *judge) settled(op entryrules.Put, a entryrules.Answer) {
	j.Helper()
	r := j.rights[op.Token]
	if a.Announce != remote.Dropped {
		j.bad("a Put under the quiet token %d is announced as %d", op.Token, a.Announce)
	}
	for _, slot := range j.s.Slots {
		if v := slot.Value; v.ID != 0 && v.Left > j.now && j.stores[v.ID] <= r.given {
			j.bad("after the Put under %d, given at operation %d, the value %d is read, stored at %d", op.Token, r.given, v.ID, j.stores[v.ID])
		}
	}
	if a.Cleared {
		j.drops++ // it voids all leases
	}
}

// reserved judges a drop that only gives a token. The token before it is void.
func (j *judge) reserved(op entryrules.Drop) {
	for _, r := range j.rights {
		if r.schema != "" || r.used || r.drops != j.hard || r.until <= j.now {
			continue
		}
		if !r.quiet {
			j.bad("the quiet token %d takes the place of a good one in silence", op.Token)
		}
		r.used = true
	}
	j.rights[op.Token] = &right{drops: j.hard, until: j.now + op.Life, quiet: true, given: len(j.done)}
	j.tokens = append(j.tokens, op.Token)
}

func (j *judge) dropped(op entryrules.Drop, a entryrules.Answer) {
	j.Helper()
	j.drops, j.hard = j.drops+1, j.hard+1
	if op.Hold > 0 {
		j.hold = max(j.hold, j.now+op.Hold)
	}
	if want := max(0, j.hold-j.now); a.Hold != want {
		j.bad("a hold of %d is told, not of %d", a.Hold, want)
	}
	if op.Token != 0 {
		j.rights[op.Token] = &right{drops: j.hard, until: j.now + op.Life}
		j.tokens = append(j.tokens, op.Token)
	}
	for _, slot := range j.s.Slots {
		if r := slot.Value.Read("e.0.0", j.now); r.Fresh > 0 || r.ID != 0 && (!op.Soft || op.Left > 0 && r.Left > op.Left) {
			j.bad("after the drop %+v is read", r)
		}
	}
}

// consistent judges a state by itself.
func (j *judge) consistent() {
	j.Helper()
	s := j.s
	if s.Empty() != reflect.DeepEqual(s, entryrules.State{}) {
		j.bad("an empty state is %+v", s)
	}
	ends := []int64{s.Hold.Until, s.Token.Until}
	seen := map[string]bool{}
	for _, slot := range s.Slots {
		ends = append(ends, slot.Value.Left, slot.Lease.Until)
		if seen[slot.Schema] {
			j.bad("two slots of %q: %+v", slot.Schema, s)
		}
		seen[slot.Schema] = true
	}
	for _, end := range ends {
		if end > s.Until && end > j.now {
			j.bad("the key is forgotten at %d, before something ends: %+v", s.Until, s)
		}
	}
}

// TestNothingIsStoredUnderARightFromBeforeADrop plays random lists of operations.
func TestNothingIsStoredUnderARightFromBeforeADrop(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	list := make([]byte, 4*60)
	for range kit.Rounds(3000) {
		for i := range list {
			list[i] = byte(r.Uint32())
		}
		play(t, list)
	}
}

func FuzzDecide(f *testing.F) {
	f.Add([]byte{0, 0, 30, 10, 4, 0, 0, 0, 2, 0, 30, 0})           // a drop between a lease and its store
	f.Add([]byte{5, 6, 30, 20, 0, 0, 30, 0, 2, 0, 30, 1, 4, 4, 9}) // a hold with a token
	f.Add([]byte{0, 0, 30, 10, 2, 0, 30, 0, 0, 1, 9, 1, 6, 1, 30, 0, 8, 0, 50, 0, 7, 0, 0, 0})
	f.Fuzz(func(t *testing.T, list []byte) { play(t, list[:min(len(list), 4*200)]) })
}
