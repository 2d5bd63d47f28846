// The queue has the events of a Subscription between the connection and Next.
//
// Invariant: the events in the queue are bounded in number and in bytes, and a Gap stands for all
// that were dropped.

package bus

import (
	"context"
	"sync"
)

// maxQueued and maxQueuedBytes bound the queued events: their number, which is
// maxJoinsQueued with SubscriptionConfig.Joins, and the memory that they hold.
const (
	maxQueued      = 1024
	maxJoinsQueued = 8 * maxQueued
	maxQueuedBytes = 16 << 20
)

// Kind is the kind of an event.
type Kind uint8

// The kinds of events. Subscribed: the server has agreed; messages published
// from here on arrive. Received: a message. Gap: messages may have been lost
// since the event before, and none arrive until the next Subscribed.
const (
	Subscribed Kind = iota + 1
	Received
	Gap
)

// Event is one thing that happened to a subscription.
type Event struct {
	Kind Kind
	// Channel and Payload are set for a message, and Pattern is the pattern
	// that the channel has matched. A Subscribed event has the Channel of the
	// Join, or none if the server has agreed to SubscriptionConfig.Channels.
	Pattern, Channel string
	Payload          []byte
	// Err is the reason of a gap.
	Err error
	// size is the number of bytes that the event holds.
	size int
}

// queue holds the events that Next has not returned yet. If there are too many,
// it drops all of them, and a gap takes their place.
type queue struct {
	joins            bool // as in SubscriptionConfig
	closed, overflow error
	done             chan struct{} // closed at the end
	ready            chan struct{} // capacity one; holds a token if there may be events

	mu     sync.Mutex // guards below
	events []Event
	bytes  int   // sum of the events' sizes
	err    error // reason why no messages arrive
	ended  bool
}

func newQueue(o SubscriptionConfig) queue {
	return queue{
		joins:    o.Joins,
		closed:   o.Closed,
		overflow: o.Overflow,
		done:     make(chan struct{}),
		ready:    make(chan struct{}, 1),
		err:      o.Connecting,
	}
}

// add queues an event, and reports whether there was room. If not, all events
// are dropped. With SubscriptionConfig.Joins no gap takes their place yet: the end of the
// session adds it.
func (q *queue) add(e Event) (ok bool) {
	q.mu.Lock()
	switch e.Kind {
	case Subscribed:
		q.err = nil
	case Gap:
		q.err = e.Err
	}
	most := maxQueued
	if q.joins {
		most = maxJoinsQueued
	}
	// One event alone may be larger than the bound: it has to be let through at some time.
	full := len(q.events) >= most || len(q.events) > 0 && q.bytes+e.size > maxQueuedBytes
	switch {
	case !full:
		q.events = append(q.events, e)
		q.bytes += e.size
	// A gap says all that the events before it could: they may be incomplete.
	case e.Kind == Gap:
		q.events, q.bytes = []Event{e}, 0
	case q.joins: // the dropped events tell which channels were joined
		q.events, q.bytes = nil, 0
	default:
		q.events, q.bytes = []Event{{Kind: Gap, Err: q.overflow}, {Kind: Subscribed}}, 0
	}
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return !full
}

// next removes and returns the oldest event. It waits for one until ctx ends.
func (q *queue) next(ctx context.Context) (Event, error) {
	for {
		q.mu.Lock()
		if q.ended {
			q.mu.Unlock()
			return Event{}, q.closed
		}
		if len(q.events) > 0 {
			e := q.events[0]
			// The array behind the slice must not keep the payload.
			q.events[0] = Event{}
			q.events = q.events[1:]
			q.bytes -= e.size
			q.mu.Unlock()
			return e, nil
		}
		q.mu.Unlock()
		select {
		case <-q.ready:
		case <-q.done:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// fail records why no messages arrive, without an event.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.err = err
}

func (q *queue) why() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// end drops all events and makes next return the error Closed.
func (q *queue) end() {
	q.mu.Lock()
	q.ended, q.events, q.err = true, nil, q.closed
	q.mu.Unlock()
	close(q.done)
}
