package stratatest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata/remote"
)

// ErrCut is returned by [Bus.Publish] while the bus is cut.
var ErrCut = errors.New("stratatest: bus is cut")

// Bus is one connection to an in-memory [remote.Bus]. [Bus.Connect] makes
// further connections to it, as other processes would, each with its own
// faults. Every follower has a goroutine that lives until its stop is called;
// publishing never waits for it.
//
// All methods are safe for concurrent use. Use [NewBus] to make one.
type Bus struct {
	hub *hub

	// Guarded by hub.mu.
	followers []*follower
	cut       bool
	hushed    bool
	lose      int
	duplicate int
	reorder   bool
	kept      []remote.Message // wait for the next message, which goes first
	delay     time.Duration
}

// hub joins the connections of one bus.
type hub struct {
	mu    sync.Mutex
	buses []*Bus
}

// follower is one call of Follow. Its queue is guarded by hub.mu.
type follower struct {
	name   string
	f      func(remote.Event)
	queue  []delivery
	wake   chan struct{} // has room for one
	done   chan struct{} // closed by stop
	exited chan struct{}
}

// delivery is an event and the time at which it arrives.
type delivery struct {
	due   time.Time
	event remote.Event
}

var _ remote.Bus = (*Bus)(nil)

// NewBus returns the first connection to a new bus.
func NewBus() *Bus { return (&hub{}).connect() }

// Connect returns another connection to the same bus.
func (b *Bus) Connect() *Bus { return b.hub.connect() }

func (h *hub) connect() *Bus {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := &Bus{hub: h}
	h.buses = append(h.buses, b)
	return b
}

// Publish implements [remote.Bus].
func (b *Bus) Publish(ctx context.Context, m []remote.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	if b.cut {
		return ErrCut
	}
	b.hub.sendLocked(m)
	return nil
}

// Follow implements [remote.Bus]. stop must not be called from f.
func (b *Bus) Follow(name string, f func(remote.Event)) (stop func()) {
	fl := &follower{
		name: name, f: f,
		wake: make(chan struct{}, 1), done: make(chan struct{}), exited: make(chan struct{}),
	}
	b.hub.mu.Lock()
	b.followers = append(b.followers, fl)
	if !b.cut {
		fl.push(delivery{event: remote.Event{State: remote.Connected}})
	}
	b.hub.mu.Unlock()
	go fl.run(b.hub)
	return sync.OnceFunc(func() {
		close(fl.done)
		<-fl.exited
		b.remove(fl)
	})
}

// Cut disconnects this connection. Messages on their way, or sent meanwhile,
// are lost; its followers get [remote.Gap]; Publish fails. Faults set for
// later messages end.
func (b *Bus) Cut() {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	if b.cut {
		return
	}
	b.cut, b.kept = true, nil
	b.lose, b.duplicate, b.reorder = 0, 0, false
	for _, fl := range b.followers {
		fl.queue = append(fl.queue[:0], delivery{event: remote.Event{State: remote.Gap}})
		fl.signal()
	}
}

// Join reconnects after [Bus.Cut]: followers get [remote.Connected].
func (b *Bus) Join() {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	if !b.cut {
		return
	}
	b.cut = false
	for _, fl := range b.followers {
		fl.push(delivery{event: remote.Event{State: remote.Connected}})
	}
}

// Hush makes this connection deaf, or ends that, as a connection with a dead
// other end. Messages sent meanwhile are lost, and followers get no event.
// Messages already on their way arrive, and Publish works, because it goes
// another way.
func (b *Bus) Hush(deaf bool) {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	b.hushed = deaf
}

// Lose makes this connection lose the next n messages without an event. Only
// lane versions show the loss.
func (b *Bus) Lose(n int) {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	b.lose = n
}

// Duplicate makes the next n messages arrive twice at this connection.
func (b *Bus) Duplicate(n int) {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	b.duplicate = n
}

// Reorder makes the next two messages arrive at this connection in reverse
// order. The first of them waits for the second as long as that takes.
func (b *Bus) Reorder() {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	b.reorder = true
}

// Delay makes messages sent from now on arrive at this connection after d.
// They stay in order.
func (b *Bus) Delay(d time.Duration) {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	b.delay = d
}

func (b *Bus) remove(fl *follower) {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	b.followers = slices.DeleteFunc(b.followers, func(other *follower) bool { return other == fl })
}

// send queues messages at every follower of their names.
func (h *hub) send(m []remote.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sendLocked(m)
}

func (h *hub) sendLocked(m []remote.Message) {
	for _, b := range h.buses {
		if b.cut || b.hushed {
			continue
		}
		arriving := b.garble(m)
		due := time.Now().Add(b.delay)
		for _, fl := range b.followers {
			if mine := named(arriving, fl.name); len(mine) > 0 {
				fl.push(delivery{due, remote.Event{Messages: mine}})
			}
		}
	}
}

// garble returns the messages that arrive: it loses, doubles and swaps some.
func (b *Bus) garble(m []remote.Message) (arriving []remote.Message) {
	lost := min(b.lose, len(m))
	b.lose -= lost
	for _, m := range m[lost:] {
		n := 1
		if b.duplicate > 0 {
			b.duplicate--
			n = 2
		}
		copies := slices.Repeat([]remote.Message{m}, n)
		if b.reorder {
			b.reorder, b.kept = false, copies
			continue
		}
		arriving = append(append(arriving, copies...), b.kept...)
		b.kept = nil
	}
	return arriving
}

// named returns a copy of the messages with a name.
func named(m []remote.Message, name string) []remote.Message {
	return slices.DeleteFunc(slices.Clone(m), func(m remote.Message) bool { return m.Name != name })
}

// push and signal are called with hub.mu held.
func (fl *follower) push(d delivery) {
	fl.queue = append(fl.queue, d)
	fl.signal()
}

func (fl *follower) signal() {
	select {
	case fl.wake <- struct{}{}:
	default:
	}
}

// run delivers until stop is called.
func (fl *follower) run(h *hub) {
	defer close(fl.exited)
	for {
		event, wait, ok := fl.next(h)
		if !ok {
			if !fl.wait(wait) {
				return
			}
			continue
		}
		select {
		case <-fl.done:
			return
		default:
			fl.f(event)
		}
	}
}

// wait waits for an event, for at most d unless d is zero, and reports false
// when stop is called.
func (fl *follower) wait(d time.Duration) (more bool) {
	// No expired timer is read: in a bubble, several goroutines reading expired
	// timers crash the race detector.
	var due <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-fl.wake:
	case <-due:
	case <-fl.done:
		return false
	}
	return true
}

// next takes the next arrived event, or returns the time until one arrives;
// zero means that none is on its way.
func (fl *follower) next(h *hub) (e remote.Event, wait time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(fl.queue) == 0 {
		return e, 0, false
	}
	head := fl.queue[0]
	if wait = time.Until(head.due); wait > 0 {
		return e, wait, false
	}
	fl.queue = fl.queue[1:]
	return head.event, 0, true
}
