// Package retry carries out drops that a tier did not confirm.
//
// States of a [Queue]: idle (nothing is pending, no goroutine); running (a
// goroutine makes attempts, with pauses after failures); closing (running until
// nothing is pending or the context of Close ends); closed (adds are refused).
//
// Invariant: an accepted drop stays pending, and blocks its key or tag, until
// an attempt that began after its last Add is confirmed, a stronger drop
// replaces it, or Close gives it up and reports it in [Lost].
package retry

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/remote"
)

// Options configure a Queue. All fields but Fleet are required.
type Options struct {
	// Do carries out an attempt, and announces it.
	Do func(ctx context.Context, a Attempt) error
	// Timeout bounds each attempt.
	Timeout time.Duration
	// MaxKeys is the largest number of keys and tags pending one by one.
	MaxKeys int
	// Fleet tells a queue of a tier over several servers. If only some of these
	// confirm a drop of everything, it is pending for the keys of the others.
	Fleet Fleet
}

// Attempt is what a tier is asked for at once: a drop of everything, or else drops of tags, or of
// keys, or puts of nothing.
type Attempt struct {
	All   bool
	Tags  []string
	Soft  bool // of All and of Tags
	Drops []remote.Drop
	Puts  []remote.Put
}

// Fleet tells a queue of a tier over several servers; see [remote.Fleet].
type Fleet struct {
	ServerOf  func(key string) string
	DropAllOf func(ctx context.Context, server string, soft bool) error
}

// Untold returns the servers that have not confirmed a drop of everything, if other
// servers have.
func Untold(err error) []string {
	var some *remote.NotToldError
	if errors.As(err, &some) {
		return some.Servers
	}
	return nil
}

// Failed returns the tags that a drop with the error err has left.
func Failed(tags []string, err error) (some []string) {
	for i, t := range tags {
		if remote.ErrorOf(err, i) != nil {
			some = append(some, t)
		}
	}
	return some
}

const (
	batch      = 256 // largest number of drops in one attempt
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
	lastPause  = 200 * time.Millisecond // the longest pause after Hurry
	maxNames   = 16                     // in Lost.Names
)

// Queue holds pending drops and attempts them until the tier confirms them. It
// retries drops only, never values: a value sent again later could overwrite a
// newer one, a drop cannot. A put of nothing is a drop that spares what was written
// since its token was given.
//
// It is bounded by number: when too many keys and tags are pending, one drop of
// everything replaces them. Holds stay pending beside it, because a drop of
// everything gives no key a hold. It is not bounded by age: a drop still names
// its key after an hour, and a drop of everything instead would cost every
// instance all its entries.
//
// Use [New] to make one.
type Queue struct {
	o         Options
	ctx       context.Context
	cancel    context.CancelFunc
	runs      sync.WaitGroup
	size      atomic.Int64  // of pending, for readers without mu
	collapses atomic.Uint64 // see Collapses
	hurry     chan struct{} // ends a pause; capacity one
	plan      plan          // the goroutine's own
	confirmed confirmed     // lately

	mu      sync.Mutex // guards below
	pending pending
	err     error // of the last attempt that failed
	life    life
}

// plan is the state of the goroutine between attempts.
type plan struct {
	batch int // number of drops in the next attempt
	first int // kind of drops that the next attempt tries first
}

// life is the state of a queue apart from its drops.
type life struct {
	running bool // there is a goroutine
	hurried bool // Hurry was called
	closing bool // close when nothing is pending
	closed  bool
}

// New returns an empty queue.
func New(o Options) *Queue {
	q := &Queue{o: o, hurry: make(chan struct{}, 1), plan: plan{batch: batch}}
	q.confirmed = confirmed{max: o.MaxKeys}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	return q
}

// Len returns the number of pending drops. A drop of everything counts as one.
func (q *Queue) Len() int { return int(q.size.Load()) }

// Blocks reports whether a drop of key is pending. Then the tier's entry of key
// must not be used. While nothing is pending it costs one atomic load.
func (q *Queue) Blocks(key string) bool {
	if q.size.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending.all != nil || q.pending.keys[key] != nil {
		return true
	}
	return len(q.pending.servers) > 0 && q.pending.servers[q.o.Fleet.ServerOf(key)] != nil
}

// Collapses returns the number of times that a drop of everything has replaced
// all other pending drops. A reader that learns the tags of an entry from the
// tier's answer calls it before it asks the tier, for [Queue.BlocksTags].
func (q *Queue) Collapses() uint64 { return q.collapses.Load() }

// BlocksTags reports whether an entry with these tags that the tier returned
// must not be used. collapses is the result of [Queue.Collapses] from before
// the tier was asked. The entry is blocked if a drop of one of its tags is
// pending. It is also blocked if the pending drops have collapsed since: a drop
// of one of the tags may have been pending when the tier was asked, and the
// drop of everything that replaced it blocks only later requests.
func (q *Queue) BlocksTags(tags []string, collapses uint64) bool {
	if len(tags) == 0 {
		return false
	}
	if q.size.Load() == 0 {
		return q.collapses.Load() != collapses
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.collapses.Load() != collapses || slices.ContainsFunc(tags, func(t string) bool { return q.pending.tags[t] != nil })
}

// When is the time of the first attempt at an added drop.
type When bool

const (
	// Later: after a pause, because an attempt has just failed.
	Later When = false
	// AtOnce: without a pause, unless attempts at other drops are failing.
	AtOnce When = true
)

// Add makes drops pending, and reports false if the queue is closed. Of several
// drops of a key the strongest counts: hard over soft, and the longest hold.
func (q *Queue) Add(drops []remote.Drop, when When) bool {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.life.closed {
		return false
	}
	q.pending.addKeys(drops, now)
	q.bound(now)
	q.start(when)
	return true
}

// AddPuts makes puts of nothing under the tokens of drops pending, and reports false if the
// queue is closed. A drop of the same key takes the place of one.
func (q *Queue) AddPuts(puts []remote.Put, when When) bool {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.life.closed {
		return false
	}
	q.pending.addPuts(puts, now)
	q.bound(now)
	q.start(when)
	return true
}

// AddTags makes drops of tags pending, and reports false if the queue is
// closed. Of several drops of a tag the strongest counts: hard over soft.
func (q *Queue) AddTags(tags []string, soft bool, when When) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.life.closed {
		return false
	}
	q.pending.addTags(tags, soft)
	q.bound(time.Now())
	q.start(when)
	return true
}

// bound replaces the pending drops by a drop of everything if there are too
// many. q.mu is held.
func (q *Queue) bound(now time.Time) {
	if q.pending.many(q.o.MaxKeys) {
		q.collapse(now)
	}
}

// AddAll makes a drop of everything pending, or of all keys of some servers, and reports
// false if the queue is closed.
func (q *Queue) AddAll(soft bool, when When, servers ...string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.life.closed {
		return false
	}
	if len(servers) > 0 {
		q.pending.addServers(servers, soft)
	} else if !soft {
		q.collapse(time.Now())
	} else if !q.pending.coverByAll(true) {
		q.pending.all = &item{soft: true}
	}
	q.start(when)
	return true
}

// collapse replaces all pending drops except holds by a hard drop of
// everything. q.mu is held.
func (q *Queue) collapse(now time.Time) {
	q.collapses.Add(1)
	q.pending.collapse(now, q.o.MaxKeys/2)
}

// start counts the pending drops and starts the goroutine if there are any and
// it does not run. q.mu is held.
func (q *Queue) start(when When) {
	q.count()
	if q.size.Load() == 0 || q.life.running {
		return
	}
	pause := firstPause
	if when == AtOnce {
		pause = 0
	}
	q.life.running = true
	q.runs.Go(func() { q.run(pause) })
}

// count stores the number of pending drops in q.size. q.mu is held.
func (q *Queue) count() { q.size.Store(int64(q.pending.len())) }

// Lost is the drops that a closed queue has given up.
type Lost struct {
	// Keys and Tags count the drops pending one by one. All is true if a drop
	// of everything was pending, or of all keys of a server.
	Keys, Tags int
	All        bool
	// Names are some of the keys and tags.
	Names []string
	// Err is the error of the last failed attempt; nil if none failed.
	Err error
}

// Drops returns the number of drops given up. A drop of everything counts as
// one.
func (l Lost) Drops() int {
	n := l.Keys + l.Tags
	if l.All {
		n++
	}
	return n
}

// Add adds the drops that another queue has given up.
func (l *Lost) Add(m Lost) {
	l.Keys, l.Tags, l.All = l.Keys+m.Keys, l.Tags+m.Tags, l.All || m.All
	l.Names = append(l.Names, m.Names[:min(len(m.Names), maxNames-len(l.Names))]...)
	if l.Err == nil {
		l.Err = m.Err
	}
}

// Hurry ends the present pause and shortens later ones. A cache calls it when
// it will close the queue soon.
func (q *Queue) Hurry() {
	q.mu.Lock()
	q.life.hurried = true
	q.mu.Unlock()
	select {
	case q.hurry <- struct{}{}:
	default:
	}
}

// Close makes attempts until nothing is pending or ctx ends, gives up the rest,
// and waits for the goroutine. It returns the drops given up; a second Close
// returns the same.
func (q *Queue) Close(ctx context.Context) Lost {
	q.Hurry()
	q.mu.Lock()
	q.life.closing = true
	q.life.closed = q.life.closed || !q.life.running // else the goroutine closes it
	q.mu.Unlock()
	stop := context.AfterFunc(ctx, q.cancel)
	q.runs.Wait()
	stop()
	q.cancel()
	q.mu.Lock()
	defer q.mu.Unlock()
	l := Lost{Keys: len(q.pending.keys), Tags: len(q.pending.tags), All: q.pending.all != nil || len(q.pending.servers) > 0, Err: q.err}
	for _, m := range []map[string]*item{q.pending.keys, q.pending.tags} {
		for name := range m {
			if len(l.Names) < maxNames {
				l.Names = append(l.Names, name)
			}
		}
	}
	return l
}
