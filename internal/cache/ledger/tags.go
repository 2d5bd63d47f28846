// Tags: the watermarks of dropped and expired tags. Tags have a generation of
// their own, so that the drop of a tag concerns entries with tags only.
//
// States of an entry, by its tag stamp: valid, stale (its tag was expired), suspect
// (a message about tags was lost, or dropped tags were forgotten for want of room),
// invalid (its tag was dropped).
//
// Invariant: a watermark is set before the generation of tags is raised to it, and
// a watermark of a single tag is forgotten only after all tags became suspect.

package ledger

import (
	"sync"
	"sync/atomic"
)

// maxTags is the number of dropped tags that an instance remembers one by one.
const maxTags = 10_000

// tags are the watermarks of tags.
type tags struct {
	generation atomic.Uint64
	suspected  datedWatermark // of entries with any tag

	mu      sync.RWMutex // guards below, and the setting of watermarks
	dropped map[string]uint64
	expired map[string]*datedWatermark
}

// TagWatermark returns the generation of tags, the tag stamp of a flight registered now.
func (l *Ledger) TagWatermark() uint64 { return l.tags.generation.Load() }

// DropTag makes every entry with tag, and with a tag stamp from before, absent, or
// stale if soft.
func (l *Ledger) DropTag(tag string, soft bool, now int64) { l.tags.drop(tag, soft, now) }

func (t *tags) drop(tag string, soft bool, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.dropped)+len(t.expired) >= maxTags || t.dropped == nil {
		if t.dropped != nil {
			t.suspectAll(now)
		}
		t.dropped, t.expired = map[string]uint64{}, map[string]*datedWatermark{}
	}
	next := t.generation.Load() + 1
	switch {
	case !soft:
		t.dropped[tag] = next
	case t.expired[tag] == nil:
		t.expired[tag] = &datedWatermark{}
		fallthrough
	default:
		t.expired[tag].set(next, now)
	}
	t.generation.Add(1)
}

// suspect makes every entry with tags suspect.
func (t *tags) suspect(now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.suspectAll(now)
}

// suspectAll is suspect with mu held.
func (t *tags) suspectAll(now int64) {
	t.suspected.set(t.generation.Load()+1, now)
	t.generation.Add(1)
}

// JudgeTags returns the verdict on an entry with these tags and this tag stamp, and
// the time since which it is stale or suspect. A valid entry may be given the tag
// stamp next.
func (l *Ledger) JudgeTags(names []string, stamp uint64) (v Verdict, next uint64, since int64) {
	t := &l.tags
	next = t.generation.Load()
	if stamp >= next || len(names) == 0 {
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
	w, suspectSince := t.suspected.judge(stamp)
	v, since = Both(v, since, w, suspectSince)
	return v, next, since
}

// TagsExpired returns when one of the tags was last made stale, and false if no
// such expiry is known.
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

// DroppedBetween reports whether any of tags may have been dropped, or expired,
// while the generation of tags went from one to another.
func (l *Ledger) DroppedBetween(tags []string, from, to uint64) bool {
	if len(tags) == 0 || from >= to {
		return false
	}
	v, _, _ := l.JudgeTags(tags, from)
	return v != Valid
}
