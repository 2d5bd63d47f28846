package l2

import (
	"slices"
	"testing"

	"github.com/strata-cache/strata/remote"
)

func TestValuesAreNamedWhileLargeOnesAreExpectedAndOftenTheSame(t *testing.T) {
	ids := []remote.ID{1}
	var m Meter
	named := func(n int) (asked int) {
		for range n {
			if m.naming(ids) != nil {
				asked++
			}
		}
		return asked
	}
	if named(100) != 0 {
		t.Error("values are named before there was a large one")
	}
	m.bulk.add(large - 1)
	if named(1) != 0 {
		t.Error("values are named after a small one")
	}
	m.bulk.add(large)
	if named(100) != 100 {
		t.Error("values are not named after a large one")
	}
	for range 1000 {
		m.worth.add(false)
	}
	if n := named(160); n != 10 {
		t.Errorf("%d of 160 reads name their value although each was another, want a sixteenth", n)
	}
	m.worth.add(true)
	if named(100) != 100 {
		t.Error("values are not named after one was the same")
	}
	for i := range 1000 {
		if m.worth.add(i%3 == 0); named(1) == 0 {
			t.Fatalf("a third are the same: value %d is not named", i)
		}
	}
	for range lately {
		m.bulk.add(10)
	}
	if named(100) != 0 {
		t.Error("values are named after many small ones")
	}
	if m.bulk.add(0); m.naming(nil) != nil {
		t.Error("none is named")
	}
}

func TestOnlyAValueThatWasNamedIsTheSame(t *testing.T) {
	s := &Store{}
	for _, c := range []struct {
		held  remote.Held
		known remote.ID
		same  bool
	}{
		{remote.Held{ID: 7, Same: true}, 5, true},
		{remote.Held{ID: 7, Same: true}, 0, false},
		{remote.Held{ID: 7, Same: true, Data: []byte("v")}, 5, false},
		{remote.Held{ID: 7, Data: []byte("v")}, 7, false},
	} {
		if h := c.held; h.Same != c.same {
			s.believe(&h, c.known)
			if h.Same || string(h.Data) != string(c.held.Data) {
				t.Errorf("%+v with the ID %d becomes %+v", c.held, c.known, h)
			}
		}
	}
	if n := s.health.foreign.count.Load(); n != 1 {
		t.Errorf("%d answers count as unreadable, want the one about a value that was not named", n)
	}
}

func TestKnownIDsAreThoseOfTheirReads(t *testing.T) {
	known := Knows(nil, 3, 0, 0)
	if known != nil {
		t.Errorf("%v for no ID, want nil", known)
	}
	if known = Knows(Knows(known, 3, 1, 5), 3, 2, 0); !slices.Equal(known, []remote.ID{0, 5, 0}) {
		t.Errorf("%v, want the ID of the second", known)
	}
}
