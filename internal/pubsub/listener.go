package pubsub

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// A subscription that hears nothing for pingAfter asks for a sign of life,
	// and takes the connection for dead if none comes within pongWithin.
	pingAfter  = time.Second
	pongWithin = 2 * time.Second
	// againAfter is when a channel that was refused is asked for again.
	againAfter = time.Second
)

// denied reports whether a server has refused a command because the user has no
// right to it.
func denied(text []byte) bool { return bytes.HasPrefix(text, []byte("NOPERM ")) }

// order is a channel to be joined, or left.
type order struct {
	channel string
	leave   bool
}

// listener hears what the server sends over one connection. Its methods are for
// the goroutine of the session, but for order.
type listener struct {
	Conn
	deadline   time.Time
	subscribed bool
	// sent are the channels of commands without an answer, in their order, and
	// "" for each PING; leaving those that are left.
	sent, leaving []string
	// again are channels that were refused, and againAt when to repeat them.
	again   []string
	againAt time.Time
	// ordered says that there are orders.
	ordered atomic.Bool

	mu      *sync.Mutex // the subscription's, guards below
	orders  []order
	waiting bool  // so that a deadline disturbs nothing
	poked   bool  // to look at orders
	renewed error // why the connection is given up
}

// order has the listener, unless it is nil, carry out an order. mu is held.
func (l *listener) order(o order) {
	if l == nil {
		return
	}
	l.orders = append(l.orders, o)
	l.ordered.Store(true)
	if l.waiting && !l.poked {
		l.poked = true
		l.SetDeadline(time.Now())
	}
}

func (l *listener) set(t time.Time) {
	l.deadline = t
	l.SetDeadline(t)
}

// next returns what comes next, however long nothing is published. The deadline
// of the greeting holds until the server has agreed.
func (l *listener) next() (Heard, error) {
	if l.subscribed {
		if err := l.await(); err != nil {
			return Heard{}, err
		}
	}
	return l.Read()
}

// await waits until something begins to arrive. Meanwhile it carries out orders,
// and asks the server for a sign of life.
func (l *listener) await() error {
	asked, until := false, time.Now().Add(pingAfter)
	for {
		if err := l.carryOut(); err != nil {
			return err
		}
		if l.Buffered() > 0 {
			break
		}
		if !l.rest(until) {
			continue
		}
		err := l.Wait()
		poked := l.rise()
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || asked && !poked {
			return err
		}
		if !asked && !time.Now().Before(until) {
			asked, until = true, time.Now().Add(pongWithin)
			l.set(until)
			if err := l.Send("PING"); err != nil {
				return err
			}
			l.sent = append(l.sent, "")
		}
	}
	// A message that has begun must come to its end in time.
	if now := time.Now(); l.deadline.Sub(now) < pongWithin/2 {
		l.set(now.Add(pongWithin))
	}
	return nil
}

// rest lets orders interrupt what the listener waits for, until then, unless
// there are some.
func (l *listener) rest(until time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.orders) > 0 {
		return false
	}
	l.waiting = true
	l.set(until)
	return true
}

// rise ends that, and reports whether there was an interruption.
func (l *listener) rise() (poked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	poked = l.poked
	l.waiting, l.poked = false, false
	if poked {
		l.deadline = time.Time{} // it is over
	}
	return poked
}

// carryOut sends what was ordered.
func (l *listener) carryOut() error {
	var todo []order
	if l.ordered.Load() {
		l.mu.Lock()
		todo, l.orders = l.orders, nil
		l.ordered.Store(false)
		l.mu.Unlock()
	}
	if len(l.again) > 0 && !time.Now().Before(l.againAt) {
		for _, c := range l.again {
			todo = append(todo, order{channel: c})
		}
		l.again = nil
	}
	if len(todo) == 0 {
		return nil
	}
	l.set(time.Now().Add(pongWithin))
	for _, o := range todo {
		command := "SUBSCRIBE"
		if o.leave {
			command = "UNSUBSCRIBE"
			l.leaving = append(l.leaving, o.channel)
			l.again = slices.DeleteFunc(l.again, func(c string) bool { return c == o.channel })
		}
		l.sent = append(l.sent, o.channel)
		if err := l.Send(command, o.channel); err != nil {
			return err
		}
	}
	return nil
}

// answered notes the answer about a channel, or to a PING, and reports whether
// one was awaited.
func (l *listener) answered(channel string) bool {
	i := slices.Index(l.sent, channel)
	if i >= 0 {
		l.sent = slices.Delete(l.sent, i, i+1)
	}
	return i >= 0
}

// left notes that a channel is subscribed no longer, and reports whether that
// was wanted.
func (l *listener) left(channel string) bool {
	l.answered(channel)
	i := slices.Index(l.leaving, channel)
	if i >= 0 {
		l.leaving = slices.Delete(l.leaving, i, i+1)
	}
	return i >= 0
}

// refused notes that the command that was sent first, of those without an
// answer, was refused. It reports whether there was one.
func (l *listener) refused() bool {
	if len(l.sent) == 0 {
		return false
	}
	if c := l.sent[0]; c != "" && !slices.Contains(l.leaving, c) {
		l.again, l.againAt = append(l.again, c), time.Now().Add(againAfter)
	}
	l.sent = l.sent[1:]
	return true
}
