package ledger_test

import (
	"math/rand/v2"
	"testing"

	"github.com/strata-cache/strata/internal/cache/ledger"
	"github.com/strata-cache/strata/remote"
)

// spread returns a position read from several servers.
func spread(epoch string, counts ...uint64) remote.Position {
	p := position(epoch, counts...)
	p.Spread = true
	return p
}

const (
	servers = 3
	lanes   = 12 // the lane n is on the server n % servers
)

// drops draws drops of lanes. todo has the messages of each server in its order, now the last
// counts of the lanes, and read the counts that were read from each server at some time.
func drops(r *rand.Rand) (todo [servers][]*remote.Message, now, read []uint64) {
	now, read = make([]uint64, lanes), make([]uint64, lanes)
	for p := range servers {
		n := r.IntN(40)
		at := r.IntN(n + 1)
		for i := range n + 1 {
			for lane := p; i == at && lane < lanes; lane += servers {
				read[lane] = now[lane]
			}
			if i == n {
				break
			}
			lane := p + servers*r.IntN(lanes/servers)
			todo[p] = append(todo[p], move(uint16(lane), now[lane], now[lane]+1))
			now[lane]++
		}
	}
	return todo, now, read
}

// next takes the next message, of any server with one.
func next(r *rand.Rand, todo *[servers][]*remote.Message) (m *remote.Message, ok bool) {
	for _, i := range r.Perm(servers) {
		if len(todo[i]) > 0 {
			m, todo[i] = todo[i][0], todo[i][1:]
			return m, true
		}
	}
	return nil, false
}

// TestLaneMarksRaiseNoAlarmInAnyOrderOfMessages draws drops of lanes on three
// servers, a position read at another time from each, and an order of messages
// that keeps the order of each server.
func TestLaneMarksRaiseNoAlarmInAnyOrderOfMessages(t *testing.T) {
	ahead := 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		l := joined(spread("e", make([]uint64, lanes)...))
		stamp := l.Watermark()
		todo, now, read := drops(r)
		hear := func(n int) {
			for range n {
				if m, ok := next(r, &todo); ok && l.Receive(m, 1) {
					t.Fatalf("seed %d: a loss was seen where there is none", seed)
				}
			}
		}
		hear(r.IntN(100))
		switch l.Compare(ledger.Heartbeat(spread("e", read...))) {
		case ledger.Unknown:
			t.Fatalf("seed %d: unknown", seed)
		case ledger.Ahead:
			ahead++
		}
		hear(r.IntN(20))
		// A comparison with the position of the tier finds no loss either.
		pending := l.Check(spread("e", read...), 1)
		hear(1000)
		if l.Overdue() {
			t.Fatalf("seed %d: overdue although all has come", seed)
		}
		if n := l.Settle(1); pending && n != 0 {
			t.Fatalf("seed %d: %d lanes are suspect", seed, n)
		}
		for lane := range uint16(lanes) {
			if v := judge(l, stamp, lane); v != ledger.Valid {
				t.Fatalf("seed %d: lane %d is %v", seed, lane, v)
			}
		}
		if l.Compare(ledger.Heartbeat(spread("e", now...))) != ledger.Reached || l.Compare(ledger.Heartbeat(position("e", now...))) != ledger.Reached {
			t.Fatalf("seed %d: it is not where the tier is", seed)
		}
	}
	if ahead < 50 {
		t.Errorf("only %d of 500 heartbeats were ahead: nothing was tried", ahead)
	}
}

func TestHeartbeatShowsAMessageThatDoesNotCome(t *testing.T) {
	ahead := func(change func(*remote.Position)) string {
		p := spread("e", 3, 3, 3)
		p.Drops, p.Expiries, p.Clock = 1, 1, 1
		change(&p)
		return ledger.Heartbeat(p)
	}
	for name, change := range map[string]func(*remote.Position){
		"a lane": func(p *remote.Position) { p.Lanes[1] = remote.LaneVersion{Count: 4, Nonce: 104} },
		"drops":  func(p *remote.Position) { p.Drops++ }, "expiries": func(p *remote.Position) { p.Expiries++ },
		"the clock": func(p *remote.Position) { p.Clock++ },
	} {
		p := spread("e", 3, 3, 3)
		p.Drops, p.Expiries, p.Clock = 1, 1, 1
		l := joined(p)
		if got := l.Compare(ahead(change)); got != ledger.Ahead {
			t.Errorf("%s: %v", name, got)
		}
		l.Receive(move(0, 3, 4), 1) // another lane
		if !l.Overdue() {
			t.Errorf("%s: not overdue", name)
		}
		if l.Overdue() {
			t.Errorf("%s: overdue twice", name)
		}
		l.Compare(ahead(change))
		l.Receive(move(1, 3, 4), 1)
		l.Receive(&remote.Message{Kind: remote.AllDropped, Is: remote.LaneVersion{Count: 2}}, 1)
		l.Receive(&remote.Message{Kind: remote.AllExpired, Is: remote.LaneVersion{Count: 2}}, 1)
		l.Receive(&remote.Message{Kind: remote.TagDropped, Was: remote.LaneVersion{Count: 1}, Is: remote.LaneVersion{Count: 2}}, 1)
		if l.Overdue() {
			t.Errorf("%s: overdue although it came", name)
		}
	}
	l := joined(spread("e", 1))
	for name, c := range map[string]struct {
		text string
		want ledger.Comparison
	}{
		"another epoch": {ledger.Heartbeat(spread("f", 1)), ledger.Unknown}, "other lanes": {ledger.Heartbeat(spread("e", 1, 1)), ledger.Reached},
		"nothing": {"", ledger.Reached}, "rubbish": {"~~~", ledger.Reached}, "text": {"zz", ledger.Reached},
		"a digest": {ledger.Heartbeat(position("e", 1)), ledger.Reached}, "another digest": {ledger.Heartbeat(position("e", 2)), ledger.Unknown},
	} {
		if got := l.Compare(c.text); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := (&ledger.Ledger{}).Compare(ledger.Heartbeat(spread("e", 1))); got != ledger.Reached {
		t.Errorf("a ledger without a position: %v", got)
	}
}

// TestPositionBehindTheMessagesTakesNothingBack: a position was read
// before drops of which messages have told.
func TestPositionBehindTheMessagesTakesNothingBack(t *testing.T) {
	for name, compare := range map[string]func(l *ledger.Ledger, p remote.Position){
		"after a gap": func(l *ledger.Ledger, p remote.Position) { l.Rejoin(p, 1) },
		"by a check": func(l *ledger.Ledger, p remote.Position) {
			l.Check(p, 1)
			l.Settle(1)
		},
	} {
		p := spread("e", 1, 1)
		p.Drops, p.Expiries, p.Clock = 1, 1, 1
		l := joined(p)
		l.Receive(move(0, 1, 2), 1)
		l.Receive(&remote.Message{Kind: remote.AllDropped, Is: remote.LaneVersion{Count: 2}}, 1)
		l.Receive(&remote.Message{Kind: remote.AllExpired, Is: remote.LaneVersion{Count: 2}}, 1)
		l.Receive(&remote.Message{Kind: remote.TagDropped, Was: remote.LaneVersion{Count: 1}, Is: remote.LaneVersion{Count: 2}}, 1)
		stamp, tagStamp := l.Watermark(), l.TagWatermark()
		compare(l, p)
		if v := judge(l, stamp, 0); v != ledger.Valid {
			t.Errorf("%s: lane 0 is %v", name, v)
		}
		if v, _, _ := l.JudgeTags([]string{"t"}, tagStamp); v != ledger.Valid {
			t.Errorf("%s: entries with tags are %v", name, v)
		}
		if l.Receive(move(0, 2, 3), 1) || l.Receive(&remote.Message{Kind: remote.TagDropped, Was: remote.LaneVersion{Count: 2}, Is: remote.LaneVersion{Count: 3}}, 1) {
			t.Errorf("%s: the next message does not start from the known version", name)
		}
	}
}
