package link

import (
	"github.com/strata-cache/strata/internal/generation"
	"github.com/strata-cache/strata/remote"
)

// follow takes the events of the bus, one at a time. It does not wait for
// anything.
func (l *Link) follow(e remote.Event) {
	now := l.o.Now()
	switch e.State {
	case remote.Connected:
		l.leave(func(s *state) {
			s.subscribed(now)
			l.beatLater(now)
		})
	case remote.Gap:
		l.gaps.Add(1)
		l.leave(func(s *state) { s.unsubscribed(e.Err) })
	}
	if e.State == remote.Delivered {
		l.alive(now)
	}
	for i := range e.Messages {
		l.hear(&e.Messages[i], now)
	}
}

// alive notes that something came over the bus.
func (l *Link) alive(now int64) {
	l.mu.Lock()
	join := l.state.alive(now)
	l.mu.Unlock()
	if join {
		l.wake()
	}
}

// hear takes one message.
func (l *Link) hear(m *remote.Message, now int64) {
	switch m.Kind {
	case remote.Beat:
		l.hearBeat(m, now)
		return
	case remote.Ended:
		l.o.Apply(m)
		return
	}
	if l.o.Generation.Hear(m, now) {
		l.missed.Add(1)
		l.o.FenceAll()
	}
	if m.Kind == remote.AllDropped || m.Kind == remote.AllExpired {
		if !l.o.Mine(m) {
			l.hearAll(m, now)
		}
		return
	}
	l.o.Apply(m)
}

// hearAll applies a drop of everything: at once, or later if one instance sends
// too many.
func (l *Link) hearAll(m *remote.Message, now int64) {
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

// hearBeat takes a heartbeat. A heartbeat from a state of the tier that this
// instance has not heard of leads to a comparison with the tier.
func (l *Link) hearBeat(m *remote.Message, now int64) {
	news := generation.NoNews
	if l.o.Position != nil {
		news = l.o.Generation.See(m.Key)
	}
	l.mu.Lock()
	if m.Key != "" || l.o.Position == nil {
		l.beatLater(now) // a heartbeat without a digest replaces none that has one
	}
	switch {
	case news == generation.Strange:
		l.strange(now)
	case news == generation.Early:
		l.due.overdue = now + int64(overdueAfter)
	case m.Key != "" && l.phase != connected:
		l.strangeAt = 0 // the messages about the strange state have come
	}
	l.mu.Unlock()
	if news != generation.NoNews {
		l.wake()
	}
}
