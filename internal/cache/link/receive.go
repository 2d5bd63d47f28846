// Events and messages of the bus, as they arrive.
//
// States: connected and silent follow the bus; see state.go.
//
// Invariant: each message is compared with the known lane versions before it is
// applied, so that a loss in its lane is found with the next message at the latest.
// A drop of everything is applied at once or, in a flood, when its time comes.

package link

import (
	"github.com/strata-cache/strata/internal/cache/ledger"
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
	result := ledger.Reached
	if l.o.Position != nil {
		result = l.o.Generation.Compare(m.Key)
	}
	l.mu.Lock()
	if m.Key != "" || l.o.Position == nil {
		l.delayHeartbeat(now) // a heartbeat without a digest does not replace one with a digest
	}
	switch {
	case result == ledger.Unknown:
		l.unknownDigest(now)
	case result == ledger.Ahead:
		l.due.overdue = now + int64(overdueAfter)
	case m.Key != "" && l.phase != connected:
		l.unknownAt = 0 // the messages up to the unknown digest have arrived
	}
	l.mu.Unlock()
	if result != ledger.Reached {
		l.wake()
	}
}
