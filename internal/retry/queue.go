// Package retry carries out drops that a tier did not confirm.
//
// It only ever drops: a value that is sent again later could overwrite a newer
// one, a drop cannot harm. It is bounded: when too many keys are pending, or
// one has been for too long, they are replaced by one drop of everything.
package retry

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/remote"
)

// Options configure a Queue. All fields are required.
type Options struct {
	// Drop and DropAll carry out and announce drops.
	Drop    func(ctx context.Context, d []remote.Drop) error
	DropAll func(ctx context.Context) error
	// Timeout bounds each attempt.
	Timeout time.Duration
	// MaxKeys is the most keys that are pending one by one, MaxAge the longest
	// time for which one is.
	MaxKeys int
	MaxAge  time.Duration
}

const (
	batch      = 256 // drops in one attempt
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// Queue holds the drops that are pending. Its goroutine exists only while
// there are some, and ends with [Queue.Close]. Use [New] to make one.
type Queue struct {
	o      Options
	ctx    context.Context
	cancel context.CancelFunc
	runs   sync.WaitGroup
	size   atomic.Int64 // pending keys, and one for everything

	mu      sync.Mutex // guards below
	pending map[string]*item
	all     *item
	running bool
	closed  bool
}

// item is a pending drop. It is replaced, not changed, when it gets stronger.
type item struct {
	soft  bool
	until time.Time // of the hold
	since time.Time
}

// New returns an empty queue.
func New(o Options) *Queue {
	q := &Queue{o: o, pending: make(map[string]*item)}
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

// Add makes drops pending. Of several drops of a key the strongest counts:
// hard over soft, the longest hold.
func (q *Queue) Add(drops []remote.Drop) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if q.all != nil {
		// An attempt may be under way that was carried out before this drop
		// was asked for: a new item makes it count for nothing.
		q.all = &item{since: q.all.since}
		return
	}
	for i := range drops {
		d := &drops[i]
		next := &item{soft: d.Soft, until: now.Add(d.Hold), since: now}
		if old := q.pending[d.Key]; old != nil {
			next.soft = next.soft && old.soft
			next.since = old.since
			if old.until.After(next.until) {
				next.until = old.until
			}
		}
		q.pending[d.Key] = next
	}
	if len(q.pending) > q.o.MaxKeys {
		q.collapse(now)
	}
	q.start()
}

// AddAll makes a drop of everything pending.
func (q *Queue) AddAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.collapse(time.Now())
	q.start()
}

// collapse replaces all pending drops by one of everything. q.mu is held.
func (q *Queue) collapse(now time.Time) {
	q.all = &item{since: now}
	clear(q.pending)
}

// start sees to it that the goroutine runs, and counts. q.mu is held.
func (q *Queue) start() {
	q.count()
	if q.size.Load() > 0 && !q.running {
		q.running = true
		q.runs.Go(q.run)
	}
}

func (q *Queue) count() {
	n := int64(len(q.pending))
	if q.all != nil {
		n++
	}
	q.size.Store(n)
}

// Close gives up what is pending and waits for the goroutine.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cancel()
	q.runs.Wait()
}

// run tries until nothing is pending.
func (q *Queue) run() {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		t := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-t.C:
		case <-q.ctx.Done():
			t.Stop()
			return
		}
		for q.attempt() {
			pause = firstPause
		}
		if q.idle() {
			return
		}
	}
}

// idle reports that nothing is pending and the goroutine ends.
func (q *Queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running = q.size.Load() > 0
	return !q.running
}

// attempt tries some of what is pending, and reports whether it did any.
func (q *Queue) attempt() bool {
	ctx, cancel := context.WithTimeout(q.ctx, q.o.Timeout)
	defer cancel()
	drops, items, all := q.next()
	switch {
	case all != nil:
		if q.o.DropAll(ctx) != nil {
			return false
		}
	case len(drops) == 0 || q.o.Drop(ctx, drops) != nil:
		return false
	}
	q.done(drops, items, all)
	return true
}

// next returns what to try: everything, or some keys with their items.
func (q *Queue) next() (drops []remote.Drop, items []*item, all *item) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range q.pending {
		if now.Sub(it.since) > q.o.MaxAge {
			q.collapse(now)
			q.count()
			break
		}
	}
	if q.all != nil {
		return nil, nil, q.all
	}
	for key, it := range q.pending {
		drops = append(drops, remote.Drop{Key: key, Soft: it.soft, Hold: max(0, it.until.Sub(now))})
		items = append(items, it)
		if len(drops) == batch {
			break
		}
	}
	return drops, items, nil
}

// done forgets what was carried out, unless it has become stronger since.
func (q *Queue) done(drops []remote.Drop, items []*item, all *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all == all {
		q.all = nil
	}
	for i := range drops {
		if q.pending[drops[i].Key] == items[i] {
			delete(q.pending, drops[i].Key)
		}
	}
	q.count()
}
