package remote

import "context"

// Bus carries invalidations between instances. One Bus serves any number of
// caches; messages are routed by the cache's name.
//
// Delivery is at most once. A Bus that may have lost messages says so with a
// [Gap] event before it delivers anything newer.
type Bus interface {
	// Publish sends messages to all followers of their names, this process
	// included.
	Publish(ctx context.Context, m []Message) error
	// Follow calls f for everything that happens to the named cache, one call
	// at a time, until stop is called. stop waits for a running call. f must
	// not block.
	Follow(name string, f func(Event)) (stop func())
}

// Kind says what a message announces.
type Kind uint8

// What a message can announce. The numbers are part of the wire format.
const (
	// Dropped: the key is absent in the tier.
	Dropped Kind = 1
	// Expired: the key is stale in the tier.
	Expired Kind = 2
	// AllDropped: everything with the message's name is absent.
	AllDropped Kind = 3
)

// Message announces that a drop has happened in the tier.
type Message struct {
	Name string
	Kind Kind
	// From is the instance that dropped.
	From uint64
	// Key is the key as the tier knows it; empty for AllDropped.
	Key string
	// Lane and Seq place the drop in the order of its lane: a slice of the
	// key space in which each drop has the number after the one before.
	Lane uint16
	Seq  uint64
}

// State is the bus's opinion on its own connection.
type State uint8

const (
	// Delivered: the event carries messages.
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
}
