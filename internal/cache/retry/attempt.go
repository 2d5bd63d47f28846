// The goroutine of a queue: it makes attempts until nothing is pending.
//
// States: attempting, pausing (after a failure), ended (nothing is pending, or the
// queue's context has ended).
//
// Invariant: a drop that always fails does not hold up the others. After a
// failure the next attempt has half as many drops, begins with another kind,
// and takes the drops with the fewest failures.

package retry

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/strata-cache/strata/remote"
)

// run is the goroutine of a queue. It makes attempts until nothing is pending
// or the queue's context ends. After a failed attempt it pauses.
func (q *Queue) run(pause time.Duration) {
	for q.wait(pause) {
		// The failure of one server holds up no other kind of drops, which may concern other
		// servers.
		for failed, again := 0, true; again && failed < kinds; {
			var confirmed bool
			if confirmed, again = q.attempt(); confirmed {
				pause = 0
			} else {
				failed++
			}
		}
		if q.idle() {
			return
		}
		pause = q.next(pause)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.life.running, q.life.closed = false, true
}

// wait waits for between half of d and d, or until Hurry. It reports false if
// the queue's context has ended.
func (q *Queue) wait(d time.Duration) bool {
	if d <= 0 {
		return q.ctx.Err() == nil
	}
	// The pause is random, so that not all instances ask a server that has just come back at the
	// same moment.
	t := time.NewTimer(d/2 + rand.N(d/2))
	defer t.Stop()
	select {
	case <-t.C:
	case <-q.hurry:
	case <-q.ctx.Done():
	}
	return q.ctx.Err() == nil
}

// next returns the pause after a failure: twice the last pause, within bounds.
func (q *Queue) next(last time.Duration) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	longest := maxPause
	if q.life.hurried {
		longest = lastPause
	}
	return min(max(2*last, firstPause), longest)
}

// idle reports that nothing is pending; then the goroutine ends.
func (q *Queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := &q.life
	l.running = q.size.Load() > 0
	l.closed = l.closed || l.closing && !l.running
	return !l.running
}

// work is the drops of one attempt, which are of one kind: everything, all keys of a
// server, some tags of one strength, some keys, or puts of nothing for some keys; and
// their items.
type work struct {
	all    *item
	soft   bool // of all, of server and of tags
	server string
	tags   []string
	drops  []remote.Drop
	puts   []remote.Put
	items  []*item
}

// part returns the work for the failed tags or drops, or for the others.
func (w *work) part(errs remote.KeyErrors, failed bool) (some work) {
	some.soft = w.soft
	for i, it := range w.items {
		if (errs[i] != nil) != failed {
			continue
		}
		some.items = append(some.items, it)
		switch {
		case len(w.tags) > 0:
			some.tags = append(some.tags, w.tags[i])
		case len(w.puts) > 0:
			some.puts = append(some.puts, w.puts[i])
		default:
			some.drops = append(some.drops, w.drops[i])
		}
	}
	return some
}

// attempt tries some of the pending drops, and reports whether the tier confirmed them, and
// whether another attempt is worth it now: after a confirmation, and after the failure of
// one of several servers. It reports false twice if nothing is pending.
func (q *Queue) attempt() (confirmed, again bool) {
	ctx, cancel := remote.WithTimeout(q.ctx, q.o.Timeout)
	defer cancel()
	w := q.take()
	var err error
	switch {
	case w.all != nil:
		err = q.o.Do(ctx, Attempt{All: true, Soft: w.soft})
		if servers := Untold(err); servers != nil && q.o.Fleet.DropAllOf != nil {
			q.narrow(&w, servers)
		}
	case w.server != "":
		err = q.o.Fleet.DropAllOf(ctx, w.server, w.soft)
	case len(w.tags) > 0:
		err = q.o.Do(ctx, Attempt{Tags: w.tags, Soft: w.soft})
	case len(w.drops) > 0:
		err = q.o.Do(ctx, Attempt{Drops: w.drops})
	case len(w.puts) > 0:
		err = q.o.Do(ctx, Attempt{Puts: w.puts})
	default:
		return false, false
	}
	if err != nil {
		if some, ok := err.(remote.KeyErrors); ok { //nolint:errorlint // wrapped it is the error of all keys
			// The confirmed ones are done, whatever happens to the others.
			done := w.part(some, false)
			q.done(&done)
			w = w.part(some, true)
		}
		q.failed(&w, err)
		var server *remote.ServerError
		return false, errors.As(err, &server)
	}
	// After a success the attempts grow again, as fast as they have shrunk.
	q.plan.batch = min(2*q.plan.batch, batch)
	q.done(&w)
	return true, true
}

// narrow replaces a drop of everything by drops of all keys of the servers that have not
// confirmed it.
func (q *Queue) narrow(w *work, servers []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending.all != w.all {
		return // it was replaced
	}
	q.pending.all = nil
	q.pending.addServers(servers, w.soft)
	q.count()
}

// failed records that w has failed, and plans the next attempt.
func (q *Queue) failed(w *work, err error) {
	q.plan.batch = max(1, len(w.items)/2)
	q.plan.first = (q.plan.first + 1) % kinds
	for _, it := range w.items {
		it.failures++
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	// An attempt cut off by the end of the queue says nothing about the tier: the error before it
	// does.
	if q.err == nil || q.ctx.Err() == nil {
		q.err = err
	}
}

// kinds is the number of kinds of drops: of everything, of servers, of tags and of keys.
const kinds = 4

// take returns the drops of the next attempt.
func (q *Queue) take() (w work) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range kinds {
		switch (q.plan.first + i) % kinds {
		case 0:
			if all := q.pending.all; all != nil {
				return work{all: all, soft: all.soft}
			}
		case 1:
			w = q.pending.takeServer()
		case 2:
			w = q.pending.takeTags(q.plan.batch)
		case 3:
			w = q.pending.takeKeys(q.plan.batch, time.Now())
		}
		if len(w.items) > 0 {
			return w
		}
	}
	return w
}

// done removes confirmed drops, unless they were replaced during the attempt.
func (q *Queue) done(w *work) {
	q.mu.Lock()
	defer q.mu.Unlock()
	// Remembered first: at each moment the drops are pending or remembered, or both.
	q.Confirmed(w.drops)
	q.ConfirmedTags(w.tags, w.soft)
	q.pending.remove(w)
	q.count()
}
