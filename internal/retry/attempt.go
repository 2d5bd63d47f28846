package retry

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/strata-cache/strata/remote"
)

// run tries until nothing is pending.
func (q *Queue) run(pause time.Duration) {
	for q.wait(pause) {
		for q.attempt() {
			pause = 0
		}
		if q.idle() {
			return
		}
		pause = q.next(pause)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running, q.closed = false, true
}

// wait waits for a pause of about d, and reports false if the queue has given up.
func (q *Queue) wait(d time.Duration) bool {
	if d <= 0 {
		return q.ctx.Err() == nil
	}
	t := time.NewTimer(d/2 + rand.N(d/2))
	defer t.Stop()
	select {
	case <-t.C:
	case <-q.hurry:
	case <-q.ctx.Done():
	}
	return q.ctx.Err() == nil
}

// next is the pause after a failure that came after another pause.
func (q *Queue) next(last time.Duration) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	longest := maxPause
	if q.hurried {
		longest = lastPause
	}
	return min(max(2*last, firstPause), longest)
}

// idle reports that nothing is pending and the goroutine ends.
func (q *Queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running = q.size.Load() > 0
	q.closed = q.closed || q.closing && !q.running
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
	ctx, cancel := remote.WithTimeout(q.ctx, q.o.Timeout)
	defer cancel()
	w := q.take()
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
		q.failed(&w, err)
		return false
	}
	q.batch = min(2*q.batch, batch)
	q.done(&w)
	return true
}

// failed notes that w has failed. Next time half as many are tried together,
// those first that have failed least, and another kind before this one: a drop
// that always fails holds up no other.
func (q *Queue) failed(w *work, err error) {
	q.batch = max(1, len(w.items)/2)
	q.turn = (q.turn + 1) % kinds
	for _, it := range w.items {
		it.failures++
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil || q.ctx.Err() == nil {
		q.err = err
	}
}

// kinds is the number of kinds of drops: of everything, of tags and of keys.
const kinds = 3

// take returns what to try: drops of one kind.
func (q *Queue) take() (w work) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range kinds {
		switch (q.turn + i) % kinds {
		case 0:
			if q.all != nil {
				return work{all: q.all, soft: q.all.soft}
			}
		case 1:
			w = q.takeTags()
		case 2:
			w = q.takeKeys(time.Now())
		}
		if len(w.items) > 0 {
			return w
		}
	}
	return w
}

// takeTags returns some of the tags, all soft or all hard. q.mu is held.
func (q *Queue) takeTags() (w work) {
	least := leastFailed(q.tags)
	for tag, it := range q.tags {
		if it.failures > least {
			continue
		}
		if len(w.tags) == 0 {
			w.soft = it.soft
		}
		if it.soft == w.soft && len(w.tags) < q.batch {
			w.tags, w.items = append(w.tags, tag), append(w.items, it)
		}
	}
	return w
}

// takeKeys returns some of the keys. q.mu is held.
func (q *Queue) takeKeys(now time.Time) (w work) {
	least := leastFailed(q.pending)
	for key, it := range q.pending {
		if it.failures == least && len(w.drops) < q.batch {
			w.drops = append(w.drops, remote.Drop{Key: key, Soft: it.soft, Hold: max(0, it.until.Sub(now))})
			w.items = append(w.items, it)
		}
	}
	return w
}

// leastFailed is how often those of m have failed that have failed least.
func leastFailed(m map[string]*item) int {
	least := math.MaxInt
	for _, it := range m {
		least = min(least, it.failures)
	}
	return least
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
