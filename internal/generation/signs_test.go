package generation_test

import (
	"math/rand/v2"
	"testing"

	"github.com/strata-cache/strata/internal/generation"
	"github.com/strata-cache/strata/remote"
)

// spread is a position that was read from several places.
func spread(epoch string, counts ...uint64) remote.Position {
	p := position(epoch, counts...)
	p.Spread = true
	return p
}

const (
	places = 3
	lanes  = 12 // the lane n is in the place n % places
)

// drops draws drops of lanes, of which messages are to come in the order of each
// place, and the words that are read in each place at some time.
func drops(r *rand.Rand) (todo [places][]*remote.Message, now, read []uint64) {
	now, read = make([]uint64, lanes), make([]uint64, lanes)
	for p := range places {
		n := r.IntN(40)
		at := r.IntN(n + 1)
		for i := range n + 1 {
			for lane := p; i == at && lane < lanes; lane += places {
				read[lane] = now[lane]
			}
			if i == n {
				break
			}
			lane := p + places*r.IntN(lanes/places)
			todo[p] = append(todo[p], move(uint16(lane), now[lane], now[lane]+1))
			now[lane]++
		}
	}
	return todo, now, read
}

// next takes the next message, of any place that has one.
func next(r *rand.Rand, todo *[places][]*remote.Message) (m *remote.Message, ok bool) {
	for _, i := range r.Perm(places) {
		if len(todo[i]) > 0 {
			m, todo[i] = todo[i][0], todo[i][1:]
			return m, true
		}
	}
	return nil, false
}

// TestSignFromSeveralPlacesIsNoAlarmHoweverMessagesAreMixed draws drops of lanes
// that are in three places, a position that was read at another time in each, and
// an order of messages that keeps that of each place.
func TestSignFromSeveralPlacesIsNoAlarmHoweverMessagesAreMixed(t *testing.T) {
	early := 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		l := joined(spread("e", make([]uint64, lanes)...))
		stamp := l.Watermark()
		todo, now, read := drops(r)
		hear := func(n int) {
			for range n {
				if m, ok := next(r, &todo); ok && l.Hear(m, 1) {
					t.Fatalf("seed %d: a loss was seen where there is none", seed)
				}
			}
		}
		hear(r.IntN(100))
		switch l.See(generation.Sign(spread("e", read...))) {
		case generation.Strange:
			t.Fatalf("seed %d: strange", seed)
		case generation.Early:
			early++
		}
		hear(r.IntN(20))
		// Whoever reads the words there now, and compares, sees no loss either.
		pending := l.Check(spread("e", read...), 1)
		hear(1000)
		if l.Overdue() {
			t.Fatalf("seed %d: overdue although all has come", seed)
		}
		if n := l.Settle(1); pending && n != 0 {
			t.Fatalf("seed %d: %d lanes are suspect", seed, n)
		}
		for lane := range uint16(lanes) {
			if v := judge(l, stamp, lane); v != generation.Valid {
				t.Fatalf("seed %d: lane %d is %v", seed, lane, v)
			}
		}
		if l.See(generation.Sign(spread("e", now...))) != generation.NoNews || !l.Had(generation.Digest(spread("e", now...))) {
			t.Fatalf("seed %d: it is not where the tier is", seed)
		}
	}
	if early < 50 {
		t.Errorf("only %d of 500 signs were early: nothing was tried", early)
	}
}

func TestSignTellsOfWhatDoesNotCome(t *testing.T) {
	ahead := func(change func(*remote.Position)) string {
		p := spread("e", 3, 3, 3)
		p.Drops, p.Expiries, p.Clock = 1, 1, 1
		change(&p)
		return generation.Sign(p)
	}
	for name, change := range map[string]func(*remote.Position){
		"a lane": func(p *remote.Position) { p.Lanes[1] = remote.Word{Count: 4, Nonce: 104} },
		"drops":  func(p *remote.Position) { p.Drops++ }, "expiries": func(p *remote.Position) { p.Expiries++ },
		"the clock": func(p *remote.Position) { p.Clock++ },
	} {
		p := spread("e", 3, 3, 3)
		p.Drops, p.Expiries, p.Clock = 1, 1, 1
		l := joined(p)
		if got := l.See(ahead(change)); got != generation.Early {
			t.Errorf("%s: %v", name, got)
		}
		l.Hear(move(0, 3, 4), 1) // another lane
		if !l.Overdue() {
			t.Errorf("%s: not overdue", name)
		}
		if l.Overdue() {
			t.Errorf("%s: overdue twice", name)
		}
		l.See(ahead(change))
		l.Hear(move(1, 3, 4), 1)
		l.Hear(&remote.Message{Kind: remote.AllDropped, Is: remote.Word{Count: 2}}, 1)
		l.Hear(&remote.Message{Kind: remote.AllExpired, Is: remote.Word{Count: 2}}, 1)
		l.Hear(&remote.Message{Kind: remote.TagDropped, Was: remote.Word{Count: 1}, Is: remote.Word{Count: 2}}, 1)
		if l.Overdue() {
			t.Errorf("%s: overdue although it came", name)
		}
	}
	l := joined(spread("e", 1))
	for name, c := range map[string]struct {
		sign string
		want generation.News
	}{
		"another epoch": {generation.Sign(spread("f", 1)), generation.Strange}, "other lanes": {generation.Sign(spread("e", 1, 1)), generation.NoNews},
		"nothing": {"", generation.NoNews}, "rubbish": {"~~~", generation.NoNews}, "text": {"zz", generation.NoNews},
		"a digest": {generation.Sign(position("e", 1)), generation.NoNews}, "another digest": {generation.Sign(position("e", 2)), generation.Strange},
	} {
		if got := l.See(c.sign); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := (&generation.Ledger{}).See(generation.Sign(spread("e", 1))); got != generation.NoNews {
		t.Errorf("who knows no words: %v", got)
	}
}

// TestPositionThatIsBehindTheMessagesTakesNothingBack: words were read before
// drops of which messages have told.
func TestPositionThatIsBehindTheMessagesTakesNothingBack(t *testing.T) {
	for name, compare := range map[string]func(l *generation.Ledger, p remote.Position){
		"after a gap": func(l *generation.Ledger, p remote.Position) { l.Rejoin(p, 1) },
		"by a check": func(l *generation.Ledger, p remote.Position) {
			l.Check(p, 1)
			l.Settle(1)
		},
	} {
		p := spread("e", 1, 1)
		p.Drops, p.Expiries, p.Clock = 1, 1, 1
		l := joined(p)
		l.Hear(move(0, 1, 2), 1)
		l.Hear(&remote.Message{Kind: remote.AllDropped, Is: remote.Word{Count: 2}}, 1)
		l.Hear(&remote.Message{Kind: remote.AllExpired, Is: remote.Word{Count: 2}}, 1)
		l.Hear(&remote.Message{Kind: remote.TagDropped, Was: remote.Word{Count: 1}, Is: remote.Word{Count: 2}}, 1)
		stamp, tagStamp := l.Watermark(), l.TagWatermark()
		compare(l, p)
		if v := judge(l, stamp, 0); v != generation.Valid {
			t.Errorf("%s: lane 0 is %v", name, v)
		}
		if v, _, _ := l.JudgeTags([]string{"t"}, tagStamp); v != generation.Valid {
			t.Errorf("%s: entries with tags are %v", name, v)
		}
		if l.Hear(move(0, 2, 3), 1) || l.Hear(&remote.Message{Kind: remote.TagDropped, Was: remote.Word{Count: 2}, Is: remote.Word{Count: 3}}, 1) {
			t.Errorf("%s: what comes next does not go on from what is known", name)
		}
	}
}
