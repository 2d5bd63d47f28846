package generation

import (
	"sync"
	"sync/atomic"
)

// maxTags is the number of dropped tags that an instance remembers one by one.
const maxTags = 10_000

// tags are the floors of tags. They have a word of their own, so that a drop of
// a tag concerns none but entries with tags.
type tags struct {
	word    atomic.Uint64
	doubted doubt // of entries with any tag

	mu      sync.RWMutex // guards below, and raises
	dropped map[string]uint64
	expired map[string]*doubt
}

// TagWatermark is for the tags of entries what [Ledger.Word] is for entries.
func (l *Ledger) TagWatermark() uint64 { return l.tags.word.Load() }

// DropTag makes every entry absent, or stale if soft, that carries tag and has
// a tag stamp by now.
func (l *Ledger) DropTag(tag string, soft bool, now int64) { l.tags.drop(tag, soft, now) }

func (t *tags) drop(tag string, soft bool, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.dropped)+len(t.expired) >= maxTags || t.dropped == nil {
		if t.dropped != nil {
			t.forget(now)
		}
		t.dropped, t.expired = map[string]uint64{}, map[string]*doubt{}
	}
	floor := t.word.Load() + 1
	switch {
	case !soft:
		t.dropped[tag] = floor
	case t.expired[tag] == nil:
		t.expired[tag] = &doubt{}
		fallthrough
	default:
		t.expired[tag].raise(floor, now)
	}
	t.word.Add(1)
}

// suspect makes every entry with tags suspect.
func (t *tags) suspect(now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(now)
}

// forget makes suspect what the floors of single tags knew about. mu is held.
func (t *tags) forget(now int64) {
	t.doubted.raise(t.word.Load()+1, now)
	t.word.Add(1)
}

// JudgeTags says what an entry with these tags and this tag stamp is good for,
// and since when it is stale or suspect if it is. If it is trusted it may be given
// the tag stamp that is returned.
func (l *Ledger) JudgeTags(names []string, stamp uint64) (v Verdict, next uint64, since int64) {
	t := &l.tags
	next = t.word.Load()
	if stamp >= next {
		return Valid, next, 0
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, name := range names {
		if stamp < t.dropped[name] {
			return Invalid, next, 0
		}
		if d := t.expired[name]; d != nil {
			if below, at := d.below(stamp); below {
				v, since = Both(v, since, Stale, at)
			}
		}
	}
	w, suspectSince := t.doubted.judge(stamp)
	v, since = Both(v, since, w, suspectSince)
	return v, next, since
}

// TagsExpired returns when one of the tags was made stale last, as far as is
// known, and false if that was never.
func (l *Ledger) TagsExpired(names []string) (since int64, ever bool) {
	t := &l.tags
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, name := range names {
		if d := t.expired[name]; d != nil {
			since, ever = max(since, d.last()), true
		}
	}
	return since, ever
}
