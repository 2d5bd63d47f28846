package remote

import (
	"context"
	"time"
)

// Bus carries invalidations between instances. One Bus serves any number of
// caches; messages are routed by the cache's name.
//
// Delivery is at most once. A Bus that may have lost messages says so with a
// [Gap] event before it delivers anything newer. What it loses without knowing
// is found out by the words that messages carry.
type Bus interface {
	// Publish sends messages to all followers of their names, this process
	// included.
	Publish(ctx context.Context, m []Message) error
	// Follow calls f for everything that happens to the named cache, one call
	// at a time, until stop is called. stop waits for a running call. f must
	// not block.
	Follow(name string, f func(Event)) (stop func())
}

// Checker is a Bus that finds out by itself whether what is published where the
// writes of a [Tier] go arrives at its followers. They are told [Connected] when
// that is proved; then, at least every second, they get an event of the state
// [Delivered] without messages, or else a [Gap] within 3 seconds. Caches that
// follow it send no signs of life but those that say how far drops have come.
type Checker interface {
	Checks() bool
}

// Explainer is a Bus that can say why nothing arrives at the moment, for the log:
// that it cannot connect is no event. It is nil if nothing is known to be wrong.
type Explainer interface {
	Err() error
}

// Kind says what a message announces.
type Kind uint8

// What a message can announce. The numbers are part of the wire format.
const (
	// Dropped: Key is absent in the tier.
	Dropped Kind = 1
	// Expired: Key is stale in the tier.
	Expired Kind = 2
	// AllDropped: everything with the message's name is absent.
	AllDropped Kind = 3
	// AllExpired: everything with the message's name is stale.
	AllExpired Kind = 4
	// TagDropped: what carries the tag Key, and was loaded before, is absent.
	TagDropped Kind = 5
	// TagExpired: what carries the tag Key, and was loaded before, is stale.
	TagExpired Kind = 6
	// Ended: a lease on Key has ended. Who waits for it may ask again; nothing
	// was dropped.
	Ended Kind = 7
	// Beat: the instance is alive. Key is for the cache to read.
	Beat Kind = 8
)

// Message announces that something has happened in the tier.
type Message struct {
	Name string
	Kind Kind
	// From is the instance that caused it.
	From uint64
	// Key is the key as the tier knows it, or the tag; empty for AllDropped
	// and AllExpired.
	Key string
	// Lane is the lane of Key, and Was and Is are the lane's word before and
	// after this drop. A lane is a slice of the key space in which drops have
	// an order. For TagDropped and TagExpired Lane is zero and the Counts of
	// the words are the tag clock, for AllDropped and AllExpired the Count of
	// Is is the number of such drops. All are zero for other kinds, and where
	// the publisher knows of no lanes.
	Lane    uint16
	Was, Is Word
	// Hold is for how long what is loaded for Key must not be kept.
	Hold time.Duration
}

// Word names one state of a lane. Words are compared by equality: a server that
// was set back may count the same numbers again, but draws another nonce. The
// zero Word is no state.
type Word struct {
	// Count is the number of drops so far, Nonce what the last of them drew.
	Count, Nonce uint64
}

// State is the bus's opinion on its own connection.
type State uint8

const (
	// Delivered: the event carries messages, or none as a sign that the bus is
	// in order.
	Delivered State = iota
	// Connected: the subscription is acknowledged; from here on messages
	// arrive.
	Connected
	// Gap: messages may have been lost since the last event. What was cached
	// before is to be doubted. The bus is silent until Connected follows.
	Gap
)

// Event is one thing a follower is told.
type Event struct {
	State    State
	Messages []Message
	// Err is why there is a [Gap], for the log; nil if that is not known.
	Err error
}
