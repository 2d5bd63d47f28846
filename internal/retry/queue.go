// Package retry carries out drops that a tier did not confirm.
//
// It only ever drops: a value that is sent again later could overwrite a newer
// one, a drop cannot harm. It is bounded by number: when too many keys and tags
// are pending they are replaced by one drop of everything. Holds stay pending
// beside that: it gives no key one. Age is no bound: a drop that has been pending
// for an hour still names its key, and a drop of everything instead would cost
// every instance all that it has.
package retry

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/remote"
)

// Options configure a Queue. All fields are required.
type Options struct {
	// Drop, DropTags and DropAll carry out and announce drops.
	Drop     func(ctx context.Context, d []remote.Drop) error
	DropTags func(ctx context.Context, tags []string, soft bool) error
	DropAll  func(ctx context.Context, soft bool) error
	// Timeout bounds each attempt.
	Timeout time.Duration
	// MaxKeys is the most keys and tags that are pending one by one.
	MaxKeys int
}

const (
	batch      = 256 // drops in one attempt at most
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
	lastPause  = 200 * time.Millisecond // the longest while the queue is being closed
	maxNames   = 16                     // of Lost
)

// Queue holds the drops that are pending. Its goroutine exists only while
// there are some, and ends with [Queue.Close]. Use [New] to make one.
type Queue struct {
	o      Options
	ctx    context.Context
	cancel context.CancelFunc
	runs   sync.WaitGroup
	size   atomic.Int64 // pending keys and tags, and one for everything
	sweeps atomic.Uint64
	hurry  chan struct{} // holds one; ends a pause
	// batch is how many drops are tried together, turn the kind that is tried
	// first. Both are the goroutine's own.
	batch, turn int

	mu      sync.Mutex // guards below
	pending map[string]*item
	tags    map[string]*item
	all     *item
	err     error // of the last attempt that failed
	running bool
	hurried bool // the queue will be closed soon
	closing bool // it is to be closed when nothing is pending
	closed  bool
}

// item is a pending drop. It is replaced, not changed, when it gets stronger.
type item struct {
	soft  bool
	until time.Time // of the hold; zero if there is none
	// failures is how many attempts at it have failed. It is the goroutine's own.
	failures int
}

// New returns an empty queue.
func New(o Options) *Queue {
	q := &Queue{o: o, pending: make(map[string]*item), tags: make(map[string]*item), hurry: make(chan struct{}, 1), batch: batch}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	return q
}

// Len is the number of pending drops; a drop of everything counts as one.
func (q *Queue) Len() int { return int(q.size.Load()) }

// Blocks reports whether what a tier holds for key must not be used: a drop of
// it is pending. It costs one load while nothing is.
func (q *Queue) Blocks(key string) bool {
	if q.size.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all != nil || q.pending[key] != nil
}

// Sweeps is how often a drop of everything has taken the place of all that was
// pending. Whoever will only know the tags of what a tier holds when it has
// answered asks for it before, for [Queue.BlocksTags].
func (q *Queue) Sweeps() uint64 { return q.sweeps.Load() }

// BlocksTags reports whether what a tier held with these tags, asked since
// sweeps were that many, must not be used: a drop of one of them is pending, or
// may have been when the tier was asked and is pending no more because a drop of
// everything, which concerns only what is asked for later, took its place.
func (q *Queue) BlocksTags(tags []string, sweeps uint64) bool {
	if len(tags) == 0 {
		return false
	}
	if q.size.Load() == 0 {
		return q.sweeps.Load() != sweeps
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sweeps.Load() != sweeps || slices.ContainsFunc(tags, func(t string) bool { return q.tags[t] != nil })
}

// When says when a drop that is added is tried first.
type When bool

const (
	// Later: after a pause, since an attempt has just failed.
	Later When = false
	// AtOnce: without a pause, unless attempts at other drops are failing.
	AtOnce When = true
)

// Add makes drops pending, and reports false if the queue is closed. Of several
// drops of a key the strongest counts: hard over soft, the longest hold.
func (q *Queue) Add(drops []remote.Drop, when When) bool {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	all := q.allToo(!slices.ContainsFunc(drops, func(d remote.Drop) bool { return !d.Soft || d.Hold > 0 }))
	for i := range drops {
		d := &drops[i]
		if all && d.Hold <= 0 {
			continue
		}
		next := &item{soft: d.Soft}
		if d.Hold > 0 {
			next.until = now.Add(d.Hold)
		}
		if old := q.pending[d.Key]; old != nil {
			next.soft = next.soft && old.soft
			if old.until.After(next.until) {
				next.until = old.until
			}
		}
		q.pending[d.Key] = next
	}
	q.bound(now)
	q.start(when)
	return true
}

// AddTags makes drops of tags pending, and reports false if the queue is closed.
// Of several drops of a tag a hard one counts.
func (q *Queue) AddTags(tags []string, soft bool, when When) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.allToo(soft) {
		return !q.closed
	}
	for _, t := range tags {
		next := &item{soft: soft}
		if old := q.tags[t]; old != nil {
			next.soft = next.soft && old.soft
		}
		q.tags[t] = next
	}
	q.bound(time.Now())
	q.start(when)
	return true
}

// allToo reports whether a drop of everything is pending that does what a drop
// is asked for. An attempt at it may be under way that was carried out before
// that: a new item makes it count for nothing. q.mu is held.
func (q *Queue) allToo(soft bool) bool {
	if q.all == nil || q.all.soft && !soft {
		return false
	}
	q.all = &item{soft: q.all.soft}
	return true
}

// bound replaces what is pending by a drop of everything if there is too much.
// q.mu is held.
func (q *Queue) bound(now time.Time) {
	if len(q.pending)+len(q.tags) > q.o.MaxKeys {
		q.collapse(now)
	}
}

// AddAll makes a drop of everything pending, and reports false if the queue is
// closed.
func (q *Queue) AddAll(soft bool, when When) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if !soft {
		q.collapse(time.Now())
	} else if !q.allToo(true) {
		q.all = &item{soft: true}
	}
	q.start(when)
	return true
}

// collapse replaces all pending drops by one of everything. q.mu is held.
func (q *Queue) collapse(now time.Time) {
	q.all = &item{}
	q.sweeps.Add(1)
	clear(q.tags)
	q.keepHolds(now)
}

// keepHolds forgets all pending drops but holds that last still: a drop of
// everything gives no key one. There is room for half of MaxKeys, so that what
// comes then does not collapse it again at once. q.mu is held.
func (q *Queue) keepHolds(now time.Time) {
	holds := make(map[string]*item)
	for key, it := range q.pending {
		if it.until.After(now) && len(holds) < q.o.MaxKeys/2 {
			holds[key] = &item{until: it.until}
		}
	}
	q.pending = holds
}

// start sees to it that the goroutine runs, and counts. q.mu is held.
func (q *Queue) start(when When) {
	q.count()
	if q.size.Load() == 0 || q.running {
		return
	}
	pause := firstPause
	if when == AtOnce {
		pause = 0
	}
	q.running = true
	q.runs.Go(func() { q.run(pause) })
}

func (q *Queue) count() {
	n := int64(len(q.pending) + len(q.tags))
	if q.all != nil {
		n++
	}
	q.size.Store(n)
}

// Lost is what a queue has given up when it was closed.
type Lost struct {
	// Keys and Tags count what was pending one by one, All says that a drop of
	// everything was.
	Keys, Tags int
	All        bool
	// Names are those of some of the keys and tags.
	Names []string
	// Err is why the last attempt has failed; nil if there was none.
	Err error
}

// Drops is the number of drops that were given up; one of everything counts as
// one.
func (l Lost) Drops() int {
	n := l.Keys + l.Tags
	if l.All {
		n++
	}
	return n
}

// Hurry has what is pending tried at once, and more often than usual, because
// the queue will be closed soon.
func (q *Queue) Hurry() {
	q.mu.Lock()
	q.hurried = true
	q.mu.Unlock()
	select {
	case q.hurry <- struct{}{}:
	default:
	}
}

// Close tries what is pending until nothing is or ctx ends, gives up the rest,
// and waits for the goroutine. It returns what was given up, also when it is
// called again.
func (q *Queue) Close(ctx context.Context) Lost {
	q.Hurry()
	q.mu.Lock()
	q.closing = true
	q.closed = q.closed || !q.running // else the goroutine sees to that
	q.mu.Unlock()
	stop := context.AfterFunc(ctx, q.cancel)
	q.runs.Wait()
	stop()
	q.cancel()
	q.mu.Lock()
	defer q.mu.Unlock()
	l := Lost{Keys: len(q.pending), Tags: len(q.tags), All: q.all != nil, Err: q.err}
	for _, m := range []map[string]*item{q.pending, q.tags} {
		for name := range m {
			if len(l.Names) < maxNames {
				l.Names = append(l.Names, name)
			}
		}
	}
	return l
}
