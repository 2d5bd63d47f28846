package layout_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/redis/layout"
)

func state(epoch string, drops, expiries, clock uint64, asked time.Time) *layout.State {
	ns := &layout.State{Epoch: epoch, Drops: drops, Expiries: expiries, Clock: clock, Asked: asked}
	ns.Spell()
	return ns
}

// TestNewerStateIsKept: a late reply must not bring back values dropped since.
func TestNewerStateIsKept(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	for _, c := range []struct {
		name       string
		first, add *layout.State
		replaced   bool
	}{
		{"asked later", state("e", 1, 1, 1, early), state("e", 1, 1, 1, late), true},
		{"asked earlier", state("e", 1, 1, 1, late), state("e", 1, 1, 1, early), false},
		{"asked earlier, drops more", state("e", 1, 9, 9, late), state("e", 2, 1, 1, early), true},
		{"asked later, drops less", state("e", 2, 1, 1, early), state("e", 1, 9, 9, late), false},
		{"asked earlier, expires more", state("e", 1, 1, 9, late), state("e", 1, 2, 1, early), true},
		{"asked later, expires less", state("e", 1, 2, 1, early), state("e", 1, 1, 9, late), false},
		{"asked earlier, higher clock", state("e", 1, 1, 1, late), state("e", 1, 1, 2, early), true},
		{"asked later, lower clock", state("e", 1, 1, 2, early), state("e", 1, 1, 1, late), false},
		{"asked later, another epoch", state("e", 9, 9, 9, early), state("f", 0, 0, 0, late), true},
		{"asked earlier, another epoch", state("e", 0, 0, 0, late), state("f", 9, 9, 9, early), false},
	} {
		var h layout.Holder
		h.Answered(c.first)
		h.Answered(c.add)
		if got := h.Known() == c.add; got != c.replaced {
			t.Errorf("%s: replaced %v", c.name, got)
		}
	}
}

func TestStateIsReadAgainInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h layout.Holder
		knowledge{
			due: func(opened uint64) bool {
				ask, _ := h.Due(time.Now(), opened)
				return ask
			},
			answered: func(opened uint64) {
				ns := state("e", 0, 0, 0, time.Now())
				ns.Opened = opened
				h.Answered(ns)
			},
			recheck: func() {
				h.Recheck(time.Now())
				h.Recheck(time.Now().Add(-time.Hour)) // comes late, and takes nothing back
			},
			failed: func() { h.Answered(nil) },
		}.checkAsking(t)
	})
}

func TestServerIsAskedAboutItselfInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h layout.Home
		var of layout.Holder
		space := state("e", 1, 2, 3, time.Now())
		knowledge{
			due: func(opened uint64) bool {
				ask, _ := h.Due(time.Now(), opened, &of, space)
				return ask
			},
			answered: func(opened uint64) {
				h.Answered(&layout.Server{ID: "s", Asked: time.Now(), Opened: opened}, &of, space)
			},
			recheck: func() { of.Recheck(time.Now()) },
			failed:  func() { h.Answered(nil, &of, space) },
		}.checkAsking(t)
	})
}

// knowledge is a namespace state or a report of a server, with the events that
// make an instance read it again. opened numbers connections.
type knowledge struct {
	due             func(opened uint64) bool
	answered        func(opened uint64)
	recheck, failed func()
}

// checkAsking checks when callers have to read it, and how many of them.
func (k knowledge) checkAsking(t *testing.T) {
	t.Helper()
	answer := func(opened uint64) {
		k.answered(opened)
		time.Sleep(time.Millisecond)
	}
	all := func(opened uint64) bool {
		first, second := k.due(opened), k.due(opened)
		return first && second
	}
	if !all(1) {
		t.Error("not all ask without an answer")
	}
	answer(1)
	if k.due(1) || !all(2) {
		t.Error("not asked exactly when a connection was opened")
	}
	answer(2)
	k.recheck()
	if !all(2) {
		t.Error("not all ask after Recheck")
	}
	time.Sleep(time.Millisecond)
	answer(2)
	time.Sleep(layout.Age)
	if first, second := k.due(2), k.due(2); !first || second {
		t.Error("not one caller asks when the answer is old")
	}
	k.failed()
	if !k.due(2) {
		t.Error("no caller asks after one has failed")
	}
	time.Sleep(layout.Age)
	if !all(2) {
		t.Error("not all ask when the answer is too old")
	}
}

// TestServersClockIsKnownFromBothSides: values are judged at a late time when
// they are read, and get an early end when they are stored, however long the
// reply took.
func TestServersClockIsKnownFromBothSides(t *testing.T) {
	asked := time.Unix(1, 0)
	for _, took := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond} {
		for _, when := range []time.Duration{0, took / 2, took} { // the server looked at its clock
			ns := &layout.State{Server: 7000, Asked: asked, Heard: asked.Add(took)}
			for _, later := range []time.Duration{took, took + 900*time.Microsecond, time.Second} {
				exact := 7000*time.Millisecond + later - when
				now, past := time.Duration(ns.Now(asked.Add(later)))*time.Millisecond, time.Duration(ns.Past(asked.Add(later)))*time.Millisecond
				if now < exact || past > exact || now-past > took+3*time.Millisecond {
					t.Errorf("took %v, looked after %v, %v later: between %v and %v, is %v", took, when, later, past, now, exact)
				}
			}
		}
	}
}

func TestNamesHaveHoldersOfTheirOwn(t *testing.T) {
	var h layout.Holders
	if a := h.Of("a"); h.Of("a") != a || h.Of("b") == a {
		t.Error("holders are mixed up")
	}
}

func TestValuesAreJudgedByTheNamespaceAndTheServer(t *testing.T) {
	var h layout.Home
	var a, b layout.Holder
	now := time.Unix(5, 0)
	space, other := state("e", 1, 2, 3, time.Unix(1, 0)), state("f", 4, 5, 6, time.Unix(1, 0))
	if h.Known(&a, space) != nil {
		t.Error("known before it was asked")
	}
	first := &layout.Server{ID: "s", Clock: 7000, Asked: now, Heard: now.Add(time.Second), Opened: 9}
	ns := h.Answered(first, &a, space)
	if ns.Text != "e@s.1.2" || ns.Clock != 3 || ns.Epoch != "e" || ns.Server != 7000 || !ns.Asked.Equal(now) || ns.Opened != 9 {
		t.Errorf("%+v", ns)
	}
	if h.Known(&a, space) != ns || h.Known(&b, other).Text != "f@s.4.5" || h.Known(&a, space) != ns {
		t.Error("words of name spaces are mixed up")
	}
	if n := testing.AllocsPerRun(100, func() { h.Due(now, 9, &a, space) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	newer := state("e", 2, 2, 3, time.Unix(2, 0))
	if got := h.Known(&a, newer).Text; got != "e@s.2.2" {
		t.Errorf("after a drop of everything it is %s", got)
	}
	late := &layout.Server{ID: "old", Asked: now.Add(-time.Second)}
	h.Answered(late, &a, newer)
	if got := h.Known(&a, newer).Text; got != "e@s.2.2" {
		t.Errorf("an answer that came late is believed: %s", got)
	}
	if layout.Digest("") != "" || layout.Digest("a") == layout.Digest("b") || len(layout.Digest("a")) > 16 {
		t.Error("digests")
	}
}
