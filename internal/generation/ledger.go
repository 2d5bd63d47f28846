package generation

import (
	"sync"
	"sync/atomic"

	"github.com/strata-cache/strata/remote"
)

// Verdict says what an entry is good for.
type Verdict uint8

// The verdicts, from the best to the worst.
const (
	// Valid: it may be served.
	Valid Verdict = iota
	// Stale: a caller has expired it. It may be served where stale entries may.
	Stale
	// Suspect: it may have been dropped unheard. The tier has to confirm it.
	Suspect
	// Invalid: it is absent for every purpose.
	Invalid
)

// And returns what an entry is good for that both are true of. One that is
// stale, and that nobody can confirm as even that, is good for nothing.
func (v Verdict) And(w Verdict) Verdict {
	if v == Stale && w == Suspect || v == Suspect && w == Stale {
		return Invalid
	}
	return max(v, w)
}

// Both returns what an entry is good for that v and w are true of, each since
// some time if it is Stale or Suspect, and since when.
func Both(v Verdict, since int64, w Verdict, wSince int64) (Verdict, int64) {
	switch {
	case v == w:
		since = min(since, wSince)
	case w > v:
		since = wSince
	}
	return v.And(w), since
}

// Ledger is what one instance knows. The zero Ledger trusts everything and
// knows no words. All methods are safe for concurrent use.
type Ledger struct {
	// OnInvalidateAll, if set, is called after everything has become absent. It runs
	// under the ledger's mutex: it must not wait or call back. It is set before
	// the ledger is used.
	OnInvalidateAll func()

	word atomic.Uint64

	// Floors: an entry with a lower stamp is concerned.
	invalidated      atomic.Uint64
	expired, doubted doubt
	lanes            atomic.Pointer[lanes] // nil until words are known

	tags tags

	mu    sync.Mutex // guards below, and raises
	known position
	past  history // what known was before
	// pending are lanes for which the tier has another word than is known here:
	// their messages may be on their way.
	pending map[int]remote.Word
	awaited *signs // nil if no sign is early
}

// lanes are the floors of all lanes.
type lanes struct {
	highest atomic.Uint64 // of all floors
	of      []doubt
}

// Watermark is what the stamps of entries are compared with: one that is lower has
// to be judged. It is read when a flight is registered, too, as the stamp of
// what the flight brings.
func (l *Ledger) Watermark() uint64 { return l.word.Load() }

// Judge says what an entry with this stamp is good for, the entry's tags apart,
// and since when it is stale or suspect if it is. If it is trusted it may be given
// the stamp that is returned. laneOf is asked for the entry's lane if that matters.
func (l *Ledger) Judge(stamp uint64, laneOf func() uint16) (v Verdict, next uint64, since int64) {
	next = l.word.Load() // before the floors: they are raised first
	if l.Invalidates(stamp) {
		return Invalid, next, 0
	}
	below, staleSince := l.expired.below(stamp)
	if below {
		v = Stale
	}
	w, since := l.doubted.judge(stamp)
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

// InvalidateAll makes every entry absent that has a stamp by now.
func (l *Ledger) InvalidateAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.invalidateAll()
}

// Expire makes every entry stale that has a stamp by now.
func (l *Ledger) Expire(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
}

// Doubt makes every entry suspect that has a stamp by now.
func (l *Ledger) Doubt(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubt(now)
}

// invalidateAll, expire, doubt and suspect are called with mu held. Each sets its
// floor before it raises the word.
func (l *Ledger) invalidateAll() {
	l.invalidated.Store(l.word.Load() + 1)
	l.word.Add(1)
	if l.OnInvalidateAll != nil {
		l.OnInvalidateAll()
	}
}

// Invalidates reports whether an entry with this stamp is absent for every purpose,
// its tags apart.
func (l *Ledger) Invalidates(stamp uint64) bool { return stamp < l.invalidated.Load() }

func (l *Ledger) expire(now int64) {
	l.expired.raise(l.word.Load()+1, now)
	l.word.Add(1)
}

// Expired returns when everything was made stale last, as far as is known, and
// false if that was never.
func (l *Ledger) Expired() (since int64, ever bool) {
	return l.expired.last(), l.expired.raised.Load() != nil
}

func (l *Ledger) doubt(now int64) {
	l.doubted.raise(l.word.Load()+1, now)
	l.word.Add(1)
}

func (l *Ledger) suspect(now int64, which ...int) {
	ls := l.lanes.Load()
	if ls == nil || len(which) == 0 {
		return
	}
	floor := l.word.Load() + 1
	for _, n := range which {
		if n == tagLane {
			l.tags.suspect(now)
			continue
		}
		ls.of[n].raise(floor, now)
		ls.highest.Store(floor)
	}
	l.word.Add(1)
}
