package remote

import (
	"context"
	"time"
)

// Bus carries messages between instances. One Bus serves any number of caches;
// it routes messages by the name of the cache.
//
// Delivery is at most once. A Bus that may have lost messages sends a [Gap]
// event before it delivers newer ones. The cache detects silent losses by the
// lane versions in each message.
type Bus interface {
	// Publish sends messages to all followers of their names, including those
	// in this process.
	Publish(ctx context.Context, m []Message) error
	// Follow calls f for every event of one cache, one call at a time, until stop is called.
	// name is the Name of the cache's [Space]. stop waits for a running call. f must not
	// block.
	Follow(name string, f func(Event)) (stop func())
}

// Checker is a Bus that tests its own delivery: whether messages published on
// the server that receives the writes of a [Tier] arrive at the followers.
// Followers get [Connected] when delivery is proved. From then on they get, at
// least every second, an event with the state [Delivered] and no messages, or
// else a [Gap] within 3 seconds. Caches that follow a Checker send only the
// heartbeats that announce a position.
type Checker interface {
	Checks() bool
}

// Explainer is a Bus that can report the reason why no messages arrive at
// present, for the log. The Bus reports no event for a failure to connect. Err returns
// nil if no problem is known.
type Explainer interface {
	Err() error
}

// Kind is the kind of a message.
type Kind uint8

// The kinds of messages. The numbers are part of the wire format.
const (
	// Dropped: Key is absent in the tier.
	Dropped Kind = 1
	// Expired: Key is stale in the tier.
	Expired Kind = 2
	// AllDropped: all keys of the namespace are absent.
	AllDropped Kind = 3
	// AllExpired: all keys of the namespace are stale.
	AllExpired Kind = 4
	// TagDropped: entries with the tag Key and an older load are absent.
	TagDropped Kind = 5
	// TagExpired: entries with the tag Key and an older load are stale.
	TagExpired Kind = 6
	// Ended: a lease on Key has ended. Instances that wait for it may ask
	// again. Nothing was dropped.
	Ended Kind = 7
	// Beat: a heartbeat. Key has a format of the cache, Is.Count is its number.
	Beat Kind = 8
	// Asked: an instance asks for the state of a key, Answered: another one answers. Key
	// has a format of the cache. Nothing was dropped.
	Asked    Kind = 9
	Answered Kind = 10
)

// Message announces a change in the tier.
type Message struct {
	Name string
	// Kind is one of the kinds above. In place of a message that it cannot read, a Bus
	// delivers one with another Kind, such as zero. The follower counts it.
	Kind Kind
	// From is the instance that caused the change.
	From uint64
	// Key is the key as the tier stores it, or the tag. It is empty for
	// AllDropped and AllExpired.
	Key string
	// Lane is the lane of Key. Was and Is are the lane version before and after
	// the drop. A lane is a slice of the key space in which drops have an
	// order. For TagDropped and TagExpired Lane is zero, and the Counts of Was
	// and Is are the tag clock before and after. For AllDropped and AllExpired
	// the Count of Is is the number of such drops. All three fields are zero
	// for other kinds, and if the publisher has no lanes.
	Lane    uint16
	Was, Is LaneVersion
	// Hold is the time for which values loaded for Key must not be stored.
	Hold time.Duration
}

// LaneVersion is a state of a lane. Lane versions are compared by equality: a server
// restored from an older state may count the same numbers again, but with another
// nonce. The zero LaneVersion means that there is none.
type LaneVersion struct {
	// Count is the number of drops so far, and Nonce the random number of the
	// last of them.
	Count, Nonce uint64
}

// State is the state of the bus's connection.
type State uint8

const (
	// Delivered: the event carries messages, or none, which shows that the bus
	// works.
	Delivered State = iota
	// Connected: the subscription is acknowledged. From here on messages
	// arrive.
	Connected
	// Gap: messages may have been lost since the last event. Entries cached
	// before are suspect. The bus is silent until Connected follows.
	Gap
)

// Event is the argument of one call of a follower.
type Event struct {
	State    State
	Messages []Message
	// Err is the cause of a [Gap], for the log; nil if it is not known.
	Err error
}
