package drops

import (
	"slices"
	"time"
)

// Teller tells of drops in one snapshot on its way out. Without a Log it tells nothing.
type Teller struct {
	Log   *Log
	known int64 // the moment that Know has told
}

// Know returns the piece of [Log.Know].
func (t *Teller) Know() (piece []byte) {
	if t.Log == nil {
		return nil
	}
	var k Knowledge
	piece, k = t.Log.Know()
	t.known = k[0].At
	return piece
}

// Tell returns the drops by this cache since Know, or with all every drop that it knows.
func (t *Teller) Tell(all bool) (pieces [][]byte) {
	switch {
	case t.Log == nil:
		return nil
	case all:
		return t.Log.TellAll()
	}
	return t.Log.Tell(t.known)
}

// Learner learns of drops from one snapshot on its way in. Without a Log it learns
// nothing, and admits all. Make it with [NewLearner]. It is not safe for concurrent use.
type Learner struct {
	log *Log
	// withdraw removes the entries of the cache that old reports.
	withdraw func(old func(*Aged) bool)
	lesson   Lesson
	query    Query
	begun    bool   // an entry was asked for
	swept    uint64 // entries that the log had admitted at the last DropAll
}

// Aged describes an entry of a cache by all that decides about it.
type Aged struct {
	// Hash is the hash of the key.
	Hash uint64
	Tags []string
	// Taken says that the entry came from a snapshot.
	Taken bool
	// Born is the time of the clock at which the value was read; zero if it is not known.
	Born int64
}

// NewLearner returns a Learner. withdraw removes the entries of the cache that old reports.
func NewLearner(log *Log, withdraw func(old func(*Aged) bool)) Learner {
	l := Learner{log: log, withdraw: withdraw}
	if log != nil {
		log.Use()
		l.query.Cut = log.Cut()
	}
	return l
}

// Learn takes in a piece. told is false without a Log.
func (l *Learner) Learn(piece []byte) (told bool, err error) {
	if l.log == nil {
		return false, nil
	}
	if err = l.log.Learn(piece, &l.lesson); l.lesson.whole {
		l.End()
	}
	return true, err
}

// End makes entries absent if they are older than the drops told of.
func (l *Learner) End() {
	if l.log == nil {
		return
	}
	// Without news there is nothing to look for: most snapshots tell what is known.
	if l.lesson.News() {
		var q Query
		l.withdraw(func(e *Aged) bool {
			q.Born, q.Hashes = 0, hashes(q.Hashes, e.Hash, e.Tags)
			if e.Born != 0 {
				q.Born = l.log.Stamp(e.Born)
			}
			return !l.log.Outlives(&l.lesson, &q, e.Taken)
		})
	}
	l.log.Learned(&l.lesson)
}

// Precedes reports whether a value that this cache has loaded or written itself may be older than a drop
// of its key or of a tag of which a snapshot has told: from then on the snapshots of this cache say
// that they know the drop, but such a value stays in L1, and a load that began before lands later. key is the
// hash of the key, and at the time of the clock at which the value was read, zero if it is not
// known. A nil Log knows no drops.
func (l *Log) Precedes(key uint64, tags []string, at int64) bool {
	if l == nil {
		return false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if len(l.origins) == 1 && l.origins[0].horizon == 0 {
		return false // no snapshot has told of any
	}
	q := Query{Hashes: hashes(nil, key, tags)}
	if at != 0 {
		q.Born = l.Stamp(at)
	}
	return slices.ContainsFunc(l.origins, func(o *origin) bool { return o.refuses(&q) })
}

func hashes(b []uint64, key uint64, tags []string) []uint64 {
	b = append(b[:0], key)
	for _, t := range tags {
		b = append(b, Tag(t))
	}
	return b
}

// Ask makes an entry of the snapshot the subject of the next Admit: the hash of its key,
// its tags, and the age of its value; a negative age is unknown.
func (l *Learner) Ask(key uint64, tags []string, age time.Duration) {
	if l.log == nil {
		return
	}
	// A snapshot of which no entry comes this far needs no place among those told apart.
	if !l.begun {
		l.begun = true
		l.log.Begin(&l.lesson)
	}
	l.query.Knows, l.query.Born = l.lesson.Knows, 0
	l.query.Hashes = hashes(l.query.Hashes, key, tags)
	if age >= 0 {
		l.query.Born = l.log.Stamp(l.log.now()) - int64(age)
	}
}

// Admit is [Log.Admit] for that entry.
func (l *Learner) Admit(insert func()) bool { return l.log.Admit(&l.query, insert) }

// Drop notes that the cache which the snapshot comes from has dropped the key with a hash
// meanwhile, and reports whether the snapshot's entry of it is refused from now on.
func (l *Learner) Drop(key uint64) bool {
	if l.log == nil || len(l.lesson.Knows) == 0 || l.lesson.Knows[0].Origin == l.log.id {
		return false
	}
	from := l.lesson.Knows[0]
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	// The drop has no stamp of its own. It came after the snapshot began, which is enough to refuse
	// the entries of the snapshot.
	l.log.origin(from.Origin).add(keyOf(key), from.At+1)
	return true
}

// DropAll makes all entries from snapshots absent, and admits no more entries of any
// running restore.
func (l *Learner) DropAll() {
	if l.log != nil {
		l.log.CutAll()
		// Each withdraw looks at all entries of L1, and a small snapshot may have thousands of these records.
		// Without an entry taken in since the last one, there is nothing to withdraw.
		taken := l.log.taken.Load()
		if taken == l.swept {
			return
		}
		l.swept = taken
	}
	l.withdraw(func(e *Aged) bool { return e.Taken })
}

// Coarse is [Log.Coarse].
func (l *Learner) Coarse() bool { return l.log.Coarse() }
