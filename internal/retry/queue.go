// Package retry carries out drops that a tier did not confirm.
//
// It only ever drops: a value that is sent again later could overwrite a newer
// one, a drop cannot harm. It is bounded: when too many keys are pending, or
// one has been for too long, they are replaced by one drop of everything. Holds
// stay pending beside that: it gives no key one.
package retry

import (
	"context"
	"math/rand/v2"
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
	// MaxKeys is the most keys and tags that are pending one by one, MaxAge the
	// longest time for which one is.
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
	size   atomic.Int64 // pending keys and tags, and one for everything
	sweeps atomic.Uint64

	mu      sync.Mutex // guards below
	pending map[string]*item
	tags    map[string]*item
	all     *item
	running bool
	closed  bool
}

// item is a pending drop. It is replaced, not changed, when it gets stronger.
type item struct {
	soft  bool
	until time.Time // of the hold; zero if there is none
	since time.Time
}

// New returns an empty queue.
func New(o Options) *Queue {
	q := &Queue{o: o, pending: make(map[string]*item), tags: make(map[string]*item)}
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

// Add makes drops pending. Of several drops of a key the strongest counts:
// hard over soft, the longest hold.
func (q *Queue) Add(drops []remote.Drop) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	all := q.allToo(!slices.ContainsFunc(drops, func(d remote.Drop) bool { return !d.Soft || d.Hold > 0 }))
	for i := range drops {
		d := &drops[i]
		if all && d.Hold <= 0 {
			continue
		}
		next := &item{soft: d.Soft, since: now}
		if d.Hold > 0 {
			next.until = now.Add(d.Hold)
		}
		if old := q.pending[d.Key]; old != nil {
			next.soft = next.soft && old.soft
			next.since = old.since
			if old.until.After(next.until) {
				next.until = old.until
			}
		}
		q.pending[d.Key] = next
	}
	q.bound(now)
	q.start()
}

// AddTags makes drops of tags pending. Of several drops of a tag a hard one
// counts.
func (q *Queue) AddTags(tags []string, soft bool) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.allToo(soft) {
		return
	}
	for _, t := range tags {
		next := &item{soft: soft, since: now}
		if old := q.tags[t]; old != nil {
			next.soft, next.since = next.soft && old.soft, old.since
		}
		q.tags[t] = next
	}
	q.bound(now)
	q.start()
}

// allToo reports whether a drop of everything is pending that does what a drop
// is asked for. An attempt at it may be under way that was carried out before
// that: a new item makes it count for nothing. q.mu is held.
func (q *Queue) allToo(soft bool) bool {
	if q.all == nil || q.all.soft && !soft {
		return false
	}
	q.all = &item{since: q.all.since, soft: q.all.soft}
	return true
}

// bound replaces what is pending by a drop of everything if there is too much.
// q.mu is held.
func (q *Queue) bound(now time.Time) {
	if len(q.pending)+len(q.tags) > q.o.MaxKeys {
		q.collapse(now)
	}
}

// AddAll makes a drop of everything pending.
func (q *Queue) AddAll(soft bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if now := time.Now(); !soft {
		q.collapse(now)
	} else if !q.allToo(true) {
		q.all = &item{since: now, soft: true}
	}
	q.start()
}

// collapse replaces all pending drops by one of everything. q.mu is held.
func (q *Queue) collapse(now time.Time) {
	q.all = &item{since: now}
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
			holds[key] = &item{until: it.until, since: now}
		}
	}
	q.pending = holds
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
	n := int64(len(q.pending) + len(q.tags))
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

// work is what one attempt tries: everything, or some tags of a kind, or some
// keys; and the items that asked for it.
type work struct {
	all   *item
	soft  bool // of all, and of tags
	tags  []string
	drops []remote.Drop
	items []*item
}

// attempt tries some of what is pending, and reports whether it did any.
func (q *Queue) attempt() bool {
	ctx, cancel := context.WithTimeout(q.ctx, q.o.Timeout)
	defer cancel()
	w := q.next()
	var err error
	switch {
	case w.all != nil:
		err = q.o.DropAll(ctx, w.soft)
	case len(w.tags) > 0:
		err = q.o.DropTags(ctx, w.tags, w.soft)
	case len(w.drops) > 0:
		err = q.o.Drop(ctx, w.drops)
	default:
		return false
	}
	if err != nil {
		return false
	}
	q.done(&w)
	return true
}

// next returns what to try.
func (q *Queue) next() (w work) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.tooOld(now) {
		q.collapse(now)
		q.count()
	}
	if q.all != nil {
		return work{all: q.all, soft: q.all.soft}
	}
	for tag, it := range q.tags {
		if len(w.tags) == 0 {
			w.soft = it.soft
		}
		if it.soft == w.soft && len(w.tags) < batch {
			w.tags, w.items = append(w.tags, tag), append(w.items, it)
		}
	}
	if len(w.tags) > 0 {
		return w
	}
	for key, it := range q.pending {
		w.drops = append(w.drops, remote.Drop{Key: key, Soft: it.soft, Hold: max(0, it.until.Sub(now))})
		w.items = append(w.items, it)
		if len(w.drops) == batch {
			break
		}
	}
	return w
}

// tooOld reports whether something is pending for longer than the bound. q.mu
// is held.
func (q *Queue) tooOld(now time.Time) bool {
	for _, m := range []map[string]*item{q.pending, q.tags} {
		for _, it := range m {
			if now.Sub(it.since) > q.o.MaxAge {
				return true
			}
		}
	}
	return false
}

// done forgets what was carried out, unless it has become stronger since.
func (q *Queue) done(w *work) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all == w.all {
		q.all = nil
	}
	for i, it := range w.items {
		m, name := q.tags, ""
		if len(w.tags) > 0 {
			name = w.tags[i]
		} else {
			m, name = q.pending, w.drops[i].Key
		}
		if m[name] == it {
			delete(m, name)
		}
	}
	q.count()
}
