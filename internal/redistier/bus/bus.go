// Package bus is what the buses over Redis have in common: one subscription
// that all caches share, and the check that what is published arrives there.
//
// A subscription says nothing of its server: a primary that was demoted and has
// lost its new primary keeps its subscribers, and so does one that was cut off
// from its replicas. So a bus publishes on a channel of its own, about once a
// second, in a transaction that only a server that takes writes carries out, and
// over the connections that writes go over. A message that comes back proves that
// those of others come too. Followers are connected from the first proof on; when
// none has come for [SilentAfter] there is a gap, and another connection.
package bus

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/pubsub"
	"github.com/strata-cache/strata/internal/redistier/layout"
	"github.com/strata-cache/strata/remote"
)

const (
	// proveEvery is how often a bus publishes to itself, or up to a tenth more
	// often.
	proveEvery = time.Second
	// SilentAfter is how long nothing of that comes back until the connection
	// is given up.
	SilentAfter = 3 * time.Second
)

// errDeaf is why a connection is given up.
var errDeaf = errors.New("redis: bus: what is published does not arrive: the server of the subscription takes no writes, or is cut off from the one that does")

// Config is how a [Bus] reaches its server.
type Config struct {
	// Channel is that of a cache.
	Channel func(name string) string
	// Subscribe begins a subscription to one channel, which further ones join.
	// In a cluster it is where the slot of key is served.
	Subscribe func(ctx context.Context, key, channel string) (*pubsub.Subscription, error)
	// Prove publishes an empty message by [Prove].
	Prove func(ctx context.Context, key, channel string) error
}

// Bus is one subscription that any number of followers share. It lives while
// there are any.
type Bus struct {
	o Config

	mu   sync.Mutex // guards below
	life *life      // nil without followers
}

// New returns a bus that does nothing yet.
func New(o Config) *Bus { return &Bus{o: o} }

// life is the time from the first follower to the last.
type life struct {
	o      Config
	key    string // the first channel that was followed
	echo   string // the channel of its own
	sub    *pubsub.Subscription
	cancel context.CancelFunc
	runs   sync.WaitGroup
	kick   chan struct{} // holds one

	mu sync.Mutex // guards below
	// followers are those of each channel. The slices are not changed.
	followers map[string][]*follower
	// subscribed says that the server has agreed, proven that since then
	// something has come back, and heardAt when that, or else the first, was.
	subscribed, proven bool
	heardAt            time.Time
	unproven           error // why nothing could be published to itself last
}

// follower is one call of Follow.
type follower struct {
	name  string
	tell  func(remote.Event)
	calls sync.WaitGroup

	// Guarded by life.mu: the server has agreed to the channel; the follower
	// knows; it was stopped.
	acked, connected, stopped bool
}

// Follow calls f for everything that happens to the named cache, until stop is
// called. If there can be no subscription, nothing ever happens.
func (b *Bus) Follow(name string, f func(remote.Event)) (stop func()) {
	fl := &follower{name: name, tell: f}
	channel := b.o.Channel(name)
	b.mu.Lock()
	defer b.mu.Unlock()
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
		fl.calls.Wait()
		if last {
			l.end()
		}
	})
}

// Err returns why nothing arrives at the moment, or nil if nothing is known to be
// wrong.
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
		kick: make(chan struct{}, 1), followers: map[string][]*follower{},
	}
	ctx, cancel := context.WithCancel(context.Background())
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

// end ends the subscription, and waits until nothing of it runs.
func (l *life) end() {
	l.cancel()
	l.sub.Close()
	l.runs.Wait()
}

func (l *life) add(channel string, fl *follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followers[channel] = append(slices.Clip(l.followers[channel]), fl)
	l.sub.Join(channel) // again, if another follows it: that is answered, too
}

// remove reports whether the follower was the last.
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

// deliver passes on what happens, until the subscription ends.
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
		case e.Kind == pubsub.Gap:
			l.lost(e.Err)
		case e.Kind == pubsub.Subscribed && e.Channel == "":
			l.begun()
		case e.Kind == pubsub.Subscribed:
			l.acknowledged(e.Channel)
		case e.Channel == l.echo:
			l.proved()
		default:
			l.received(e.Channel, string(e.Payload))
		}
	}
}

// lost notes that nothing arrives any more, and why.
func (l *life) lost(why error) {
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
	l.mu.Unlock()
	for _, fl := range told {
		l.call(fl, remote.Event{State: remote.Gap, Err: why})
	}
}

// begun notes that the server has agreed, which is to be proved.
func (l *life) begun() {
	l.mu.Lock()
	l.subscribed, l.heardAt = true, time.Now()
	l.mu.Unlock()
	l.wake()
}

func (l *life) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// acknowledged notes that what is published on a channel arrives. Whoever knew
// it has been moved to another server, unseen, or another one has joined: for
// both it begins anew.
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

// proved notes that what was published has come back.
func (l *life) proved() {
	var told, fresh []*follower
	l.mu.Lock()
	l.proven, l.heardAt = l.subscribed, time.Now()
	for _, fls := range l.followers {
		for _, fl := range fls {
			switch {
			case fl.connected:
				told = append(told, fl)
			case fl.acked:
				fl.connected = true
				fresh = append(fresh, fl)
			}
		}
	}
	l.mu.Unlock()
	for _, fl := range told {
		l.call(fl, remote.Event{})
	}
	for _, fl := range fresh {
		l.call(fl, remote.Event{State: remote.Connected})
	}
}

// received passes on a message. Before Connected nothing was promised, so
// nothing is delivered.
func (l *life) received(channel, text string) {
	l.mu.Lock()
	fls := l.followers[channel]
	l.mu.Unlock()
	for _, fl := range fls {
		m, ok := layout.ParseMessage(fl.name, text)
		if !ok {
			return
		}
		l.mu.Lock()
		connected := fl.connected
		l.mu.Unlock()
		if connected {
			l.call(fl, remote.Event{Messages: []remote.Message{m}})
		}
	}
}

// call tells a follower, unless it was stopped.
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

// prove publishes to itself until ctx ends, and gives the connection up when
// nothing of that comes back.
func (l *life) prove(ctx context.Context) {
	timer := time.NewTimer(proveEvery)
	defer timer.Stop()
	for {
		timer.Reset(max(l.proveOnce(ctx), 1))
		select {
		case <-ctx.Done():
			return
		case <-l.kick:
		case <-timer.C:
		}
	}
}

// proveOnce does what is due, and returns when it is to be called again.
func (l *life) proveOnce(ctx context.Context) (next time.Duration) {
	l.mu.Lock()
	subscribed, silentAt := l.subscribed, l.heardAt.Add(SilentAfter)
	l.mu.Unlock()
	begun := time.Now()
	if !subscribed {
		return SilentAfter // or earlier, when it is
	}
	if !begun.Before(silentAt) {
		l.mu.Lock()
		l.subscribed = false
		l.mu.Unlock()
		l.sub.Renew(errDeaf)
		return SilentAfter
	}
	sending, cancel := context.WithDeadline(ctx, earlier(silentAt, begun.Add(proveEvery)))
	// A transaction that is not carried out does not come back, and that is seen to.
	err := l.o.Prove(sending, l.key, l.echo)
	cancel()
	l.mu.Lock()
	l.unproven = err
	l.mu.Unlock()
	due := begun.Add(proveEvery - rand.N(proveEvery/10))
	return time.Until(earlier(due, silentAt))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
