// Package drops remembers which keys, tags, or whole caches were dropped, and when, for
// caches without a bus: an entry that comes from a snapshot is taken in
// only if none of these drops came after its value was read.
//
// A stamp orders drops. It is the time of the wall when the log was made, plus the time
// passed since then, or the time of the wall if that is later, and it rises with each drop. So a
// clock set back puts no drop before an earlier moment. The log of each cache is an origin with a random number. A snapshot says
// which drops its cache knew: for each origin the moment up to which it knew them all. A
// drop with a later stamp came after the values of the snapshot. Drops of an origin that a
// snapshot does not name are compared with the time at which a value was read, by clocks
// that may differ by [Skew].
//
// The log remembers the latest drops one by one. Of older ones it remembers a mark of a few
// bits, which other keys share, and the latest of their stamps. When every second mark is
// set, the marks are cleared, and all values from before that stamp count as dropped.
//
// A snapshot has the knowledge before its entries, and the drops near its end.
package drops

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	stripes = 16 // locks
	ways    = 8  // drops of a group
	// fewGroups and manyGroups bound the groups of a stripe: 8192 drops in 128 KiB, and
	// 32 768 in 512 KiB once the cache gives or takes snapshots.
	fewGroups, manyGroups = 64, 256
	// Skew is the time by which the clocks of two origins may differ.
	Skew = time.Minute
)

// Log is the drops of one cache, and the drops that snapshots have told of. Make it
// with [New]. It is safe for concurrent use.
type Log struct {
	id     uint64
	now    func() int64
	base   int64
	most   atomic.Int64                    // groups of a stripe
	made   atomic.Pointer[[stripes]stripe] // nil until the first use: most caches drop nothing for long
	all    atomic.Int64                    // stamp of the last drop of everything
	forgot marks                           // of drops no longer in the stripes
	sliced atomic.Int64                    // the last moment at which forgot was cut
	late   atomic.Int64                    // how far the wall was ahead of Stamp, at most
	looked atomic.Int64                    // the time of the clock at which late was looked at
	taken  atomic.Uint64                   // entries admitted so far

	mu       sync.RWMutex // guards below; held for reading while an entry is taken in
	origins  []*origin    // that snapshots have told of; the first one stands for the forgotten ones
	sessions []Knowledge  // of the snapshots that entries came from
	cut      uint64
}

// stripe is the drops of a part of all hashes.
type stripe struct {
	mu     sync.Mutex
	last   int64 // the highest stamp
	groups []group
	_      [24]byte
}

type group [ways]drop

type drop struct {
	hash  uint64
	stamp int64 // 0 for none
}

// New returns the log of an origin. now is a clock that never goes back, in nanoseconds.
func New(id uint64, now func() int64) *Log {
	l := &Log{id: max(id, 1), now: now, base: time.Now().UnixNano() - now(), origins: []*origin{{}}}
	l.forgot.size = fewMarks
	l.most.Store(fewGroups)
	return l
}

// parts returns the stripes, which it makes at the first call.
func (l *Log) parts() *[stripes]stripe {
	if p := l.made.Load(); p != nil {
		return p
	}
	l.made.CompareAndSwap(nil, new([stripes]stripe))
	return l.made.Load()
}

// Stamp returns the stamp of a value that was read at a time of the clock. It is early if the wall has gone
// on while the clock stood.
func (l *Log) Stamp(at int64) int64 { return l.base + at }

// lookEvery is the time between two looks at the wall.
const lookEvery = 10 * time.Millisecond

// stampOfDrop returns the stamp of a drop at a time of the clock. It is not earlier than the wall: the
// clock stands while the machine is suspended, and does not follow a wall that is set forward.
func (l *Log) stampOfDrop(at int64) int64 {
	if last := l.looked.Load(); at-last >= int64(lookEvery) && l.looked.CompareAndSwap(last, at) {
		late := time.Now().UnixNano() - l.Stamp(l.now())
		for most := l.late.Load(); late > most && !l.late.CompareAndSwap(most, late); {
			most = l.late.Load()
		}
	}
	return l.Stamp(at) + l.late.Load()
}

// Note notes that the key or tag with a hash is dropped now. A hash of zero is none. at is a
// time that the caller has read from the clock just before; with zero Note reads it.
func (l *Log) Note(hash uint64, at int64) {
	if hash == 0 {
		return
	}
	if at == 0 {
		at = l.now()
	}
	s := &l.parts()[hash%stripes]
	s.mu.Lock()
	if old := s.put(drop{hash, s.next(l.stampOfDrop(at))}, int(l.most.Load())); old.stamp != 0 {
		l.forgot.add(old.hash, 64, old.stamp)
	}
	s.mu.Unlock()
}

// Around calls drop, which makes all entries with one of tags absent or stale, or without
// tags all entries. It notes the drop before the call and after it: entries taken in
// meanwhile, or given away, are older. A nil Log notes nothing.
func (l *Log) Around(drop func(), tags ...string) {
	if l == nil {
		drop()
		return
	}
	l.note(tags)
	drop()
	l.note(tags)
}

func (l *Log) note(tags []string) {
	for _, t := range tags {
		l.Note(Tag(t), 0)
	}
	if len(tags) == 0 {
		s := &l.parts()[0]
		s.mu.Lock()
		defer s.mu.Unlock()
		l.all.Store(s.next(l.stampOfDrop(l.now())))
	}
}

// next returns the next stamp. mu is held.
func (s *stripe) next(now int64) int64 {
	s.last = max(now, s.last+1)
	return s.last
}

// put adds d, and returns the drop that must leave for it; the zero drop for none. mu is held.
func (s *stripe) put(d drop, most int) (old drop) {
	if s.groups == nil {
		s.groups = make([]group, 1)
	}
	for {
		at := s.place(d.hash)
		switch {
		case at.hash == d.hash || at.stamp == 0:
			*at = d
			return drop{}
		case len(s.groups) >= most:
			old, *at = *at, d
			return old
		}
		s.grow()
	}
}

// place returns the place of a hash in its group: its drop, else a free place, else the place
// of the oldest drop.
func (s *stripe) place(hash uint64) *drop {
	g := &s.groups[hash/stripes%uint64(len(s.groups))]
	oldest := &g[0]
	for i := range g {
		if g[i].hash == hash {
			return &g[i]
		}
		if g[i].stamp < oldest.stamp {
			oldest = &g[i]
		}
	}
	return oldest
}

// grow doubles the groups. The drops of each go to it and to a new one.
func (s *stripe) grow() {
	old := s.groups
	s.groups = make([]group, 2*len(old))
	for i := range old {
		for _, d := range old[i] {
			if d.stamp != 0 {
				*s.place(d.hash) = d
			}
		}
	}
}

// since appends the drops with a stamp above one.
func (s *stripe) since(stamp int64, all []drop) []drop {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		for _, d := range g {
			if d.stamp > stamp {
				all = append(all, d)
			}
		}
	}
	return all
}

// last returns the stamp of the last drop of a hash by this cache, or a later one.
func (l *Log) last(hash uint64) int64 {
	s := &l.parts()[hash%stripes]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups != nil {
		if d := s.place(hash); d.hash == hash && d.stamp != 0 {
			return d.stamp
		}
	}
	return l.forgot.last(hash) // with mu held: the drop may be leaving
}

// lead is how far, in nanoseconds, a moment is ahead of the drops so far. Drops during the
// cut of the marks have lower stamps, unless the cut takes longer.
const lead = int64(time.Millisecond)

// moment returns a stamp at least as high as the stamps of all drops so far, and lower than
// the stamps of all later ones. With cut later marks go to a slice of their own, if the last one
// was begun some time ago.
func (l *Log) moment(cut bool) int64 {
	m, parts := l.stampOfDrop(l.now()), l.parts()
	for i := range parts {
		s := &parts[i]
		s.mu.Lock()
		m = max(m, s.last)
		s.mu.Unlock()
	}
	if last := l.sliced.Load(); cut && m-last > int64(Skew) && l.sliced.CompareAndSwap(last, m) {
		m += lead
		l.forgot.cut(m)
	}
	for i := range parts {
		s := &parts[i]
		s.mu.Lock()
		s.last = max(s.last, m)
		s.mu.Unlock()
	}
	return m
}

// Knowledge is the moments up to which a cache knows all drops, at most one for each origin.
type Knowledge []Moment

// Moment is a stamp of an origin.
type Moment struct {
	Origin uint64
	At     int64
}

// of returns the moment of an origin.
func (k Knowledge) of(origin uint64) (at int64, ok bool) {
	for _, m := range k {
		if m.Origin == origin {
			return m.At, true
		}
	}
	return 0, false
}

// precedes reports whether values of a snapshot with the knowledge k are from before the
// drop of an origin: born is the stamp at which the value was read, 0 if it is not known.
func (k Knowledge) precedes(origin uint64, stamp, born int64) bool {
	if stamp == 0 {
		return false
	}
	if at, ok := k.of(origin); ok {
		return stamp > at
	}
	return born == 0 || stamp >= born-int64(Skew)
}

// Use says that the cache gives or takes snapshots: from now on more drops are remembered.
func (l *Log) Use() {
	if l.most.Swap(manyGroups) != manyGroups {
		l.forgot.widen(manyMarks)
	}
}

// Query asks about an entry of a snapshot.
type Query struct {
	// Hashes are the hashes of the key and of the tags.
	Hashes []uint64
	// Knows is the knowledge of the snapshot.
	Knows Knowledge
	// Born is the stamp at which the value was read; zero if it is not known.
	Born int64
	// Cut is the result of [Log.Cut] when the restore began.
	Cut uint64
}

// Admit calls insert unless the entry is older than a drop, and reports whether it has. No
// drop that a snapshot tells of is learned meanwhile. Drops by this cache need a lock that
// the caller has. A nil Log admits all.
func (l *Log) Admit(q *Query, insert func()) bool {
	if l == nil {
		insert()
		return true
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if q.Cut != l.cut || l.refuses(q) {
		return false
	}
	insert()
	l.taken.Add(1)
	return true
}

// refuses reports whether a drop came after the value. mu is held.
func (l *Log) refuses(q *Query) bool {
	if q.Knows.precedes(l.id, l.all.Load(), q.Born) {
		return true
	}
	for _, h := range q.Hashes {
		if q.Knows.precedes(l.id, l.last(h), q.Born) {
			return true
		}
	}
	for _, o := range l.origins {
		if o.refuses(q) {
			return true
		}
	}
	return false
}

// Cut returns the number of cuts so far.
func (l *Log) Cut() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.cut
}

// CutAll ends all running restores: they admit no entry any more.
func (l *Log) CutAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut++
}

// Coarse reports whether any drops are remembered by marks that keys share. A nil Log
// remembers none.
func (l *Log) Coarse() bool {
	if l == nil {
		return false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	coarse := l.forgot.stamp() != 0
	for _, o := range l.origins {
		coarse = coarse || o.horizon != 0 || o.forgot.stamp() != 0
	}
	return coarse
}
