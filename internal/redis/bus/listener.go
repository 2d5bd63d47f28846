// A listener is one connection of a Subscription: it sends its commands, and reads the replies.
//
// Invariant: another goroutine interrupts the listener only while it waits, where no byte of a
// reply is lost.

package bus

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
	// A listener that receives nothing for pingAfter sends a PING. If no reply
	// comes within pongWithin, the connection counts as dead.
	pingAfter  = time.Second
	pongWithin = 2 * time.Second
	// againAfter is the pause before a refused channel is subscribed again.
	againAfter = time.Second
)

// denied reports whether an error says that the user has no right to the
// command.
func denied(text []byte) bool { return bytes.HasPrefix(text, []byte("NOPERM ")) }

// order is a request to join or leave a channel.
type order struct {
	channel string
	leave   bool
}

// listener reads the replies of one connection, and sends its commands. All
// methods except order run in the goroutine of the session.
type listener struct {
	Conn
	deadline   time.Time
	subscribed bool
	// sent are the channels of commands without a reply, in their order, with
	// "" for each PING. leaving are the channels of UNSUBSCRIBE commands that
	// the server has not confirmed.
	sent, leaving []string
	// again are the refused channels, and againAt is the time to repeat them.
	again   []string
	againAt time.Time
	// ordered is true if orders is not empty.
	ordered atomic.Bool

	mu          *sync.Mutex // the mutex of the subscription; guards below
	orders      []order
	waiting     bool  // in Wait, which a deadline can interrupt without loss
	interrupted bool  // by order, to send its command
	renewed     error // reason of Renew
}

// order adds an order and interrupts Wait. It does nothing if l is nil. mu is
// held.
func (l *listener) order(o order) {
	if l == nil {
		return
	}
	l.orders = append(l.orders, o)
	l.ordered.Store(true)
	// Only a wait for the first byte of a reply may be interrupted: a deadline in the middle of one
	// would cost the connection.
	if l.waiting && !l.interrupted {
		l.interrupted = true
		l.SetDeadline(time.Now())
	}
}

func (l *listener) set(t time.Time) {
	l.deadline = t
	l.SetDeadline(t)
}

// next returns the next reply, and waits without bound while PINGs are
// answered. Until the server has agreed, the deadline of the session's
// beginning holds.
func (l *listener) next() (Heard, error) {
	if l.subscribed {
		if err := l.await(); err != nil {
			return Heard{}, err
		}
	}
	for {
		h, whole, err := l.Read()
		if whole || err != nil {
			return h, err
		}
		if l.subscribed {
			l.bound() // a large message may take long, as long as its bytes come
		}
	}
}

// bound gives the next part of a begun reply its time.
func (l *listener) bound() {
	if now := time.Now(); l.deadline.Sub(now) < pongWithin/2 {
		l.set(now.Add(pongWithin))
	}
}

// await waits until the first bytes of a reply arrive. Meanwhile it carries out
// orders and sends PINGs.
func (l *listener) await() error {
	asked, until := false, time.Now().Add(pingAfter)
	for {
		if err := l.carryOut(); err != nil {
			return err
		}
		if l.Buffered() > 0 {
			break
		}
		if !l.enterWait(until) {
			continue
		}
		err := l.Wait()
		interrupted := l.leaveWait()
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || asked && !interrupted {
			return err
		}
		// Nothing has come for a while. The server may have nothing to say, or be gone: the answer
		// to a PING tells.
		if !asked && !time.Now().Before(until) {
			asked, until = true, time.Now().Add(pongWithin)
			l.set(until)
			if err := l.Send("PING"); err != nil {
				return err
			}
			l.sent = append(l.sent, "")
		}
	}
	// The next bytes of a begun reply must arrive within a bounded time.
	l.bound()
	return nil
}

// enterWait lets orders interrupt Wait, and sets its deadline. It reports false
// if there are orders already.
func (l *listener) enterWait(until time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.orders) > 0 {
		return false
	}
	l.waiting = true
	l.set(until)
	return true
}

// leaveWait ends the effect of enterWait, and reports whether an order has
// interrupted Wait.
func (l *listener) leaveWait() (interrupted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	interrupted = l.interrupted
	l.waiting, l.interrupted = false, false
	if interrupted {
		l.deadline = time.Time{} // order has replaced it
	}
	return interrupted
}

// carryOut sends the commands of all orders, and of refused channels when their
// pause is over.
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
	// A server that takes no bytes must not hold up the session for ever.
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

// answered records the reply about a channel, or to a PING, and reports whether
// one was expected.
func (l *listener) answered(channel string) bool {
	i := slices.Index(l.sent, channel)
	if i >= 0 {
		l.sent = slices.Delete(l.sent, i, i+1)
	}
	return i >= 0
}

// followed reports whether a later command about a channel is under way: until its reply the subscription
// may end and begin again, and messages in between are lost.
func (l *listener) followed(channel string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.sent, channel) || slices.ContainsFunc(l.orders, func(o order) bool { return o.channel == channel })
}

// left records that the server has ended the subscription to a channel, and
// reports whether Leave has requested that.
func (l *listener) left(channel string) bool {
	l.answered(channel)
	i := slices.Index(l.leaving, channel)
	if i >= 0 {
		l.leaving = slices.Delete(l.leaving, i, i+1)
	}
	return i >= 0
}

// refused records the refusal of the oldest command without a reply, and
// reports whether there was one.
func (l *listener) refused() bool {
	if len(l.sent) == 0 {
		return false
	}
	// A server answers in order, so the refusal is about the oldest command. The right to a channel
	// may be given later.
	if c := l.sent[0]; c != "" && !slices.Contains(l.leaving, c) {
		l.again, l.againAt = append(l.again, c), time.Now().Add(againAfter)
	}
	l.sent = l.sent[1:]
	return true
}
