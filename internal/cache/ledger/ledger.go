// The ledger of one instance: its generation, the watermarks of everything and of
// each lane, and the judgement of an entry by its stamp.
//
// States of an entry, by its stamp: valid, stale, suspect, invalid; see doc.go.
//
// Invariant: a watermark is set before the generation is raised to it. A reader
// that sees the new generation sees the watermark, and a reader that sees the old
// generation was there before the event.

package ledger

import (
	"sync"
	"sync/atomic"

	"github.com/strata-cache/strata/remote"
)

// Verdict says how an entry may be used.
type Verdict uint8

// The verdicts, from the best to the worst.
const (
	// Valid: it may be served.
	Valid Verdict = iota
	// Stale: a caller has expired it. It may be served where stale entries may.
	Stale
	// Suspect: a drop of it may have been lost. The tier has to confirm it.
	Suspect
	// Invalid: it is absent for every purpose.
	Invalid
)

// And returns the verdict on an entry of which both v and w are true. A stale and
// suspect entry is invalid: the tier cannot confirm a stale entry.
func (v Verdict) And(w Verdict) Verdict {
	if v == Stale && w == Suspect || v == Suspect && w == Stale {
		return Invalid
	}
	return max(v, w)
}

// Both returns the verdict on an entry of which v and w are true, and the time
// since which the entry is stale or suspect. since belongs to v, wSince to w.
func Both(v Verdict, since int64, w Verdict, wSince int64) (Verdict, int64) {
	if w > v {
		since = wSince
	} else if v == w {
		since = min(since, wSince)
	}
	return v.And(w), since
}

// Ledger is the knowledge of one instance. For the zero Ledger every entry is
// valid, and no position is known. All methods are safe for concurrent use.
type Ledger struct {
	// OnInvalidateAll, if set, is called after everything has become absent. It runs
	// under the ledger's mutex: it must not wait or call back. It is set before
	// the ledger is used.
	OnInvalidateAll func()

	// Generation counts events; see Watermark, which reads it. It is exported for code
	// that other packages instantiate: Go calls Watermark there. Only the Ledger writes
	// it.
	Generation atomic.Uint64

	// Watermarks: they concern entries with a lower stamp.
	invalidated        atomic.Uint64
	expired, suspected datedWatermark
	lanes              atomic.Pointer[lanes] // nil until a position is known

	tags tags

	mu    sync.Mutex // guards below, and the setting of watermarks
	known position
	past  history // of known
	// pending are the lanes with another version in the tier than here. Their
	// messages may be on their way.
	pending   map[int]remote.LaneVersion
	awaited   *laneMarks // nil if no heartbeat is ahead of this instance
	witnesses []*Witness
}

// lanes are the watermarks of all lanes.
type lanes struct {
	highest atomic.Uint64 // of all lanes
	of      []datedWatermark
}

// Watermark returns the generation, which no watermark exceeds: an entry with a
// lower stamp has to be judged. A flight registered now gets it as its stamp.
func (l *Ledger) Watermark() uint64 { return l.Generation.Load() }

// Judge returns the verdict on an entry with this stamp, its tags apart, and the
// time since which it is stale or suspect. A valid entry may be given the stamp
// next. laneOf is asked for the entry's lane if the verdict depends on it.
func (l *Ledger) Judge(stamp uint64, laneOf func() uint16) (v Verdict, next uint64, since int64) {
	next = l.Generation.Load() // before the watermarks, which are set first
	if l.Invalidates(stamp) {
		return Invalid, next, 0
	}
	below, staleSince := l.expired.below(stamp)
	if below {
		v = Stale
	}
	w, since := l.suspected.judge(stamp)
	if ls := l.lanes.Load(); ls != nil && stamp < ls.highest.Load() {
		n := int(laneOf())
		if n >= len(ls.of) {
			return v.And(Suspect), next, 0
		}
		lane, laneSince := ls.of[n].judge(stamp)
		w, since = Both(w, since, lane, laneSince)
	}
	v, since = Both(v, staleSince, w, since)
	return v, next, since
}

// InvalidateAll makes every entry registered by now absent.
func (l *Ledger) InvalidateAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.invalidateAll()
}

// Expire makes every entry registered by now stale.
func (l *Ledger) Expire(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
}

// SuspectAll makes every entry registered by now suspect.
func (l *Ledger) SuspectAll(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.suspectAll(now)
}

// invalidateAll, expire, suspectAll and suspect are called with mu held. Each sets
// its watermark before it raises the generation.
func (l *Ledger) invalidateAll() {
	l.invalidated.Store(l.Generation.Load() + 1)
	l.Generation.Add(1)
	if l.OnInvalidateAll != nil {
		l.OnInvalidateAll()
	}
}

// Invalidates reports whether an entry with this stamp is absent for every purpose,
// its tags apart.
func (l *Ledger) Invalidates(stamp uint64) bool { return stamp < l.invalidated.Load() }

func (l *Ledger) expire(now int64) {
	l.expired.set(l.Generation.Load()+1, now)
	l.Generation.Add(1)
}

// Expired returns when everything was last made stale, and false if no such
// expiry is known.
func (l *Ledger) Expired() (since int64, ever bool) {
	return l.expired.last(), l.expired.settings.Load() != nil
}

func (l *Ledger) suspectAll(now int64) {
	l.suspected.set(l.Generation.Load()+1, now)
	l.Generation.Add(1)
}

func (l *Ledger) suspect(now int64, which ...int) {
	ls := l.lanes.Load()
	if ls == nil || len(which) == 0 {
		return
	}
	next := l.Generation.Load() + 1
	for _, n := range which {
		if n == tagLane {
			l.tags.suspect(now)
			continue
		}
		ls.of[n].set(next, now)
		ls.highest.Store(next)
	}
	l.Generation.Add(1)
}
