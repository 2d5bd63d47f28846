// Package bus is the common part of the buses over Redis: one subscription that
// all caches share, and the proof that messages arrive on it.
//
// A subscription tells nothing about its server: a demoted primary that has
// lost its new primary keeps its subscribers, and so does a primary that was
// cut off from its replicas. So a bus publishes on a channel of its own, about
// once a second, over the connections of writes, in a transaction that only a
// server open to writes executes. A message that comes back proves that the
// messages of others come too. Followers are Connected from the first proof on.
// When none has come for [SilentAfter], they get a Gap, and the bus opens another
// connection.
//
// The connections of writes and of the subscription may lead to a deposed server,
// which lives on although its address leads elsewhere by now. So each third
// message goes over a connection opened for it, if the client can open one.
//
// Invariant: a follower gets messages only between a Connected and the next
// Gap.
package bus

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/remote"
)

// A follower is silent, Connected, or in a Gap.
// Invariant: it gets messages only between a Connected and the next Gap.

const (
	// proveEvery is the interval at which a bus publishes to itself, or up to a
	// tenth more often.
	proveEvery = time.Second
	// SilentAfter is the time without a message from itself after which a bus
	// gives its connection up.
	SilentAfter = 3 * time.Second
	// freshly is the number of proofs of which the last goes over a new
	// connection.
	freshly = 3
)

// errDeaf is the reason for giving a connection up.
var errDeaf = errors.New("redis: bus: published messages do not arrive: the server of the subscription takes no writes, or is cut off from the one that does")

// errAstray is the reason for giving all connections up.
var errAstray = errors.New("redis: bus: messages over new connections do not arrive: the address leads to another server")

// Config is the way of a [Bus] to its server.
type Config struct {
	// Channel returns the channel of a cache.
	Channel func(name string) string
	// Subscribe begins a subscription to one channel; others join it later. In
	// a cluster it goes to the server of key's slot.
	Subscribe func(ctx context.Context, key, channel string) (*Subscription, error)
	// Prove publishes a message by [Prove], with its text.
	Prove func(ctx context.Context, key, channel, text string) error
	// Fresh, if set, is Prove over a connection opened for it. Astray is called if
	// such messages do not arrive: it gives up the connections of writes.
	Fresh  func(ctx context.Context, key, channel, text string) error
	Astray func()
}

// Bus is one subscription that any number of followers share. It exists while
// there are followers.
type Bus struct {
	o Config

	mu   sync.Mutex // guards below
	life *life      // nil without followers
}

// New returns a bus that does nothing yet.
func New(o Config) *Bus { return &Bus{o: o} }

// life is the time from the first follower to the last.
type life struct {
	// The fields up to mu are set once, before the goroutines begin.
	o      Config
	key    string // the first channel with a follower
	echo   string // the bus's own channel
	sub    *Subscription
	cancel context.CancelFunc
	runs   sync.WaitGroup
	woken  chan struct{} // holds one

	mu sync.Mutex // guards below
	// followers has the followers of each channel. Its slices are not changed.
	followers map[string][]*follower
	// subscribed says that the server has agreed to the subscription; proven,
	// that a message of the bus to itself has come back since; heardAt is the
	// time of this message, or else of the agreement.
	subscribed, proven bool
	heardAt            time.Time
	unproven           error // why the last attempt to publish to itself failed
	// freshAt is the time of the first message over a new connection, if no such
	// message has come back since; else zero.
	freshAt time.Time
	proofs  int // messages sent to itself
}

// follower is one call of Follow.
type follower struct {
	name  string
	tell  func(remote.Event)
	calls sync.WaitGroup

	// Guarded by life.mu. acked says that the server has agreed to the channel, connected that the
	// follower was told Connected, and stopped that the follower was stopped.
	acked, connected, stopped bool
}

// Follow calls f for each event of the named cache, until stop is called.
// Without a subscription it gets no events.
func (b *Bus) Follow(name string, f func(remote.Event)) (stop func()) {
	fl := &follower{name: name, tell: f}
	channel := b.o.Channel(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	// The first follower begins the subscription, and the channel of its cache decides about the
	// node of a cluster.
	if b.life == nil {
		l, err := begin(b.o, channel)
		if err != nil {
			return func() {}
		}
		b.life = l
	}
	l := b.life
	l.add(channel, fl)
	return sync.OnceFunc(func() {
		b.mu.Lock()
		last := l.remove(channel, fl)
		if last {
			b.life = nil
		}
		b.mu.Unlock()
		// Without the lock: a running call may stop another follower.
		fl.calls.Wait()
		if last {
			l.end()
		}
	})
}

// Err returns the reason why no messages arrive at the moment, or nil if no
// problem is known.
func (b *Bus) Err() error {
	b.mu.Lock()
	l := b.life
	b.mu.Unlock()
	if l == nil {
		return nil
	}
	if err := l.sub.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unproven
}

// begin begins a subscription without followers, near a channel.
func begin(o Config, key string) (*life, error) {
	l := &life{
		o: o, key: key, echo: o.Channel("~" + layout.Hex(rand.Uint64())),
		woken: make(chan struct{}, 1), followers: map[string][]*follower{},
	}
	ctx, cancel := context.WithCancel(observe.Upkeep(context.Background()))
	sub, err := o.Subscribe(ctx, key, l.echo)
	if err != nil {
		cancel()
		return nil, err
	}
	l.sub, l.cancel = sub, cancel
	l.runs.Go(func() { l.deliver(ctx) })
	l.runs.Go(func() { l.prove(ctx) })
	return l, nil
}

// end ends the subscription, and waits for its goroutines.
func (l *life) end() {
	l.cancel()
	l.sub.Close()
	l.runs.Wait()
}

func (l *life) add(channel string, fl *follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The slice is clipped, so append makes another one: readers without the lock keep the old one.
	l.followers[channel] = append(slices.Clip(l.followers[channel]), fl)
	l.sub.Join(channel) // again if another follower has it: the server answers that too
}

// remove takes a follower of a channel away, and reports whether no channel has any now.
func (l *life) remove(channel string, fl *follower) (last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fl.stopped = true
	rest := slices.DeleteFunc(slices.Clone(l.followers[channel]), func(f *follower) bool { return f == fl })
	l.followers[channel] = rest
	if len(rest) == 0 {
		delete(l.followers, channel)
		l.sub.Leave(channel)
	}
	return len(l.followers) == 0
}

// deliver passes events on until the subscription ends.
func (l *life) deliver(ctx context.Context) {
	for {
		e, err := l.sub.Next(ctx)
		if err != nil {
			if ctx.Err() == nil { // the client was closed
				l.lost(err)
			}
			return
		}
		switch {
		case e.Kind == Gap:
			l.lost(e.Err)
		case e.Kind == Subscribed && e.Channel == "":
			l.begun()
		case e.Kind == Subscribed:
			l.acknowledged(e.Channel)
		case e.Channel == l.echo:
			l.proved(string(e.Payload) == fresh)
		default:
			l.received(e.Channel, string(e.Payload))
		}
	}
}

// lost notes that messages may be lost from now on, and the cause.
func (l *life) lost(cause error) {
	var told []*follower
	l.mu.Lock()
	l.subscribed, l.proven = false, false
	for _, fls := range l.followers {
		for _, fl := range fls {
			if fl.connected {
				told = append(told, fl)
			}
			fl.acked, fl.connected = false, false
		}
	}
	// Followers are called without the lock, as they may call the bus.
	l.mu.Unlock()
	for _, fl := range told {
		l.call(fl, remote.Event{State: remote.Gap, Err: cause})
	}
}

// begun notes that the server has agreed to the subscription, which is not
// proved yet.
func (l *life) begun() {
	l.mu.Lock()
	l.subscribed, l.heardAt, l.freshAt = true, time.Now(), time.Time{}
	l.mu.Unlock()
	l.wake()
}

func (l *life) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// acknowledged notes that the server has agreed to a channel. It tells followers
// of the channel that they are Connected, unless they know, if messages were
// proved to arrive.
func (l *life) acknowledged(channel string) {
	var told []*follower
	l.mu.Lock()
	for _, fl := range l.followers[channel] {
		fl.acked = true
		if l.proven && !fl.connected {
			fl.connected = true
			told = append(told, fl)
		}
	}
	l.mu.Unlock()
	for _, fl := range told {
		l.call(fl, remote.Event{State: remote.Connected})
	}
}

// fresh is the text of a message over a new connection.
const fresh = "new"

// proved notes that a message of the bus to itself has come back.
func (l *life) proved(fresh bool) {
	var told, found []*follower
	l.mu.Lock()
	l.proven, l.heardAt = l.subscribed, time.Now()
	if fresh {
		l.freshAt = time.Time{}
	}
	for _, fls := range l.followers {
		for _, fl := range fls {
			switch {
			case fl.connected:
				told = append(told, fl)
			case fl.acked:
				fl.connected = true
				found = append(found, fl)
			}
		}
	}
	l.mu.Unlock()
	for _, fl := range told {
		l.call(fl, remote.Event{})
	}
	for _, fl := range found {
		l.call(fl, remote.Event{State: remote.Connected})
	}
}

// received passes a message on. An unreadable message is passed on without a kind, for the
// follower to count. Before Connected none is delivered.
func (l *life) received(channel, text string) {
	// Each instance that starts publishes it. Counted as unreadable, a deploy would look like a fault.
	if text == layout.Nothing {
		return
	}
	l.mu.Lock()
	fls := l.followers[channel]
	l.mu.Unlock()
	for _, fl := range fls {
		m, ok := layout.ParseMessage(fl.name, text)
		if !ok {
			m = remote.Message{Name: fl.name}
		}
		l.mu.Lock()
		connected := fl.connected
		l.mu.Unlock()
		if connected {
			l.call(fl, remote.Event{Messages: []remote.Message{m}})
		}
	}
}

// call calls a follower, unless it was stopped.
func (l *life) call(fl *follower, e remote.Event) {
	l.mu.Lock()
	if fl.stopped {
		l.mu.Unlock()
		return
	}
	fl.calls.Add(1)
	l.mu.Unlock()
	defer fl.calls.Done()
	fl.tell(e)
}

// prove publishes to itself until ctx ends, and gives the connection up when no
// message comes back.
func (l *life) prove(ctx context.Context) {
	timer := time.NewTimer(proveEvery)
	defer timer.Stop()
	for {
		timer.Reset(max(l.proveOnce(ctx), 1))
		select {
		case <-ctx.Done():
			return
		case <-l.woken:
		case <-timer.C:
		}
	}
}

// proveOnce publishes if a message is due, and returns the time until the next
// call.
func (l *life) proveOnce(ctx context.Context) (next time.Duration) {
	begun := time.Now()
	l.mu.Lock()
	subscribed, silentAt := l.subscribed, l.heardAt.Add(SilentAfter)
	astray := !l.freshAt.IsZero() && begun.Sub(l.freshAt) >= SilentAfter
	why := cmp.Or(l.unproven, errDeaf)
	l.mu.Unlock()
	switch {
	case !subscribed:
		return SilentAfter // or earlier, when it is
	case astray:
		l.o.Astray()
		l.giveUp(errAstray)
		return SilentAfter
	case !begun.Before(silentAt):
		l.giveUp(why)
		return SilentAfter
	}
	sending, cancel := context.WithDeadline(ctx, earlier(silentAt, begun.Add(proveEvery)))
	defer cancel()
	l.publish(sending, begun)
	due := begun.Add(proveEvery - rand.N(proveEvery/10))
	return time.Until(earlier(due, silentAt))
}

// giveUp opens another connection because of err.
func (l *life) giveUp(err error) {
	l.mu.Lock()
	l.subscribed, l.freshAt = false, time.Time{}
	l.mu.Unlock()
	l.sub.Renew(err)
}

// publish publishes to itself. A refused transaction sends no message, and the absence
// of the message is noticed. If no new connection can be opened, it uses the present
// ones, which may be as good as before.
func (l *life) publish(ctx context.Context, now time.Time) {
	l.proofs++
	if l.o.Fresh != nil && l.proofs%freshly == 0 {
		if l.o.Fresh(ctx, l.key, l.echo, fresh) == nil {
			l.mu.Lock()
			if l.freshAt.IsZero() && l.heardAt.Before(now) {
				l.freshAt = now
			}
			l.mu.Unlock()
			return
		}
	}
	err := l.o.Prove(ctx, l.key, l.echo, "")
	l.mu.Lock()
	l.unproven = err
	l.mu.Unlock()
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
