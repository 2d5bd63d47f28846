// Events and messages of the bus, as they arrive.
//
// States: connected and silent follow the bus; see linkstate.go.
//
// Invariant: each message is compared with the known lane versions before it is
// applied, so that a loss in its lane is found with the next message at the latest.
// A drop of everything is applied at once or, in a flood, when its time comes.

package ledger

import (
	"sync"
	"time"

	"github.com/strata-cache/strata/remote"
)

// follow handles the events of the bus, one at a time, without waiting.
func (l *Link) follow(e remote.Event) {
	l.following.Lock()
	defer l.following.Unlock()
	if l.over {
		return
	}
	now := l.o.Now()
	switch e.State {
	case remote.Connected:
		l.leave(func(s *state) {
			s.subscribed(now)
			l.delayHeartbeat(now)
		})
	case remote.Gap:
		l.gaps.Add(1)
		l.leave(func(s *state) { s.unsubscribed(e.Err) })
	}
	if e.State == remote.Delivered {
		l.arrived(now)
	}
	for i := range e.Messages {
		l.receive(&e.Messages[i], now)
	}
}

// arrived notes that the bus has delivered something.
func (l *Link) arrived(now int64) {
	l.mu.Lock()
	join := l.state.arrived(now)
	l.mu.Unlock()
	if join {
		l.wake()
	}
}

// receive handles one message. A message of an unknown kind counts as unreadable.
func (l *Link) receive(m *remote.Message, now int64) {
	if m.Kind < remote.Dropped || m.Kind > remote.Answered {
		l.unreadable.Add(1)
		return
	}
	switch m.Kind {
	case remote.Beat:
		l.receiveHeartbeat(m, now)
		return
	case remote.Ended, remote.Asked, remote.Answered:
		l.o.Apply(m)
		return
	}
	// A lost message may have been about any key of its lane: running flights of these keys may not
	// be joined any more.
	if l.o.Generation.Receive(m, now) {
		l.missed.Add(1)
		l.o.FenceAll()
	}
	if m.Kind == remote.AllDropped || m.Kind == remote.AllExpired {
		// This instance has applied its own drop before it was sent.
		if !l.o.Mine(m) {
			l.receiveAll(m, now)
		}
		return
	}
	l.o.Apply(m)
}

// receiveAll applies a drop of everything: at once, or later if one instance sends
// too many.
func (l *Link) receiveAll(m *remote.Message, now int64) {
	l.alls.Add(1)
	at := l.floods.Admit(m.From, now)
	if at <= now {
		l.o.DropAll(m.Kind == remote.AllExpired)
		return
	}
	l.mu.Lock()
	if m.Kind == remote.AllDropped {
		l.due.drop = at
	} else {
		l.due.expire = at
	}
	l.mu.Unlock()
	l.wake()
}

// receiveHeartbeat handles a heartbeat. An unknown digest leads to a comparison
// with the tier.
func (l *Link) receiveHeartbeat(m *remote.Message, now int64) {
	if m.From == l.o.Instance {
		l.came(m.Is.Count, now)
	} else if l.o.Seen != nil {
		l.o.Seen(m.From)
	}
	result := Reached
	if l.o.Position != nil {
		result = l.o.Generation.Compare(m.Key)
	}
	l.mu.Lock()
	if m.Key != "" || l.o.Position == nil {
		l.delayHeartbeat(now) // a heartbeat without a digest does not replace one with a digest
	}
	switch {
	case result == Unknown:
		l.unknownDigest(now, m.Key)
	case result == Ahead:
		l.due.overdue = now + int64(overdueAfter)
	case m.Key != "" && l.phase != connected:
		l.unknownAt = 0 // the messages up to the unknown digest have arrived
	}
	l.mu.Unlock()
	if result != Reached {
		l.wake()
	}
}

const (
	// floodBurst is the number of drops of everything by one publisher to apply
	// at once, floodEvery the interval of further ones.
	floodBurst = 10
	floodEvery = int64(time.Second)
	// maxPublishers bounds the memory of publishers. Publishers beyond it share
	// one account.
	maxPublishers = 256
)

// Floods delays drops of everything if one publisher sends too many: each costs
// every instance its L1. The zero Floods has seen none. It is safe for
// concurrent use.
type Floods struct {
	mu sync.Mutex // guards below
	of map[uint64]*account
}

// account is the number of drops that a publisher has left.
type account struct {
	left int
	at   int64 // when left was last topped up
}

// Admit returns the time at which to apply a drop of everything that a publisher
// has announced: now, or when its turn comes. A delayed drop stands for all that
// arrive until then.
func (f *Floods) Admit(from uint64, now int64) (at int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.account(from, now)
	if more := (now - a.at) / floodEvery; more > 0 {
		a.left = int(min(floodBurst, int64(a.left)+more))
		// The rest of an interval counts for the next one.
		a.at += more * floodEvery
	}
	if a.left == 0 {
		return a.at + floodEvery
	}
	a.left--
	return now
}

func (f *Floods) account(from uint64, now int64) *account {
	if f.of == nil {
		f.of = map[uint64]*account{}
	}
	if len(f.of) >= maxPublishers && f.of[from] == nil {
		for id, a := range f.of { // a full account is equal to a new one
			if now-a.at >= floodBurst*floodEvery {
				delete(f.of, id)
			}
		}
		if len(f.of) >= maxPublishers {
			// Too many publishers at once: the new ones share an account, so that numbers made up
			// by one of them gain nothing.
			from = 0
		}
	}
	a := f.of[from]
	if a == nil {
		a = &account{left: floodBurst, at: now}
		f.of[from] = a
	}
	return a
}

// Receive notes the lane version that a message carries. If an earlier message of
// the lane was lost, the lane becomes suspect and Receive returns true. The drop
// that the message announces is for the caller to apply.
func (l *Ledger) Receive(m *remote.Message, now int64) (missed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known.taken {
		return false // Rejoin will make every older entry suspect
	}
	switch m.Kind {
	case remote.Dropped, remote.Expired:
		return l.receiveLane(m, now)
	case remote.TagDropped, remote.TagExpired:
		return l.receiveTag(m, now)
	case remote.AllDropped:
		if m.Is.Count == 0 {
			return false // the publisher does not count
		}
		l.count(countDrops, &l.known.Drops, m.Is.Count)
	case remote.AllExpired:
		if m.Is.Count == 0 {
			return false
		}
		l.count(countExpiries, &l.known.Expiries, m.Is.Count)
	}
	return false
}

func (l *Ledger) receiveLane(m *remote.Message, now int64) (missed bool) {
	n := int(m.Lane)
	if m.Is == (remote.LaneVersion{}) || n >= len(l.known.Lanes) {
		return false // the publisher knows no lanes
	}
	// The version of the tier was known before its message. The message has come now, or the one
	// behind it.
	if p, ok := l.pending[n]; ok && (p == m.Was || p == m.Is) {
		delete(l.pending, n)
	}
	if l.awaited != nil {
		if a := l.awaited.lanes[n]; a == laneMark(mixVersion(n, m.Was)) || a == laneMark(mixVersion(n, m.Is)) {
			delete(l.awaited.lanes, n)
		}
	}
	version := l.known.Lanes[n]
	// The position was read after this drop: the message brings no news.
	if version == m.Is {
		return false
	}
	missed = version != m.Was
	l.move(n, m.Is)
	if missed {
		l.suspect(now, n)
	}
	return missed
}

func (l *Ledger) receiveTag(m *remote.Message, now int64) (missed bool) {
	if m.Is.Count == 0 {
		return false
	}
	if p, ok := l.pending[tagLane]; ok && (p.Count == m.Was.Count || p.Count == m.Is.Count) {
		delete(l.pending, tagLane)
	}
	// As for a lane: the drop is known already.
	if l.known.Clock == m.Is.Count {
		return false
	}
	missed = l.known.Clock != m.Was.Count
	l.count(countClock, &l.known.Clock, m.Is.Count)
	if missed {
		l.suspect(now, tagLane)
	}
	return missed
}

// move makes version the known version of a lane.
func (l *Ledger) move(lane int, version remote.LaneVersion) {
	l.note(lane, mixVersion(lane, l.known.Lanes[lane]), mixVersion(lane, version))
	l.known.Lanes[lane] = version
	l.saw(lane, version)
}

// count makes n the value of one of the known counts.
func (l *Ledger) count(which int, known *uint64, n uint64) {
	l.note(which, mixCount(which, *known), mixCount(which, n))
	*known = n
}

// note notes that the mixed version of a lane, or of a count, has changed.
func (l *Ledger) note(which int, was, is uint64) {
	// The digest is the exclusive or of all versions: a change costs two operations, however many
	// lanes there are.
	l.known.digest ^= was ^ is
	l.past.add(change{which: which, was: was, delta: was ^ is})
}
