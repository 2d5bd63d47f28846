package local

import (
	"bytes"
	"errors"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/strata-cache/strata/internal/cache/bytestore"
	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/internal/observe"
)

// Coded are values as bytes, in a store without pointers. Every entry that it returns is made for
// its caller, with a value decoded for it alone. An entry is known again by the number of its store.
//
// A key is its own bytes: the text of a string, or the memory of a key without pointers. So no
// function of the program is called for keys.
type Coded[K comparable, V any] struct {
	store *bytestore.Store
	// engine is empty. It has the clock, and makes entries.
	engine *l1.Cache[K, Held[V]]
	Codec[V]
	texts   bool
	reports bool // there is a function that hears of removals

	stored atomic.Uint64 // numbers of stores
	failed atomic.Uint64 // values that could not be decoded
	wrong  atomic.Uint64 // Gets that found one
	closed atomic.Bool
	sample atomic.Pointer[func(K, uint64)]
	hits   atomic.Uint64 // that sample has not seen, too
	ages   observe.Durations

	mu     sync.Mutex
	gone   []Removal[K, V] // not told yet
	untold atomic.Bool     // there are some
}

// Codec encodes and decodes values. The functions contain panics.
type Codec[V any] struct {
	Append func(dst []byte, v V) ([]byte, error)
	Decode func(data []byte) (V, error)
}

// coded is what an entry of Coded has behind it.
type coded struct {
	Record // first, where RecordOf looks
	// number is the number of the store.
	number uint64
	// form is the entry as the store has it. Entries on their way into the store, and removed entries, have a form.
	form []byte
}

// sampleOne is the number of hits for one that Sample calls its function for.
const sampleOne = 64

// NewCoded returns a store of at most maxBytes bytes. Notify of engine, which stays empty, is
// told of removals if reports is set.
func NewCoded[K comparable, V any](engine *l1.Cache[K, Held[V]], maxBytes int64, c Codec[V], reports bool) (*Coded[K, V], error) {
	store, err := bytestore.New(maxBytes)
	if err != nil {
		return nil, err
	}
	s := &Coded[K, V]{store: store, engine: engine, Codec: c, texts: envelope.IsString[K](), reports: reports}
	h := bytestore.Hooks{Ended: func(value []byte) bool {
		dead := deadIn(value)
		return dead != l1.Forever && engine.Now() >= dead
	}}
	if reports {
		h.Left = s.left
	}
	store.Use(h)
	return s, nil
}

// bytesOf returns the bytes of a key, which are valid as long as the key.
func (s *Coded[K, V]) bytesOf(key *K) []byte {
	if s.texts {
		text := *(*string)(unsafe.Pointer(key))
		return unsafe.Slice(unsafe.StringData(text), len(text))
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(key)), unsafe.Sizeof(*key))
}

// keyOf returns the key with these bytes, which it copies.
func (s *Coded[K, V]) keyOf(b []byte) (key K) {
	if s.texts {
		*(*string)(unsafe.Pointer(&key)) = string(b)
		return key
	}
	copy(s.bytesOf(&key), b)
	return key
}

// buffers has memory in which values are until they are decoded.
var buffers = sync.Pool{New: func() any { return new([]byte) }} // read-only

// maxBuffer is the size of the largest buffer that is kept.
const maxBuffer = 64 << 10

// look returns the entry of key, with its value if decodes is set; nil if there is none, or if the
// value cannot be decoded: then the entry goes. With counts it is a read.
func (s *Coded[K, V]) look(key K, decodes, counts bool) *Entry[K, V] {
	buffer, _ := buffers.Get().(*[]byte)
	form, ok := (*buffer)[:0], false
	if counts {
		form, ok = s.store.AppendGet(form, s.bytesOf(&key))
	} else {
		form, ok = s.store.AppendPeek(form, s.bytesOf(&key))
	}
	if cap(form) <= maxBuffer {
		*buffer = form
	}
	defer buffers.Put(buffer)
	if !ok {
		return nil
	}
	e, payload := s.open(key, form)
	if decodes && !s.decode(e, payload) {
		if s.damaged(e); counts {
			s.wrong.Add(1)
		}
		return nil
	}
	return e
}

// open returns the entry with a form, without its value, and the encoded value.
func (s *Coded[K, V]) open(key K, form []byte) (e *Entry[K, V], payload []byte) {
	h, payload := cutHead(form)
	return l1.NewEntryWith(s.engine, key, Held[V]{Lives: h.lives}, h.dead, coded{Record: h.record, number: h.number}), payload
}

// decode decodes the value of e.
func (s *Coded[K, V]) decode(e *Entry[K, V], payload []byte) (ok bool) {
	v, err := s.Decode(payload)
	if err != nil {
		s.failed.Add(1)
		return false
	}
	e.Value.V = v
	return true
}

// Get returns the entry of key, and counts a hit or a miss.
func (s *Coded[K, V]) Get(key K) (*Entry[K, V], int64) {
	e := s.look(key, true, true)
	if s.untold.Load() {
		s.Notify(s.drain())
	}
	if f := s.sample.Load(); f != nil && e != nil {
		if n := s.hits.Add(1); n%sampleOne == 0 {
			(*f)(key, n)
		}
	}
	return e, s.Now()
}

// Peek is Get without any trace.
func (s *Coded[K, V]) Peek(key K) (*Entry[K, V], int64) {
	return s.look(key, true, false), s.Now()
}

// Glance is Peek without the value.
func (s *Coded[K, V]) Glance(key K) (*Entry[K, V], int64) {
	return s.look(key, false, false), s.Now()
}

// Touch is Get without the value, and is not counted.
func (s *Coded[K, V]) Touch(key K) bool { return s.store.Touch(s.bytesOf(&key)) }

// Cool takes one of the reads that e counts.
func (s *Coded[K, V]) Cool(e *Entry[K, V]) bool { return s.store.Cool(s.bytesOf(&e.Key)) }

// Copy encodes and decodes v.
func (s *Coded[K, V]) Copy(v V) V {
	if b, err := s.Append(nil, v); err == nil {
		if own, err := s.Decode(b); err == nil {
			return own
		}
	}
	return v
}

// Uses returns the reads that e counts.
func (s *Coded[K, V]) Uses(e *Entry[K, V]) int { return s.store.Reads(s.bytesOf(&e.Key)) }

// Pack encodes the value of e, unless form has it already or Pack has done so before.
func (s *Coded[K, V]) Pack(e *Entry[K, V], form []byte) error {
	c := l1.Behind[coded](e)
	if c.form != nil {
		return nil
	}
	c.number = s.stored.Add(1)
	head := appendHead(make([]byte, 0, headRoom+len(form)), headOf(e))
	if form != nil {
		c.form = append(head, form...)
		return nil
	}
	all, err := s.Append(head, e.Value.V)
	switch {
	case err != nil:
		return err
	case !bytes.HasPrefix(all, head): // a head that is not ours could not be read again
		return ErrNotAppended
	}
	c.form = all
	return nil
}

// ErrNotAppended is the error of a value that its codec has not appended.
var ErrNotAppended = errors.New("strata: the Codec has not appended the value to what was there")

// Set stores e, which was packed. Its weight is the number of its bytes.
func (s *Coded[K, V]) Set(e *Entry[K, V], _ int64) (gone []Removal[K, V], ok bool) {
	if s.closed.Load() {
		return nil, false
	}
	var old *[]byte
	if s.reports {
		old = new([]byte)
	}
	had, ok := s.store.Exchange(s.bytesOf(&e.Key), l1.Behind[coded](e).form, old)
	if s.closed.Load() {
		s.empty()
		ok = false
	}
	gone = s.drain()
	if !had {
		return gone, ok
	}
	r := Removal[K, V]{Entry: s.departed(e.Key, *old), Reason: l1.Replaced}
	switch {
	case s.Now() >= r.Entry.Dead:
		r.Reason = l1.Expired
	case !ok:
		r.Reason = l1.Rejected
	}
	return append(gone, r), ok
}

// Offer is Set: the store lets a new entry go before entries that were read.
func (s *Coded[K, V]) Offer(e *Entry[K, V], _, _ int64) ([]Removal[K, V], bool) { return s.Set(e, 0) }

// Renew is Set.
func (s *Coded[K, V]) Renew(e *Entry[K, V], _ int64) ([]Removal[K, V], bool) { return s.Set(e, 0) }

// Swap stores the times, the stamp and the record of e, if its key still holds old, and reports
// whether it did. The value stays.
func (s *Coded[K, V]) Swap(old, e *Entry[K, V]) bool {
	was, c := l1.Behind[coded](old).number, l1.Behind[coded](e)
	c.number = s.stored.Add(1)
	head := appendHead(make([]byte, 0, headRoom), headOf(e))
	done := s.store.Replace(s.bytesOf(&e.Key), func(form []byte) []byte {
		if numberIn(form) != was {
			return nil
		}
		_, payload := cutHead(form)
		return append(head[:len(head):len(head)], payload...)
	})
	if !done {
		c.number = was
	}
	return done
}

// Same compares the numbers of stores.
func (s *Coded[K, V]) Same(a, b *Entry[K, V]) bool {
	return a == b || a != nil && b != nil && l1.Behind[coded](a).number == l1.Behind[coded](b).number
}

// Delete removes the entry of key. If a function hears of removals, Delete returns it.
func (s *Coded[K, V]) Delete(key K) (e *Entry[K, V], alive bool) {
	var old []byte
	if !s.reports {
		return nil, s.store.Remove(s.bytesOf(&key), nil, nil)
	}
	if !s.store.Remove(s.bytesOf(&key), nil, &old) {
		return nil, false
	}
	e = s.departed(key, old)
	return e, s.Now() < e.Dead
}

// remove removes e if its key still holds it, and reports whether it did.
func (s *Coded[K, V]) remove(e *Entry[K, V]) bool {
	was := l1.Behind[coded](e).number
	var old *[]byte
	if s.reports {
		old = &l1.Behind[coded](e).form
		*old = nil
	}
	return s.store.Remove(s.bytesOf(&e.Key), func(form []byte) bool { return numberIn(form) == was }, old)
}

// DeleteFunc removes the living entries for which f returns true, and tells of them. The entries that
// f gets have no values.
func (s *Coded[K, V]) DeleteFunc(f func(*Entry[K, V]) bool) (n int) {
	for e := range s.Each() {
		if f(e) && s.remove(e) {
			s.tell(e, l1.Deleted)
			n++
		}
	}
	s.store.Tidy()
	return n
}

// All iterates over the living entries that want takes, in no order. want gets them without values.
func (s *Coded[K, V]) All(want func(*Entry[K, V]) bool) iter.Seq[*Entry[K, V]] {
	return func(yield func(*Entry[K, V]) bool) {
		for key, form := range s.store.All() {
			e, payload := s.open(s.keyOf(key), form)
			switch {
			case !want(e):
			case !s.decode(e, payload):
				s.damaged(e)
			case !yield(e):
				return
			}
		}
	}
}

// Each iterates over the living entries, without their values.
func (s *Coded[K, V]) Each() iter.Seq[*Entry[K, V]] {
	return func(yield func(*Entry[K, V]) bool) {
		for key, form := range s.store.All() {
			if e, _ := s.open(s.keyOf(key), form); !yield(e) {
				return
			}
		}
	}
}

// Hottest returns up to n living entries without their values, in descending order of their recent
// reads, up to three.
func (s *Coded[K, V]) Hottest(n int) (all []*Entry[K, V]) {
	for _, key := range s.hottestKeys(n) {
		if e, _ := s.Glance(key); e != nil {
			all = append(all, e)
		}
	}
	return all
}

// HottestKeys returns all keys in the order of Hottest.
func (s *Coded[K, V]) HottestKeys() []K { return s.hottestKeys(math.MaxInt) }

func (s *Coded[K, V]) hottestKeys(n int) []K {
	var by [4][]K
	for key := range s.store.All() {
		if r := s.store.Reads(key); len(by[r]) < n {
			by[r] = append(by[r], s.keyOf(key))
		}
	}
	all := slices.Concat(by[3], by[2], by[1], by[0])
	return all[:min(n, len(all))]
}

// Sample makes one in 64 hits call f. Nil ends that.
func (s *Coded[K, V]) Sample(f func(key K, hits uint64)) {
	if f == nil {
		s.sample.Store(nil)
		return
	}
	s.sample.Store(&f)
}

// End is the end of e.
func (s *Coded[K, V]) End(e *Entry[K, V]) int64 { return e.Dead }

// Now returns the time by the clock of L1.
func (s *Coded[K, V]) Now() int64 { return s.engine.Now() }

// Len returns the number of entries. Those that have ended count until they are found.
func (s *Coded[K, V]) Len() int { return s.store.Len() }

// Bounds returns the bound of the bytes.
func (s *Coded[K, V]) Bounds() (entries, weight int64) { return 0, s.store.Budget() }

// Ages is empty: an entry has no time of its store.
func (s *Coded[K, V]) Ages() *observe.Durations { return &s.ages }

// Stats returns the counts.
func (s *Coded[K, V]) Stats() l1.Stats {
	wrong, n, of := s.wrong.Load(), s.store.Stats(), s.engine.Stats()
	return l1.Stats{
		Entries: int64(s.Len()), Weight: s.store.Bytes(), Hits: n.Hits - min(n.Hits, wrong), Misses: n.Misses + wrong,
		Evicted: n.Evicted, Expired: n.Expired, Rejected: n.Rejected, CallbackPanics: of.CallbackPanics,
	}
}

// Undecoded returns the number of values that could not be decoded.
func (s *Coded[K, V]) Undecoded() uint64 { return s.failed.Load() }

// Resize changes the bound of the bytes, which is [bytestore.Store.Least] at least.
func (s *Coded[K, V]) Resize(_, maxBytes int64) []Removal[K, V] {
	_ = s.store.Resize(max(maxBytes, s.store.Least()))
	return s.drain()
}

// Room returns how many entries can come before others make room, and no more than most.
func (s *Coded[K, V]) Room(most int) int {
	free, n := s.store.Free(), int64(s.store.Len())
	if n == 0 {
		return most
	}
	// Entries to come are taken to be as large as the present ones.
	return int(min(int64(most), free/max(1, s.store.Used()/n)))
}

// Fits asks the store for the bytes of e.
func (s *Coded[K, V]) Fits(e *Entry[K, V], _ int64) bool {
	return s.store.Fits(s.bytesOf(&e.Key), l1.Behind[coded](e).form)
}

func (s *Coded[K, V]) newEntry(key K, v Held[V], dead int64, r Record) *Entry[K, V] {
	if r != (Record{}) {
		v.State |= expiry.Recorded
	}
	return l1.NewEntryWith(s.engine, key, v, dead, coded{Record: r})
}

// headOf returns the head of e.
func headOf[K comparable, V any](e *Entry[K, V]) head {
	return head{lives: e.Value.Lives, dead: e.Dead, number: l1.Behind[coded](e).number, record: RecordOf(e)}
}
