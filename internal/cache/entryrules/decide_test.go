package entryrules_test

import (
	"reflect"
	"testing"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/remote"
)

// The tests count seconds, and it is 1000. A caller knows the namespace state "e.0.0".
const (
	now = 1000
	ns  = "e.0.0"
)

var clock = entryrules.Clock{Now: now, Slack: 1} // read-only

// state returns a State remembered until 2000.
func state(change func(s *entryrules.State), slots ...entryrules.Slot) entryrules.State {
	s := entryrules.State{Slots: slots, Until: 2000}
	if change != nil {
		change(&s)
	}
	return s
}

// slot returns the slot of schema a, with the parts that change gives it.
func slot(change func(s *entryrules.Slot)) entryrules.Slot {
	s := entryrules.Slot{Schema: "a"}
	change(&s)
	return s
}

// value returns a value with id 7, fresh until 1100 and kept until 1200.
func value() entryrules.Value {
	return entryrules.Value{ID: 7, Fresh: 1100, Left: 1200, Namespace: ns, Data: []byte("v")}
}

func withValue(s *entryrules.Slot) { s.Value = value() }

// stale gives a slot a value that is not fresh any more.
func stale(s *entryrules.Slot) {
	s.Value = value()
	s.Value.Fresh = 900
}

// leased is a lease with token 9 that lasts until 1050.
func leased(s *entryrules.Slot) { s.Lease = entryrules.Lease{Token: 9, Until: 1050, Length: 100} }

// both is a slot with two parts.
func both(a, b func(*entryrules.Slot)) func(*entryrules.Slot) {
	return func(s *entryrules.Slot) { a(s); b(s) }
}

func awaited(s *entryrules.Slot) { s.Awaited = true }

// inB puts a slot in schema b.
func inB(s entryrules.Slot) entryrules.Slot {
	s.Schema = "b"
	return s
}

func held(until, length int64) func(*entryrules.State) {
	return func(s *entryrules.State) { s.Hold = entryrules.Hold{Until: until, Length: length} }
}

func token(until int64) func(*entryrules.State) {
	return func(s *entryrules.State) { s.Token = entryrules.Token{Token: 8, Until: until} }
}

func quietly(until int64) func(*entryrules.State) {
	return func(s *entryrules.State) { s.Token = entryrules.Token{Token: 8, Until: until, Quiet: true} }
}

func until(end int64) func(*entryrules.State) {
	return func(s *entryrules.State) { s.Until = end }
}

// decision is a row of the tables below. A want of nil is the state from before.
type decision struct {
	what   string
	from   entryrules.State
	op     entryrules.Operation
	want   *entryrules.State
	answer entryrules.Answer
}

func check(t *testing.T, rows []decision) {
	t.Helper()
	for _, r := range rows {
		if r.want == nil {
			r.want = &r.from
		}
		got, answer := entryrules.Decide(r.from, r.op, clock)
		if !reflect.DeepEqual(got, *r.want) {
			t.Errorf("%s: %+v,\n\twant %+v", r.what, got, *r.want)
		}
		if !reflect.DeepEqual(answer, r.answer) {
			t.Errorf("%s: answer %+v,\n\twant %+v", r.what, answer, r.answer)
		}
	}
}

// becomes is a wanted state.
func becomes(change func(*entryrules.State), slots ...entryrules.Slot) *entryrules.State {
	s := state(change, slots...)
	return &s
}

// gone returns the wanted state of a forgotten key.
func gone() *entryrules.State { return &entryrules.State{} }

func noData(v entryrules.Value) entryrules.Value {
	v.Data = nil
	return v
}

func TestAcquireGivesOneLeaseAndNoneDuringAHold(t *testing.T) {
	acquire := entryrules.Acquire{Schema: "a", Token: 5, Length: 30, Namespace: ns}
	given := func(s *entryrules.Slot) { s.Lease = entryrules.Lease{Token: 5, Until: 1030, Length: 30} }
	late, refresh, again := acquire, acquire, acquire
	late.Latest, refresh.ID, again.Token = 999, 7, 9
	granted := entryrules.Answer{Grant: remote.Granted}
	staleValue := slot(stale).Value
	check(t, []decision{
		{"an unknown key", entryrules.State{}, acquire, becomes(until(1030), slot(given)), granted},
		{"a fresh value", state(nil, slot(withValue)), acquire, nil, entryrules.Answer{Grant: remote.Free, Held: value()}},
		{
			"a fresh value that is to be replaced", state(nil, slot(withValue)), refresh, becomes(nil, slot(both(withValue, given))),
			entryrules.Answer{Grant: remote.Granted, Held: value()},
		},
		{
			"a stale value", state(nil, slot(stale)), acquire, becomes(nil, slot(both(stale, given))),
			entryrules.Answer{Grant: remote.Granted, Held: staleValue},
		},
		{"another's value", state(nil, inB(slot(withValue))), acquire, becomes(nil, inB(slot(withValue)), slot(given)), granted},
		{
			"a lease", state(nil, slot(both(stale, leased))), acquire, becomes(nil, slot(both(both(stale, leased), awaited))),
			entryrules.Answer{Grant: remote.Busy, Wait: 50, Held: noData(staleValue)},
		},
		{"another's lease", state(nil, inB(slot(leased))), acquire, becomes(nil, inB(slot(leased)), slot(given)), granted},
		{
			"the same lease again", state(nil, slot(both(leased, awaited))), again,
			becomes(nil, slot(both(awaited, func(s *entryrules.Slot) { s.Lease = entryrules.Lease{Token: 9, Until: 1030, Length: 30} }))), granted,
		},
		{"a lease that has run out", state(nil, slot(both(awaited, func(s *entryrules.Slot) {
			s.Lease = entryrules.Lease{Token: 9, Until: 1000, Length: 100}
		}))), acquire, becomes(nil, slot(given)), granted},
		{"a lease of which more is left than was given", state(nil, slot(func(s *entryrules.Slot) {
			s.Lease = entryrules.Lease{Token: 9, Until: 1102, Length: 100}
		})), acquire, becomes(nil, slot(given)), granted},
		{"a lease of a clock one second ahead", state(nil, slot(func(s *entryrules.Slot) {
			s.Lease, s.Awaited = entryrules.Lease{Token: 9, Until: 1101, Length: 100}, true
		})), acquire, nil, entryrules.Answer{Grant: remote.Busy, Wait: 101}},
		{
			"a hold", state(held(1050, 100), slot(withValue)), acquire, nil,
			entryrules.Answer{Grant: remote.OnHold, Wait: 50, Held: noData(value())},
		},
		{"a hold that has run out", state(held(1000, 100)), acquire, becomes(held(1000, 100), slot(given)), granted},
		{
			"a hold of a clock that was set back", state(held(1500, 100)), acquire, becomes(held(1100, 100)),
			entryrules.Answer{Grant: remote.OnHold, Wait: 100},
		},
		{"a request that comes late", state(nil, slot(stale)), late, nil, entryrules.TooLate},
		{"a key that is forgotten", state(until(1000), slot(leased)), acquire, becomes(until(1030), slot(given)), granted},
		{
			"something unreadable", state(nil, slot(func(s *entryrules.Slot) { s.Value.Unreadable = true })), acquire,
			becomes(nil, slot(both(given, func(s *entryrules.Slot) { s.Value.Unreadable = true }))),
			entryrules.Answer{Grant: remote.Granted, Held: entryrules.Value{Unreadable: true}},
		},
	})
}

func TestPutNeedsARightAndUsesItUp(t *testing.T) {
	put := entryrules.Put{Schema: "a", Token: 9, Fresh: 10, Left: 20, Namespace: "e.0.1", Data: []byte("w")}
	stored := func(s *entryrules.Slot) {
		s.Value = entryrules.Value{ID: 9, Fresh: 1010, Left: 1020, Namespace: "e.0.1", Data: []byte("w")}
	}
	byToken, dropping, wrong, none, ended := put, put, put, put, put
	byToken.Token, dropping.Drops, wrong.Token, none.Token, ended.Left = 8, true, 99, 0, 0
	storedByToken := func(s *entryrules.Slot) {
		stored(s)
		s.Value.ID = 8
	}
	done := entryrules.Answer{Done: true}
	end := entryrules.Answer{Done: true, Announce: remote.Ended}
	drop := entryrules.Answer{Done: true, Announce: remote.Dropped, Cleared: true}
	dropHeld := entryrules.Answer{Done: true, Announce: remote.Dropped, Cleared: true, Hold: 50}
	over := func(s *entryrules.Slot) { s.Value = entryrules.Value{ID: 6, Left: 1000} }
	check(t, []decision{
		{"a lease", state(nil, slot(leased)), put, becomes(until(1020), slot(stored)), done},
		{"a lease that somebody waits for", state(nil, slot(both(leased, awaited))), put, becomes(until(1020), slot(stored)), end},
		{"a lease that has run out", state(nil, slot(func(s *entryrules.Slot) {
			s.Lease = entryrules.Lease{Token: 9, Until: 900, Length: 10}
		})), put, becomes(until(1020), slot(stored)), done},
		{"a lease beside an older value", state(nil, slot(both(leased, stale))), put, becomes(nil, slot(stored)), done},
		{"a lease beside another's values", state(nil, slot(leased), inB(slot(stale))), put, becomes(nil, slot(stored), inB(slot(stale))), done},
		{"another's lease", state(nil, inB(slot(leased))), put, nil, entryrules.Answer{}},
		{"another lease", state(nil, slot(leased)), wrong, nil, entryrules.Answer{}},
		{"no right", state(nil, slot(stale)), none, nil, entryrules.Answer{}},
		{"a lease during a hold", state(held(1050, 100), slot(leased)), put, nil, entryrules.Answer{}},
		{"no life", state(nil, slot(both(leased, stale))), ended, gone(), done},
		{
			"values of others that have run out", state(token(1500), slot(leased), inB(slot(over)), entryrules.Slot{Schema: "c", Value: value()}), put,
			becomes(token(1500), slot(stored), entryrules.Slot{Schema: "c", Value: value()}), done,
		},
		{
			"few values of others that have run out", state(nil, slot(leased), inB(slot(over))), put,
			becomes(nil, slot(stored), inB(slot(over))), done,
		},
		{"a token", state(token(1001), slot(both(leased, awaited)), inB(slot(both(stale, leased)))), byToken, becomes(until(1020), slot(storedByToken)), drop},
		{
			"a token during a hold", state(func(s *entryrules.State) { token(1001)(s); held(1050, 100)(s) }), byToken,
			becomes(func(s *entryrules.State) { held(1050, 50)(s); until(1050)(s) }, slot(storedByToken)), dropHeld,
		},
		{"a token that has run out", state(token(1000)), byToken, nil, entryrules.Answer{}},
		{"a token that another drop has voided", state(nil, slot(stale)), byToken, nil, entryrules.Answer{}},
		{
			"a drop under a lease", state(token(1050), slot(both(leased, awaited)), inB(slot(both(stale, leased)))), dropping,
			becomes(func(s *entryrules.State) { token(1050)(s); until(1050)(s) }, slot(stored)), drop,
		},
	})
}

func TestDropVoidsAllRights(t *testing.T) {
	full := func(change func(*entryrules.State)) entryrules.State {
		return state(func(s *entryrules.State) { token(1500)(s); change(s) },
			slot(both(withValue, both(leased, awaited))), inB(slot(both(stale, leased))))
	}
	soft := func(s *entryrules.Slot) { s.Value.Soft = true }
	answer := func(kind remote.Kind, hold int64) entryrules.Answer {
		return entryrules.Answer{Done: true, Announce: kind, Hold: hold, Cleared: kind == remote.Dropped}
	}
	softA, softB := slot(both(withValue, soft)), inB(slot(both(stale, soft)))
	shortA, shortB := softA, softB
	shortA.Value.Left, shortB.Value.Left = 1010, 1010
	nothing := func(*entryrules.State) {}
	over, hard := token(1000), answer(remote.Expired, 0)
	hard.Cleared = true
	both := func(hold, keep, end int64) func(*entryrules.State) {
		return func(s *entryrules.State) {
			held(hold, hold-now)(s)
			s.Token = entryrules.Token{Token: 4, Until: keep}
			until(end)(s)
		}
	}
	check(t, []decision{
		{"all", full(nothing), entryrules.Drop{}, gone(), answer(remote.Dropped, 0)},
		{
			"a hold that lasts longer", full(held(1050, 100)),
			entryrules.Drop{Hold: 20},
			becomes(func(s *entryrules.State) { held(1050, 50)(s); until(1050)(s) }), answer(remote.Dropped, 50),
		},
		{"a hold that lasts less long", full(held(1010, 100)), entryrules.Drop{Hold: 20, Token: 4, Life: 40}, becomes(both(1020, 1040, 1040)), answer(remote.Dropped, 20)},
		{
			"a hold of a clock that was set back", full(held(9000, 30)),
			entryrules.Drop{},
			becomes(func(s *entryrules.State) { held(1030, 30)(s); until(1030)(s) }), answer(remote.Dropped, 30),
		},
		{"a hold that has run out", state(held(1000, 100)), entryrules.Drop{Soft: true}, gone(), answer(remote.Expired, 0)},
		{"values, softly", full(over), entryrules.Drop{Soft: true}, becomes(nil, softA, softB), answer(remote.Expired, 0)},
		{
			"values, softly, with all that comes with it", full(over),
			entryrules.Drop{Soft: true, Hold: 3000, Token: 4, Life: 40},
			becomes(both(4000, 1040, 4000), softA, softB), answer(remote.Expired, 3000),
		},
		{"values, softly, to be kept for less", full(over), entryrules.Drop{Soft: true, Left: 10}, becomes(until(1010), shortA, shortB), answer(remote.Expired, 0)},
		{"values, softly, and a token", full(nothing), entryrules.Drop{Soft: true}, gone(), hard},
		{"values, softly, and a quiet token", full(quietly(1500)), entryrules.Drop{Soft: true}, gone(), hard},
		{"rights, softly", state(over, slot(leased)), entryrules.Drop{Soft: true, Left: 10}, gone(), answer(remote.Expired, 0)},
		{
			"an unknown key",
			entryrules.State{},
			entryrules.Drop{Soft: true, Token: 4, Life: 40},
			becomes(func(s *entryrules.State) { s.Token, s.Until = entryrules.Token{Token: 4, Until: 1040}, 1040 }), answer(remote.Expired, 0),
		},
	})
}

// TestQuietDropGivesATokenAlone: values, leases and holds stay until the Put, and nothing is
// announced. A good token of a drop that was not quiet is not taken away in silence.
func TestQuietDropGivesATokenAlone(t *testing.T) {
	quiet := entryrules.Drop{Quiet: true, Token: 4, Life: 2000}
	soft, onHold := quiet, quiet
	soft.Soft, onHold.Hold = true, 10
	given := entryrules.Token{Token: 4, Until: 3000, Quiet: true}
	slots := []entryrules.Slot{slot(both(withValue, both(leased, awaited))), inB(slot(both(stale, leased)))}
	from := func(token func(*entryrules.State)) entryrules.State {
		return state(func(s *entryrules.State) { held(1050, 100)(s); token(s) }, slots...)
	}
	only := becomes(func(s *entryrules.State) { held(1050, 100)(s); s.Token, s.Until = given, 3000 }, slots...)
	var rows []decision
	for what, token := range map[string]func(*entryrules.State){
		"nothing": func(*entryrules.State) {}, "a quiet token": quietly(1500), "a token that is over": token(1000),
	} {
		rows = append(rows, decision{what, from(token), quiet, only, entryrules.Answer{Done: true}})
	}
	check(t, append(rows, decision{
		"an unknown key",
		entryrules.State{},
		quiet,
		becomes(func(s *entryrules.State) { s.Token, s.Until = given, 3000 }),
		entryrules.Answer{Done: true},
	}))
	for _, op := range []entryrules.Drop{quiet, soft, onHold} {
		full := op
		full.Quiet = false
		s := from(token(1500))
		next, a := entryrules.Decide(s, op, clock)
		want, wanted := entryrules.Decide(s, full, clock)
		if !reflect.DeepEqual(next, want) || !reflect.DeepEqual(a, wanted) {
			t.Errorf("%+v where a token is: %+v and %+v, want %+v and %+v", op, next, a, want, wanted)
		}
	}
}

// TestPutUnderAQuietTokenIsTheDrop: it is announced also if the token is void. Values older than
// the token go then, and values that a later write has stored stay.
func TestPutUnderAQuietTokenIsTheDrop(t *testing.T) {
	put := entryrules.Put{Schema: "a", Token: 8, Fresh: 10, Left: 20, Namespace: ns, Data: []byte("w"), Quiet: true}
	drop := entryrules.Answer{Done: true, Announce: remote.Dropped, Cleared: true}
	gone, stays := drop, drop
	gone.Done, stays.Done, stays.Cleared = false, false, false
	nothing := put
	nothing.Left = 0
	stored := slot(func(s *entryrules.Slot) {
		s.Value = entryrules.Value{ID: 8, Fresh: 1010, Left: 1020, Namespace: ns, Data: []byte("w")}
	})
	full := []entryrules.Slot{slot(both(withValue, both(leased, awaited))), inB(slot(both(stale, leased)))}
	soft := inB(slot(func(s *entryrules.Slot) { stale(s); s.Value.Soft = true }))
	another := func(end int64, quiet bool) func(*entryrules.State) {
		return func(s *entryrules.State) { s.Token = entryrules.Token{Token: 4, Until: end, Quiet: quiet} }
	}
	absent := func() *entryrules.State { return &entryrules.State{} }
	kept := func(token func(*entryrules.State)) *entryrules.State {
		return becomes(func(s *entryrules.State) { token(s); until(s.Token.Until)(s) })
	}
	onHold := func(s *entryrules.State) { quietly(1500)(s); held(1050, 100)(s) }
	holding := drop
	holding.Hold = 50
	check(t, []decision{
		{"its token", state(quietly(1001), full...), put, becomes(until(1020), stored), drop},
		{"its token, which a full drop gave", state(token(1001), full...), put, becomes(until(1020), stored), drop},
		{"its token during a hold", state(onHold, full...), put, becomes(func(s *entryrules.State) { held(1050, 50)(s); until(1050)(s) }, stored), holding},
		{"nothing under its token", state(quietly(1500), full...), nothing, absent(), drop},
		{"its token is over", state(quietly(1000), full...), put, absent(), gone},
		{"a quiet token of another", state(another(1500, true), full...), put, kept(another(1500, true)), gone},
		{"a token of another", state(another(1500, false), full...), put, kept(another(1500, false)), gone},
		{"a token of another that is over", state(another(900, true), full...), put, absent(), gone},
		{"no token", state(nil, full...), put, nil, stays},
		{"no token, and a value that a drop has left stale", state(nil, full[0], soft), put, becomes(nil, full[0]), stays},
		{"no key", entryrules.State{}, put, absent(), stays},
	})
}

func TestExtendNeedsTheLeaseAndTheValue(t *testing.T) {
	extend := entryrules.Extend{Schema: "a", Token: 9, ID: 7, Fresh: 3000, Left: 4000, Namespace: "e.0.3"}
	longer := func(s *entryrules.Slot) {
		s.Value = entryrules.Value{ID: 9, Fresh: 4000, Left: 5000, Namespace: "e.0.3", Earlier: []uint64{7}, Data: []byte("v")}
	}
	soft := func(s *entryrules.Slot) { withValue(s); s.Value.Soft = true }
	lease, id, none, dropped := extend, extend, extend, extend
	lease.Token, id.ID, none.ID, dropped.Namespace = 99, 9, 0, "e.1.0"
	check(t, []decision{
		{"a value made stale", state(nil, slot(both(soft, leased))), extend, becomes(until(5000), slot(longer)), entryrules.Answer{Done: true}},
		{
			"a lease that somebody waits for", state(nil, slot(both(soft, both(leased, awaited)))), extend, becomes(until(5000), slot(longer)),
			entryrules.Answer{Done: true, Announce: remote.Ended},
		},
		{"another lease", state(nil, slot(both(soft, leased))), lease, nil, entryrules.Answer{}},
		{"another value", state(nil, slot(both(soft, leased))), id, nil, entryrules.Answer{}},
		{"no value", state(nil, slot(leased)), none, nil, entryrules.Answer{}},
		{"all dropped since", state(nil, slot(both(soft, leased))), dropped, nil, entryrules.Answer{}},
		{"a value that has run out", state(nil, slot(both(leased, func(s *entryrules.Slot) {
			s.Value = entryrules.Value{ID: 7, Fresh: 900, Left: 1000, Namespace: ns}
		}))), extend, nil, entryrules.Answer{}},
		{"a hold", state(held(1050, 100), slot(both(soft, leased))), extend, nil, entryrules.Answer{}},
		{"another's", state(nil, inB(slot(both(soft, leased)))), extend, nil, entryrules.Answer{}},
	})
}

func TestLeaseIsReleasedAndRenewedByItsHolder(t *testing.T) {
	renewed := func(s *entryrules.Slot) { s.Lease = entryrules.Lease{Token: 9, Until: 3000, Length: 2000} }
	late := func(s *entryrules.Slot) { s.Lease = entryrules.Lease{Token: 9, Until: 1000, Length: 100} }
	release, renew := entryrules.Release{Schema: "a", Token: 9}, entryrules.Renew{Schema: "a", Token: 9, Length: 2000}
	done := entryrules.Answer{Done: true}
	check(t, []decision{
		{"release", state(nil, slot(leased)), release, gone(), done},
		{
			"release of what somebody waits for", state(nil, slot(both(stale, both(leased, awaited)))), release, becomes(nil, slot(stale)),
			entryrules.Answer{Done: true, Announce: remote.Ended},
		},
		{"release of another's", state(nil, inB(slot(leased))), release, nil, entryrules.Answer{}},
		{"release of none", state(nil, slot(stale)), entryrules.Release{Schema: "a"}, nil, entryrules.Answer{}},
		{"renewal", state(nil, slot(both(leased, awaited))), renew, becomes(until(3000), slot(both(renewed, awaited))), done},
		{"renewal of a lease that has run out", state(nil, slot(late)), renew, becomes(until(3000), slot(renewed)), done},
		{"renewal of another's", state(nil, inB(slot(leased))), renew, nil, entryrules.Answer{}},
	})
}

// TestForeverStaysForever: a life without an end is not shortened by the passing of time, nor does
// it overflow.
func TestForeverStaysForever(t *testing.T) {
	s, _ := entryrules.Decide(state(nil, slot(leased)), entryrules.Put{Schema: "a", Token: 9, Fresh: entryrules.Forever, Left: entryrules.Forever, Namespace: ns}, clock)
	v := s.Slot("a").Value
	if r := v.Read(ns, 5000); r.Fresh != entryrules.Forever || r.Left != entryrules.Forever {
		t.Errorf("read %+v", r)
	}
	s, a := entryrules.Decide(s, entryrules.Drop{Hold: entryrules.Forever}, clock)
	if a.Hold != entryrules.Forever || s.Hold.Left(5000) != entryrules.Forever {
		t.Errorf("%+v after %+v", s, a)
	}
}

func TestExtendedValueRemembersItsLastIDsAndAnotherValueNone(t *testing.T) {
	s := state(nil, slot(withValue))
	for id := uint64(7); id < 12; id++ {
		s.Slots[0].Lease = entryrules.Lease{Token: id + 1, Until: 9000, Length: 8000}
		var a entryrules.Answer
		if s, a = entryrules.Decide(s, entryrules.Extend{Schema: "a", Token: id + 1, ID: id, Fresh: 10, Left: 20, Namespace: ns}, clock); !a.Done {
			t.Fatalf("value %d was not extended", id)
		}
		v := s.Slots[0].Value
		for known := range id + 3 {
			if want := known > 0 && known >= max(7, id+1-entryrules.Remembered) && known <= id+1; v.Is(known) != want {
				t.Errorf("the value %d is the value %d: %t, want %t", v.ID, known, !want, want)
			}
		}
	}
	s.Slots[0].Lease = entryrules.Lease{Token: 20, Until: 9000, Length: 8000}
	s, _ = entryrules.Decide(s, entryrules.Put{Schema: "a", Token: 20, Fresh: 10, Left: 20, Namespace: ns}, clock)
	if v := s.Slots[0].Value; v.ID != 20 || v.Is(12) || !v.Is(20) {
		t.Errorf("another value is %+v, want one without earlier IDs", v)
	}
}

// TestStaleValueSaysSinceWhenItsTTLIsOver: a store need not keep the end of the TTL of a value that was expired by
// its key, so no reader gets it.
func TestStaleValueSaysSinceWhenItsTTLIsOver(t *testing.T) {
	for name, try := range map[string]struct {
		soft      bool
		namespace string
		want      map[int64]int64 // the rest of the fresh life by the time
	}{
		"plain":                   {namespace: "e.1.2", want: map[int64]int64{900: 100, 1000: 0, 1300: -300}},
		"expired with everything": {namespace: "e.1.3", want: map[int64]int64{900: 0, 1300: -300}},
		"expired by its key":      {soft: true, namespace: "e.1.2", want: map[int64]int64{900: 0, 1300: 0}},
	} {
		for now, want := range try.want {
			v := entryrules.Value{ID: 1, Fresh: 1000, Left: 2000, Soft: try.soft, Namespace: "e.1.2"}
			if r := v.Read(try.namespace, now); r.Fresh != want || r.Left != 2000-now {
				t.Errorf("%s, at %d: %+v, want %d", name, now, r, want)
			}
		}
	}
}
