package drops

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
)

// The form of drops in a snapshot: pieces of at most MaxPiece bytes, each of them records
// behind a byte of flags. Pieces with flagMore and the one behind them belong together. A
// record begins with its kind; numbers have eight bytes, the lowest first, or are uvarints.
const (
	// MaxPiece is the greatest length of a piece in bytes.
	MaxPiece = 60 << 10

	flagMore = 1 // more pieces follow
	flagAll  = 2 // these pieces tell all drops up to the moments of their origins

	recordOrigin = 1 // id, moment, stamp of the last drop of everything: eight bytes each
	// Drops, or marks, in one slice of the origin before them: the highest stamp:
	// eight bytes; the number of highest bits of a hash: a byte; how many there are, the
	// first of them, and the gaps up to the others: uvarints.
	recordDrops = 2
	recordMarks = 3

	// keyBits is the number of bits of a hash that stand for one key.
	keyBits = 40
	// most is the number of drops in one record.
	most = 8 << 10
)

// writer puts records into pieces.
type writer struct {
	all    [][]byte
	b      []byte // the piece in hand
	origin []byte // the record of the origin in hand
}

// room makes room for a record of up to n bytes.
func (w *writer) room(n int) {
	if len(w.b)+n > MaxPiece {
		w.send(flagMore)
	}
	// A piece is read by itself, so it begins with the origin of its records.
	if len(w.b) == 0 {
		w.b = append(append(w.b, 0), w.origin...)
	}
}

func (w *writer) send(flags byte) {
	w.b[0] = flags
	w.all, w.b = append(w.all, w.b), nil
}

func (w *writer) begin(id uint64, knows, all int64) {
	r := binary.LittleEndian.AppendUint64([]byte{recordOrigin}, id)
	r = binary.LittleEndian.AppendUint64(r, uint64(knows))
	w.origin = nil
	w.room(len(r) + 8)
	w.origin = binary.LittleEndian.AppendUint64(r, uint64(all))
	w.b = append(w.b, w.origin...)
}

// list writes a record of drops or marks with a stamp.
func (w *writer) list(kind byte, stamp int64, size uint, all []uint64) {
	for part := range slices.Chunk(all, most) {
		// A gap between hashes of keyBits takes six bytes at most.
		w.room(10 + 2*binary.MaxVarintLen64 + 6*len(part))
		w.b = binary.LittleEndian.AppendUint64(append(w.b, kind), uint64(stamp))
		w.b = binary.AppendUvarint(append(w.b, byte(size)), uint64(len(part)))
		last := uint64(0)
		for _, at := range part {
			w.b = binary.AppendUvarint(w.b, at-last)
			last = at
		}
	}
}

// marks writes the slices of m with stamps above since.
func (w *writer) marks(m *marks, since int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.slices {
		if s.latest <= since || s.set == 0 {
			continue
		}
		all := make([]uint64, 0, s.set)
		s.each(func(at uint64) { all = append(all, at) })
		w.list(recordMarks, s.latest, s.size, all)
	}
}

// drops writes drops: each with the highest stamp of the drops in its slice of m.
func (w *writer) drops(m *marks, all []drop) {
	slices.SortFunc(all, func(a, b drop) int { return cmp.Compare(a.stamp, b.stamp) })
	// All drops of a slice share one stamp, the highest. A drop that seems later than it was makes
	// more entries old, never fewer.
	for _, end := range m.ends() {
		n, _ := slices.BinarySearchFunc(all, end, func(d drop, end int64) int {
			if d.stamp <= end {
				return -1
			}
			return 1
		})
		if n == 0 {
			continue
		}
		keys := make([]uint64, n)
		for i, d := range all[:n] {
			keys[i] = d.hash >> (64 - keyBits)
		}
		// In order, the gaps are small, and so are their numbers.
		slices.Sort(keys)
		w.list(recordDrops, all[n-1].stamp, keyBits, keys)
		all = all[n:]
	}
}

// Know returns the knowledge of this cache, its own moment first, and the piece that tells this
// knowledge. The piece has no drops, only the moments up to which they are known.
func (l *Log) Know() (piece []byte, k Knowledge) {
	l.Use()
	w := &writer{}
	l.mu.RLock()
	defer l.mu.RUnlock()
	others, lost := l.telling()
	own := l.moment(true)
	k = append(k, Moment{l.id, own})
	w.begin(l.id, own, max(l.all.Load(), l.forgot.ended(), lost))
	for _, o := range others {
		k = append(k, Moment{o.id, o.knows})
		w.begin(o.id, o.knows, max(o.all, o.forgot.ended()))
	}
	w.send(0)
	return w.all[0], k
}

// Tell returns the drops by this cache after a moment, in pieces.
func (l *Log) Tell(since int64) (pieces [][]byte) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	w := &writer{}
	_, lost := l.telling()
	l.own(w, since, lost)
	w.send(0)
	return w.all
}

// TellAll returns the drops by this cache, and the drops that snapshots have told of, in
// pieces.
func (l *Log) TellAll() (pieces [][]byte) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	w := &writer{}
	others, lost := l.telling()
	l.own(w, 0, lost)
	for _, o := range others {
		w.begin(o.id, o.knows, max(o.all, o.forgot.ended()))
		all := make([]drop, 0, len(o.drops))
		for key, stamp := range o.drops {
			all = append(all, drop{key << (64 - keyBits), stamp})
		}
		w.drops(&o.forgot, all)
		w.marks(&o.forgot, 0)
	}
	w.send(flagAll)
	return w.all
}

// own writes the drops by this cache after a moment.
func (l *Log) own(w *writer, since, lost int64) {
	own := l.moment(false)
	w.begin(l.id, own, max(l.all.Load(), l.forgot.ended(), lost))
	var all []drop
	for i := range l.parts() {
		all = l.parts()[i].since(since, all)
	}
	w.drops(&l.forgot, all)
	w.marks(&l.forgot, since)
}

// telling returns the other origins with the newest drops, fewer than maxOrigins, so that
// the cache that learns of them has room for this one. lost is the newest stamp of the
// rest.
func (l *Log) telling() (others []*origin, lost int64) {
	others = slices.Clone(l.origins[1:])
	slices.SortFunc(others, func(a, b *origin) int { return cmp.Compare(b.newest(), a.newest()) })
	lost = l.origins[0].horizon
	for len(others) >= maxOrigins {
		last := len(others) - 1
		lost = max(lost, others[last].newest())
		others = others[:last]
	}
	return others, lost
}

var errPiece = errors.New("malformed log of drops")

// reader cuts records.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) number() uint64 {
	if len(r.b) < 8 {
		r.b, r.bad = nil, true
		return 0
	}
	n := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return n
}

// stamp cuts a stamp: a negative one is bad.
func (r *reader) stamp() int64 {
	n := int64(r.number())
	r.bad = r.bad || n < 0
	return n
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	first := r.b[0]
	r.b = r.b[1:]
	return first
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[size:]
	return n
}

// Learn takes in a piece. It returns an error if the piece is malformed: the records before
// that place are taken in.
func (l *Log) Learn(piece []byte, s *Lesson) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &reader{b: piece}
	flags := r.byte()
	if s.whole || s.knows == nil { // the first piece
		s.whole, s.knows = false, nil
	}
	var at *origin
	for len(r.b) > 0 && !r.bad {
		switch kind := r.byte(); {
		case kind == recordOrigin:
			at = l.learnOrigin(r, s)
		case (kind == recordDrops || kind == recordMarks) && s.knows != nil:
			l.learnList(r, s, at, kind)
		default:
			r.bad = true
		}
	}
	if r.bad || s.knows == nil {
		return errPiece
	}
	if s.whole, s.all = flags&flagMore == 0, flags&flagAll != 0; s.whole && s.Knows == nil {
		s.Knows = s.knows
	}
	return nil
}

// learnOrigin returns the origin that a record names; nil for this cache, which knows its
// own drops.
func (l *Log) learnOrigin(r *reader, s *Lesson) (at *origin) {
	id, knows, all := r.number(), r.stamp(), r.stamp()
	if r.bad = r.bad || id == 0; r.bad {
		return nil
	}
	if _, known := s.knows.of(id); !known {
		// No writer tells of more origins. Without this bound, memory would grow with what a peer
		// sends.
		if len(s.knows) > maxOrigins {
			r.bad = true
			return nil
		}
		s.knows = append(s.knows, Moment{id, knows})
	}
	if id == l.id {
		return nil
	}
	if at = l.origin(id); all > at.all {
		at.all = all
		s.newsOfAll(id, all)
	}
	return at
}

// learnList learns drops or marks of the origin at; nil stands for this cache.
func (l *Log) learnList(r *reader, s *Lesson, at *origin, kind byte) {
	stamp, size, n := r.stamp(), uint(r.byte()), r.uvarint()
	sized := kind == recordMarks && size >= fewMarks && size <= manyMarks || kind == recordDrops && size == keyBits
	// Each of n takes at least a byte: a short piece must not claim many.
	if r.bad = r.bad || !sized || n > most || n > uint64(len(r.b)); r.bad {
		return
	}
	// Marks of drops up to this stamp get a slice of their own, so that later drops do not make
	// them look later.
	if at != nil {
		at.forgot.cut(stamp)
	}
	for key := uint64(0); n > 0; n-- {
		if key += r.uvarint(); r.bad || key >= 1<<size {
			r.bad = true
			return
		}
		switch {
		case at == nil:
		case kind == recordMarks:
			if at.forgot.add(key, size, stamp) {
				s.newsOf(at.id, stamp).add(key, size, stamp)
			}
		case at.add(key, stamp):
			s.news(key, told{origin: at.id, stamp: stamp})
		}
	}
}

// news notes that a drop was not known. The last one of a key by an origin concerns all entries that its
// earlier ones concern.
func (s *Lesson) news(key uint64, t told) {
	of := s.fresh[key]
	at := slices.IndexFunc(of, func(was told) bool { return was.origin == t.origin })
	switch {
	case at >= 0:
		of[at].stamp = max(of[at].stamp, t.stamp)
	// Without this bound, memory would grow with what a peer sends.
	case of == nil && len(s.fresh) >= maxNews:
		s.newsOf(t.origin, t.stamp).add(key, keyBits, t.stamp)
	case s.fresh == nil:
		s.fresh = map[uint64][]told{key: {t}}
	default:
		s.fresh[key] = append(of, t)
	}
}

// newsOf returns the marks of the news of an origin with a stamp, or with a later one.
func (s *Lesson) newsOf(origin uint64, stamp int64) *marks {
	var newest *told
	n := 0
	for i := range s.wide {
		t := &s.wide[i]
		if t.origin != origin || t.marks == nil {
			continue
		}
		if t.stamp == stamp {
			return t.marks
		}
		if n++; newest == nil || t.stamp > newest.stamp {
			newest = t
		}
	}
	// No writer tells of more slices of an origin. Without this bound, each record of a few bytes would
	// cost 512 KiB. A drop that seems later than it was makes more entries old, never fewer.
	if n >= maxSlices {
		newest.stamp = max(newest.stamp, stamp)
		return newest.marks
	}
	t := told{origin: origin, stamp: stamp, marks: &marks{size: manyMarks}}
	s.wide = append(s.wide, t)
	return t.marks
}

// newsOfAll notes that a drop of everything was not known.
func (s *Lesson) newsOfAll(origin uint64, stamp int64) {
	for i := range s.wide {
		// The last one concerns all entries that the earlier ones concern.
		if t := &s.wide[i]; t.origin == origin && t.marks == nil {
			t.stamp = max(t.stamp, stamp)
			return
		}
	}
	s.wide = append(s.wide, told{origin: origin, stamp: stamp})
}
