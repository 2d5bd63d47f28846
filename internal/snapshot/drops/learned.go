package drops

import "slices"

const (
	// maxLearned is the largest number of drops of another origin remembered one by one.
	maxLearned = 32_768
	// maxNews is the largest number of keys with new drops told one by one: all that the writer of a snapshot
	// can know of other origins, and as many of its own.
	maxNews = maxLearned * (maxOrigins + 1)
	// maxOrigins is the largest number of known other origins, and maxSessions the
	// largest number of snapshots told apart.
	maxOrigins, maxSessions = 16, 32
)

// origin is the drops of another cache that snapshots have told of. The one with the id
// zero stands for forgotten origins.
type origin struct {
	id      uint64
	knows   int64 // the moment up to which all are known
	all     int64
	drops   map[uint64]int64 // by the highest keyBits bits of hashes
	forgot  marks
	horizon int64 // all drops up to it count as drops of everything
}

// newest is the highest stamp of the origin.
func (o *origin) newest() int64 { return max(o.knows, o.all, o.horizon, o.forgot.stamp()) }

// refuses reports whether a drop of the origin came after the value.
func (o *origin) refuses(q *Query) bool {
	if q.Knows.precedes(o.id, max(o.all, o.horizon), q.Born) {
		return true
	}
	for _, h := range q.Hashes {
		if q.Knows.precedes(o.id, max(o.drops[keyOf(h)], o.forgot.last(h)), q.Born) {
			return true
		}
	}
	return false
}

// keyOf returns the bits of a hash that stand for its key.
func keyOf(hash uint64) uint64 { return hash >> (64 - keyBits) }

// add adds the drop of a key, and reports whether it is new.
func (o *origin) add(key uint64, stamp int64) bool {
	was, ok := o.drops[key]
	switch {
	case was >= stamp:
		return false
	// From here on, a mark stands for the drop, and for the keys that share it.
	case !ok && len(o.drops) >= maxLearned:
		return o.forgot.add(key, keyBits, stamp)
	case o.drops == nil:
		o.drops = make(map[uint64]int64)
	}
	o.drops[key] = stamp
	return true
}

// origin returns the origin with an id, which it makes if it is new: then the one with the
// oldest drops may be forgotten.
func (l *Log) origin(id uint64) *origin {
	for _, o := range l.origins {
		if o.id == id {
			return o
		}
	}
	if len(l.origins) > maxOrigins {
		at := 1
		for i, o := range l.origins[1:] {
			if o.newest() < l.origins[at].newest() {
				at = i + 1
			}
		}
		// All drops of the forgotten origin become one: too much is refused, never too little.
		lost := l.origins[0]
		lost.horizon = max(lost.horizon, l.origins[at].newest())
		l.origins = slices.Delete(l.origins, at, at+1)
	}
	o := &origin{id: id}
	o.forgot.size = manyMarks
	l.origins = append(l.origins, o)
	return o
}

// Lesson is the drops that one snapshot tells. The zero Lesson has none yet.
type Lesson struct {
	// Knows is the knowledge that the snapshot had when it began, and knows the knowledge
	// that it has told last. whole says that no piece of those told together is missing, and
	// all that these pieces have told every drop up to knows.
	Knows, knows Knowledge
	whole, all   bool
	// fresh are the drops of single keys learned for the first time since the last
	// [Log.Learned], by keys, and wide the other new ones.
	fresh map[uint64][]told
	wide  []told
}

// told is a drop of an origin: in wide, of all keys, or of the keys with one of some
// marks.
type told struct {
	origin uint64
	stamp  int64
	marks  *marks
}

// News reports whether entries have to be looked at by [Log.Outlives].
func (s *Lesson) News() bool { return len(s.fresh) > 0 || len(s.wide) > 0 }

// Begin notes that entries of the snapshot are taken in.
func (l *Log) Begin(s *Lesson) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.sessions {
		if slices.Equal(k, s.Knows) {
			return
		}
	}
	if len(l.sessions) < maxSessions {
		l.sessions = append(l.sessions, s.Knows)
		return
	}
	l.sessions = []Knowledge{nil, s.Knows} // without knowledge the time of reading decides
}

// Outlives reports whether an entry of L1 is newer than the drops that s has told, as far as
// is known. taken says that the entry came from a snapshot. For an entry that this cache has
// loaded or written only the drops of its key count, and only if its birth is known.
func (l *Log) Outlives(s *Lesson, q *Query, taken bool) bool {
	for _, h := range q.Hashes {
		for _, t := range s.fresh[keyOf(h)] {
			if taken && l.precedes(t, q) || !taken && q.Born != 0 && q.Born < t.stamp {
				return false
			}
		}
	}
	if !taken {
		return true
	}
	for _, t := range s.wide {
		about := func(hash uint64) bool { return t.marks == nil || t.marks.last(hash) != 0 }
		if slices.ContainsFunc(q.Hashes, about) && l.precedes(t, q) {
			return false
		}
	}
	return true
}

// precedes reports whether an entry that came from some snapshot may be older than a drop.
// It is not known from which of the snapshots the entry came.
func (l *Log) precedes(t told, q *Query) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.ContainsFunc(l.sessions, func(k Knowledge) bool { return k.precedes(t.origin, t.stamp, q.Born) })
}

// Learned ends the look at entries: the drops that s has told are known now.
func (l *Log) Learned(s *Lesson) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range s.knows {
		if m.Origin != l.id && s.whole && s.all {
			o := l.origin(m.Origin)
			o.knows = max(o.knows, m.At)
		}
	}
	s.fresh, s.wide = nil, nil
}
