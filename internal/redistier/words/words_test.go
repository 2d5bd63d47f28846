package words_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/redistier/words"
)

func word(epoch string, drops, expiries, clock uint64, asked time.Time) *words.Word {
	w := &words.Word{Epoch: epoch, Drops: drops, Expiries: expiries, Clock: clock, Asked: asked}
	w.Spell()
	return w
}

// TestNewerWordIsKept: an answer that comes late must not bring back what has
// been dropped since.
func TestNewerWordIsKept(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	for _, c := range []struct {
		what       string
		first, add *words.Word
		replaced   bool
	}{
		{"asked later", word("e", 1, 1, 1, early), word("e", 1, 1, 1, late), true},
		{"asked earlier", word("e", 1, 1, 1, late), word("e", 1, 1, 1, early), false},
		{"asked earlier, drops more", word("e", 1, 9, 9, late), word("e", 2, 1, 1, early), true},
		{"asked later, drops less", word("e", 2, 1, 1, early), word("e", 1, 9, 9, late), false},
		{"asked earlier, expires more", word("e", 1, 1, 9, late), word("e", 1, 2, 1, early), true},
		{"asked later, expires less", word("e", 1, 2, 1, early), word("e", 1, 1, 9, late), false},
		{"asked earlier, higher clock", word("e", 1, 1, 1, late), word("e", 1, 1, 2, early), true},
		{"asked later, lower clock", word("e", 1, 1, 2, early), word("e", 1, 1, 1, late), false},
		{"asked later, another epoch", word("e", 9, 9, 9, early), word("f", 0, 0, 0, late), true},
		{"asked earlier, another epoch", word("e", 0, 0, 0, late), word("f", 9, 9, 9, early), false},
	} {
		var h words.Holder
		h.Answered(c.first)
		h.Answered(c.add)
		if got := h.Known() == c.add; got != c.replaced {
			t.Errorf("%s: replaced %v", c.what, got)
		}
	}
}

func TestWordIsAskedForInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h words.Holder
		knowledge{
			due: func(opened uint64) bool {
				ask, _ := h.Due(time.Now(), opened)
				return ask
			},
			answered: func(opened uint64) {
				w := word("e", 0, 0, 0, time.Now())
				w.Opened = opened
				h.Answered(w)
			},
			doubt: func() {
				h.Doubt(time.Now())
				h.Doubt(time.Now().Add(-time.Hour)) // comes late, and takes nothing back
			},
			failed: func() { h.Answered(nil) },
		}.checkAsking(t)
	})
}

func TestServerIsAskedAboutItselfInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h words.Home
		var of words.Holder
		space := word("e", 1, 2, 3, time.Now())
		knowledge{
			due: func(opened uint64) bool {
				ask, _ := h.Due(time.Now(), opened, &of, space)
				return ask
			},
			answered: func(opened uint64) {
				h.Answered(&words.Server{ID: "s", Asked: time.Now(), Opened: opened}, &of, space)
			},
			doubt:  func() { of.Doubt(time.Now()) },
			failed: func() { h.Answered(nil, &of, space) },
		}.checkAsking(t)
	})
}

// knowledge is what an instance knows of something that it asks a server for,
// and what can happen to it. opened numbers connections.
type knowledge struct {
	due           func(opened uint64) bool
	answered      func(opened uint64)
	doubt, failed func()
}

// checkAsking checks when it is asked for, and by how many.
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
		t.Error("nobody asks for what is not known")
	}
	answer(1)
	if k.due(1) || !all(2) {
		t.Error("not asked just when a connection was opened")
	}
	answer(2)
	k.doubt()
	if !all(2) {
		t.Error("not all ask after a doubt")
	}
	time.Sleep(time.Millisecond)
	answer(2)
	time.Sleep(words.Age)
	if first, second := k.due(2), k.due(2); !first || second {
		t.Error("not one asks when it is long ago")
	}
	k.failed()
	if !k.due(2) {
		t.Error("nobody asks after one has failed")
	}
	time.Sleep(words.Age)
	if !all(2) {
		t.Error("not all ask when it is too long ago")
	}
}

// TestServersClockIsKnownFromBothSides: what is read is judged late, and what
// is stored ends early, however long the answer took.
func TestServersClockIsKnownFromBothSides(t *testing.T) {
	asked := time.Unix(1, 0)
	for _, took := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond} {
		for _, when := range []time.Duration{0, took / 2, took} { // the server looked at its clock
			w := &words.Word{Server: 7000, Asked: asked, Heard: asked.Add(took)}
			for _, later := range []time.Duration{took, took + 900*time.Microsecond, time.Second} {
				exact := 7000*time.Millisecond + later - when
				now, past := time.Duration(w.Now(asked.Add(later)))*time.Millisecond, time.Duration(w.Past(asked.Add(later)))*time.Millisecond
				if now < exact || past > exact || now-past > took+3*time.Millisecond {
					t.Errorf("took %v, looked after %v, %v later: between %v and %v, is %v", took, when, later, past, now, exact)
				}
			}
		}
	}
}

func TestNamesHaveHoldersOfTheirOwn(t *testing.T) {
	var h words.Holders
	if a := h.Of("a"); h.Of("a") != a || h.Of("b") == a {
		t.Error("holders are mixed up")
	}
}

func TestValuesAreJudgedByTheNameSpaceAndTheServer(t *testing.T) {
	var h words.Home
	var a, b words.Holder
	now := time.Unix(5, 0)
	space, other := word("e", 1, 2, 3, time.Unix(1, 0)), word("f", 4, 5, 6, time.Unix(1, 0))
	if h.Known(&a, space) != nil {
		t.Error("known before it was asked")
	}
	first := &words.Server{ID: "s", Clock: 7000, Asked: now, Heard: now.Add(time.Second), Opened: 9}
	w := h.Answered(first, &a, space)
	if w.Text != "e@s.1.2" || w.Clock != 3 || w.Epoch != "e" || w.Server != 7000 || !w.Asked.Equal(now) || w.Opened != 9 {
		t.Errorf("%+v", w)
	}
	if h.Known(&a, space) != w || h.Known(&b, other).Text != "f@s.4.5" || h.Known(&a, space) != w {
		t.Error("words of name spaces are mixed up")
	}
	if n := testing.AllocsPerRun(100, func() { h.Due(now, 9, &a, space) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	newer := word("e", 2, 2, 3, time.Unix(2, 0))
	if got := h.Known(&a, newer).Text; got != "e@s.2.2" {
		t.Errorf("after a drop of everything it is %s", got)
	}
	late := &words.Server{ID: "old", Asked: now.Add(-time.Second)}
	h.Answered(late, &a, newer)
	if got := h.Known(&a, newer).Text; got != "e@s.2.2" {
		t.Errorf("an answer that came late is believed: %s", got)
	}
	if words.Digest("") != "" || words.Digest("a") == words.Digest("b") || len(words.Digest("a")) > 16 {
		t.Error("digests")
	}
}
