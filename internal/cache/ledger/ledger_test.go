package ledger_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/strata-cache/strata/internal/cache/ledger"
	"github.com/strata-cache/strata/remote"
)

// judge judges a stamp for an entry of lane.
func judge(l *ledger.Ledger, stamp uint64, lane uint16) ledger.Verdict {
	v, next, _ := l.Judge(stamp, func() uint16 { return lane })
	if v == ledger.Valid && next < stamp {
		panic("an older stamp")
	}
	return v
}

// position returns a position with one lane for each count.
func position(epoch string, counts ...uint64) remote.Position {
	p := remote.Position{Epoch: epoch}
	for _, n := range counts {
		p.Lanes = append(p.Lanes, remote.LaneVersion{Count: n, Nonce: 100 + n})
	}
	return p
}

// move returns the message of a drop that brings a lane from one count to
// another.
func move(lane uint16, was, is uint64) *remote.Message {
	return &remote.Message{Kind: remote.Dropped, Lane: lane, Was: remote.LaneVersion{Count: was, Nonce: 100 + was}, Is: remote.LaneVersion{Count: is, Nonce: 100 + is}}
}

func joined(p remote.Position) *ledger.Ledger {
	l := &ledger.Ledger{}
	l.Rejoin(p, 1)
	return l
}

func TestWatermarksConcernOlderEntriesOnly(t *testing.T) {
	tests := []struct {
		name string
		set  func(l *ledger.Ledger)
		want ledger.Verdict
	}{
		{"invalidated", func(l *ledger.Ledger) { l.InvalidateAll() }, ledger.Invalid},
		{"expired", func(l *ledger.Ledger) { l.Expire(7) }, ledger.Stale},
		{"suspect", func(l *ledger.Ledger) { l.SuspectAll(7) }, ledger.Suspect},
		{"expired and suspect", func(l *ledger.Ledger) { l.Expire(7); l.SuspectAll(7) }, ledger.Invalid},
		{"suspect and invalidated", func(l *ledger.Ledger) { l.SuspectAll(7); l.InvalidateAll() }, ledger.Invalid},
	}
	for _, tt := range tests {
		var l ledger.Ledger
		before := l.Watermark()
		if v := judge(&l, before, 0); v != ledger.Valid {
			t.Errorf("%s: before it, %v", tt.name, v)
		}
		tt.set(&l)
		if l.Watermark() <= before {
			t.Errorf("%s: the generation was not raised: a hit does not judge", tt.name)
		}
		if v := judge(&l, before, 0); v != tt.want {
			t.Errorf("%s: an entry from before is %v, want %v", tt.name, v, tt.want)
		}
		if v := judge(&l, l.Watermark(), 0); v != ledger.Valid {
			t.Errorf("%s: an entry from after is %v", tt.name, v)
		}
	}
}

func TestEntryIsSuspectSinceTheFirstTime(t *testing.T) {
	lane := func() uint16 { return 1 }
	l := joined(position("e", 1, 2, 3))
	first := l.Watermark()
	l.Rejoin(position("e", 1, 5, 3), 10)
	second := l.Watermark()
	l.Rejoin(position("e", 1, 6, 3), 20)
	for stamp, want := range map[uint64]int64{first: 10, second: 20} {
		if v, _, since := l.Judge(stamp, lane); v != ledger.Suspect || since != want {
			t.Errorf("%v since %d, want suspect since %d", v, since, want)
		}
	}
	l.SuspectAll(30)
	if v, _, since := l.Judge(first, lane); v != ledger.Suspect || since != 10 {
		t.Errorf("%v since %d when everything is, want suspect since 10", v, since)
	}
	third := l.Watermark()
	for i := range uint64(100) { // more than are told apart
		l.Rejoin(position("e", 1, 7+i, 3), 40+int64(i))
	}
	for stamp, latest := range map[uint64]int64{first: 10, third: 40, l.Watermark() - 1: 139} {
		if v, _, since := l.Judge(stamp, lane); v != ledger.Suspect || since > latest {
			t.Errorf("%v since %d, want suspect since %d or before", v, since, latest)
		}
	}
	if v, _, _ := l.Judge(l.Watermark(), lane); v != ledger.Valid {
		t.Errorf("an entry from after is %v", v)
	}
}

func TestEntryThatIsSuspectTwiceIsSuspectSinceTheFirstTime(t *testing.T) {
	tests := []struct {
		v, w      ledger.Verdict
		want      ledger.Verdict
		wantSince int64
	}{
		{ledger.Suspect, ledger.Suspect, ledger.Suspect, 10},
		{ledger.Suspect, ledger.Valid, ledger.Suspect, 20},
		{ledger.Valid, ledger.Suspect, ledger.Suspect, 10},
		{ledger.Stale, ledger.Suspect, ledger.Invalid, 10},
	}
	for _, tt := range tests {
		if v, since := ledger.Both(tt.v, 20, tt.w, 10); v != tt.want || since != tt.wantSince {
			t.Errorf("%v and %v: %v since %d, want %v since %d", tt.v, tt.w, v, since, tt.want, tt.wantSince)
		}
	}
	if _, since := ledger.Both(ledger.Suspect, 10, ledger.Suspect, 20); since != 10 {
		t.Errorf("since %d, want 10", since)
	}
}

func TestOnlyLanesThatMovedInAGapAreSuspect(t *testing.T) {
	l := joined(position("e", 1, 2, 3))
	stamp := l.Watermark()
	if n := l.Rejoin(position("e", 1, 5, 3), 9); n != 1 {
		t.Errorf("%d lanes are suspect, want 1", n)
	}
	for lane, want := range []ledger.Verdict{ledger.Valid, ledger.Suspect, ledger.Valid} {
		if v, _, since := l.Judge(stamp, func() uint16 { return uint16(lane) }); v != want || v == ledger.Suspect && since != 9 {
			t.Errorf("lane %d is %v since %d, want %v since 9", lane, v, since, want)
		}
	}
	if v := judge(l, l.Watermark(), 1); v != ledger.Valid {
		t.Errorf("an entry that was read since is %v", v)
	}
	generationBefore := l.Watermark()
	if n := l.Rejoin(position("e", 1, 5, 3), 10); n != 0 || l.Watermark() != generationBefore {
		t.Errorf("nothing has moved, and %d lanes are suspect", n)
	}
}

func TestAnotherEpochMakesEverythingSuspect(t *testing.T) {
	for name, p := range map[string]remote.Position{
		"another epoch": position("f", 1, 2, 3), "fewer lanes": position("e", 1, 2),
	} {
		l := joined(position("e", 1, 2, 3))
		stamp := l.Watermark()
		l.Rejoin(p, 1)
		if v := judge(l, stamp, 0); v != ledger.Suspect {
			t.Errorf("%s: %v, want suspect", name, v)
		}
		l = joined(position("e", 1, 2, 3))
		l.Check(p, 1)
		if v := judge(l, stamp, 0); v != ledger.Suspect {
			t.Errorf("%s, found out by a check: %v, want suspect", name, v)
		}
	}
	var l ledger.Ledger
	l.Rejoin(position("e", 1), 1)
	if v := judge(&l, 0, 0); v != ledger.Suspect {
		t.Errorf("an entry from before the first position is %v", v)
	}
}

func TestLaneThatDoesNotExistIsSuspect(t *testing.T) {
	l := joined(position("e", 1, 2))
	stamp := l.Watermark()
	l.Receive(move(0, 4, 5), 1)
	if v := judge(l, stamp, 9); v != ledger.Suspect {
		t.Errorf("%v", v)
	}
}

func TestMessageThatSkipsALaneVersionShowsALoss(t *testing.T) {
	l := joined(position("e", 1, 1))
	stamp := l.Watermark()
	steps := []struct {
		m      *remote.Message
		missed bool
	}{
		{move(0, 1, 2), false},
		{move(0, 1, 2), false}, // once more
		{move(0, 2, 3), false},
		{move(0, 4, 5), true},
		{move(0, 5, 6), false},
		{move(1, 1, 2), false},
		{&remote.Message{Kind: remote.Dropped}, false}, // its publisher knows no lanes
		{move(7, 1, 2), false},                         // its publisher has more lanes
	}
	for i, s := range steps {
		if missed := l.Receive(s.m, 1); missed != s.missed {
			t.Errorf("step %d: missed %v, want %v", i, missed, s.missed)
		}
	}
	if v := judge(l, stamp, 0); v != ledger.Suspect {
		t.Errorf("the lane is %v", v)
	}
	if v := judge(l, stamp, 1); v != ledger.Valid {
		t.Errorf("the other lane is %v", v)
	}
	// After a loss of writes a server repeats its counts with other nonces.
	again := move(1, 2, 3)
	again.Was.Nonce++
	if !l.Receive(again, 1) {
		t.Error("the same count with another nonce was taken for the same version")
	}
}

func TestTagClockThatJumpsMakesEntriesWithTagsSuspect(t *testing.T) {
	l := joined(position("e", 1))
	stamp, tagStamp := l.Watermark(), l.TagWatermark()
	tag := func(was, is uint64) *remote.Message {
		return &remote.Message{Kind: remote.TagDropped, Key: "t", Was: remote.LaneVersion{Count: was}, Is: remote.LaneVersion{Count: is}}
	}
	if l.Receive(tag(0, 1), 1) || l.Receive(tag(1, 2), 1) || l.Receive(tag(1, 2), 1) {
		t.Error("a loss was seen where there is none")
	}
	if v, _, _ := l.JudgeTags([]string{"x"}, tagStamp); v != ledger.Valid {
		t.Errorf("an entry with another tag is %v", v)
	}
	if !l.Receive(tag(4, 5), 3) {
		t.Error("a lost drop of a tag was not seen")
	}
	if v, _, since := l.JudgeTags([]string{"x"}, tagStamp); v != ledger.Suspect || since != 3 {
		t.Errorf("an entry with another tag is %v since %d, want suspect since 3", v, since)
	}
	if v := judge(l, stamp, 0); v != ledger.Valid {
		t.Errorf("an entry without tags is %v", v)
	}
}

func TestDroppedTagConcernsTheEntriesThatCarryIt(t *testing.T) {
	var l ledger.Ledger
	old := l.TagWatermark()
	l.DropTag("hard", false, 1)
	l.DropTag("soft", true, 1)
	tests := []struct {
		tags []string
		want ledger.Verdict
	}{
		{nil, ledger.Valid},
		{[]string{"x"}, ledger.Valid},
		{[]string{"x", "hard"}, ledger.Invalid},
		{[]string{"soft"}, ledger.Stale},
		{[]string{"soft", "hard"}, ledger.Invalid},
	}
	for _, tt := range tests {
		if v, _, _ := l.JudgeTags(tt.tags, old); v != tt.want {
			t.Errorf("%q: %v, want %v", tt.tags, v, tt.want)
		}
		if v, _, _ := l.JudgeTags(tt.tags, l.TagWatermark()); v != ledger.Valid {
			t.Errorf("%q: read afterwards, %v", tt.tags, v)
		}
	}
}

func TestTooManyDroppedTagsMakeAllEntriesWithTagsSuspect(t *testing.T) {
	var l ledger.Ledger
	l.DropTag("first", false, 1)
	old := l.TagWatermark()
	for i := range 10_001 {
		l.DropTag(fmt.Sprint(i), false, 1)
	}
	if v, _, _ := l.JudgeTags([]string{"never dropped"}, old); v != ledger.Suspect {
		t.Errorf("%v, want suspect: a forgotten drop may concern it", v)
	}
	if v, _, _ := l.JudgeTags([]string{"first"}, l.TagWatermark()); v != ledger.Valid {
		t.Errorf("read afterwards: %v", v)
	}
}

func TestDigestOfAnEarlierPositionIsReached(t *testing.T) {
	p := position("e", 1, 1)
	l := joined(p)
	d := []uint64{ledger.Digest(p)}
	for n := uint64(1); n < 5; n++ {
		l.Receive(move(1, n, n+1), 1)
		d = append(d, ledger.Digest(position("e", 1, n+1)))
	}
	all := position("e", 1, 5)
	all.Drops, all.Expiries, all.Clock = 1, 2, 1
	l.Receive(&remote.Message{Kind: remote.AllDropped, Is: remote.LaneVersion{Count: 1}}, 1)
	l.Receive(&remote.Message{Kind: remote.AllExpired, Is: remote.LaneVersion{Count: 2}}, 1)
	l.Receive(&remote.Message{Kind: remote.TagDropped, Is: remote.LaneVersion{Count: 1}}, 1)
	for i, d := range append(d, ledger.Digest(all)) {
		if l.Compare(strconv.FormatUint(d, 16)) != ledger.Reached {
			t.Errorf("position %d was here and is not known", i)
		}
	}
	for _, other := range []remote.Position{position("e", 2, 5), position("f", 1, 5), position("e", 5, 1)} {
		if l.Compare(ledger.Heartbeat(other)) != ledger.Unknown {
			t.Errorf("%+v was never here", other)
		}
	}
}

func TestLaneVersionsOfTheTierAreSuspectIfNoMessageExplainsThem(t *testing.T) {
	l := joined(position("e", 1, 1, 1, 1))
	stamp := l.Watermark()
	p := position("e", 1, 3, 2, 2)
	p.Clock = 1
	if !l.Check(p, 1) {
		t.Fatal("nothing to settle")
	}
	l.Receive(move(1, 1, 2), 1)
	l.Receive(move(1, 2, 3), 1) // it was on its way
	l.Receive(move(2, 1, 2), 1)
	l.Receive(move(2, 2, 3), 1) // and more has come
	if n := l.Settle(5); n != 2 {
		t.Errorf("%d are suspect, want 2: a lane and the tags", n)
	}
	for lane, want := range []ledger.Verdict{ledger.Valid, ledger.Valid, ledger.Valid, ledger.Suspect} {
		if v := judge(l, stamp, uint16(lane)); v != want {
			t.Errorf("lane %d is %v, want %v", lane, v, want)
		}
	}
	if v, _, _ := l.JudgeTags([]string{"t"}, 0); v != ledger.Suspect {
		t.Errorf("entries with tags are %v", v)
	}
	now := position("e", 1, 3, 3, 2)
	now.Clock = 1
	if l.Check(now, 1) || l.Compare(ledger.Heartbeat(now)) != ledger.Reached {
		t.Error("a settled position differs still")
	}
}

func TestMissedDropOfEverythingIsApplied(t *testing.T) {
	dropped, expired := position("e", 1), position("e", 1)
	dropped.Drops, expired.Expiries = 1, 1
	for name, find := range map[string]func(l *ledger.Ledger, p remote.Position){
		"after a gap": func(l *ledger.Ledger, p remote.Position) { l.Rejoin(p, 1) },
		"by a check":  func(l *ledger.Ledger, p remote.Position) { l.Check(p, 1) },
	} {
		l := joined(position("e", 1))
		stamp := l.Watermark()
		find(l, dropped)
		if v := judge(l, stamp, 0); v != ledger.Invalid {
			t.Errorf("%s: %v, want invalid", name, v)
		}
		l = joined(position("e", 1))
		find(l, expired)
		if v := judge(l, stamp, 0); v != ledger.Stale {
			t.Errorf("%s: %v, want stale", name, v)
		}
	}
}

func TestFloodOfDropsOfEverythingIsAppliedOnceASecond(t *testing.T) {
	var f ledger.Floods
	const second = int64(1e9)
	applied := 0
	for i := range 100 {
		if at := f.Admit(1, int64(i)); at <= int64(i) {
			applied++
		} else if at > int64(i)+second {
			t.Fatalf("delayed by %d ns", at-int64(i))
		}
	}
	if applied != 10 {
		t.Errorf("%d of 100 at once were applied at once, want 10", applied)
	}
	if at := f.Admit(2, 100); at != 100 {
		t.Error("another publisher was delayed")
	}
	if at := f.Admit(1, second+100); at != second+100 {
		t.Error("delayed after a quiet second")
	}
	if at := f.Admit(1, second+101); at <= second+101 {
		t.Error("two were applied after one second")
	}
}

func TestFloodFromManyPublishersIsBounded(t *testing.T) {
	var f ledger.Floods
	applied := 0
	for i := range uint64(10_000) {
		if f.Admit(i+1, 1) == 1 {
			applied++
		}
	}
	if applied > 300 {
		t.Errorf("%d of 10000 publishers were applied at once", applied)
	}
}
