package drops

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/kit"
)

// clocked returns a log with a clock that moves with each look at it.
func clocked(id uint64) *Log {
	var now int64
	return New(id, func() int64 { now += 100; return now })
}

func key(i int) uint64 { return hash(fmt.Sprint("key", i), 0) }

// teach makes to learn all that from tells, and returns the lesson.
func teach(t testing.TB, from, to *Log) *Lesson {
	t.Helper()
	s := new(Lesson)
	piece, _ := from.Know()
	for _, p := range append([][]byte{piece}, from.TellAll()...) {
		if len(p) > MaxPiece {
			t.Errorf("a piece of %d bytes", len(p))
		}
		if err := to.Learn(p, s); err != nil {
			t.Fatal(err)
		}
	}
	to.Learned(s)
	return s
}

func (l *Log) admits(hash uint64, k Knowledge, born int64) bool {
	return l.Admit(&Query{Hashes: []uint64{hash}, Knows: k, Born: born}, func() {})
}

func TestDropsAfterAMomentAreKnownToTheLogAndToThoseThatItTells(t *testing.T) {
	for _, n := range []int{10, 1000, 40_000, kit.Rounds(300_000)} {
		a, b, c := clocked(1), clocked(2), clocked(3)
		for i := range 1000 {
			a.Note(key(-i-1), 0)
		}
		_, k := a.Know()
		for i := range n {
			a.Note(key(i), 0)
		}
		teach(t, a, b)
		teach(t, b, c)
		lost := map[*Log]int{}
		for _, l := range []*Log{a, b, c} {
			for i := range n {
				if l.admits(key(i), k, 0) {
					t.Fatalf("%d drops, log %d: number %d is forgotten", n, l.id, i)
				}
			}
			for i := range 1000 { // which were dropped before
				if !l.admits(key(-i-1), k, 0) {
					lost[l]++
				}
			}
		}
		for l, refused := range lost {
			if most := n / 4000; refused > most {
				t.Errorf("%d drops, log %d: %d of 1000 keys are refused that were dropped before", n, l.id, refused)
			}
		}
	}
}

func TestMillionsOfDropsForgetNone(t *testing.T) {
	a := clocked(1)
	k := Knowledge{{1, a.moment(false)}}
	const n = 700_000 // more than half of the marks of a cache without snapshots
	for i := range n {
		a.Note(uint64(i+1)*0x9e3779b97f4a7c15, 0)
	}
	if a.forgot.ended() == 0 {
		t.Error("no marks were cleared")
	}
	for i := range n {
		if a.admits(uint64(i+1)*0x9e3779b97f4a7c15, k, 0) {
			t.Fatalf("number %d is forgotten", i)
		}
	}
	if _, k = a.Know(); !a.admits(0x9e3779b97f4a7c15, k, 0) {
		t.Error("a value from after all drops is refused")
	}
}

func TestDropsOfACacheThatIsNotKnownAreComparedByTime(t *testing.T) {
	a, b := clocked(1), clocked(2)
	a.Note(key(1), 0)
	at := a.last(key(1))
	teach(t, a, b)
	for _, l := range []*Log{a, b} {
		if l.admits(key(1), nil, 0) || l.admits(key(1), nil, at-1) || l.admits(key(1), nil, at+int64(Skew)-1) {
			t.Errorf("log %d takes in a value that may be older", l.id)
		}
		if !l.admits(key(1), nil, at+int64(Skew)+1) || !l.admits(key(2), nil, 1) {
			t.Errorf("log %d refuses a value that is newer, or of another key", l.id)
		}
	}
}

func TestClockThatStandsOrIsSetBackOrdersDrops(t *testing.T) {
	now := int64(1e9)
	a := New(1, func() int64 { return now })
	a.Note(key(1), 0)
	_, k := a.Know()
	if !a.admits(key(1), k, 0) {
		t.Error("a drop from before is after")
	}
	now -= 1e8
	a.Note(key(1), 0)
	if a.admits(key(1), k, 0) {
		t.Error("a drop from after is before")
	}
	_, k = a.Know()
	a.Around(func() {})
	if a.admits(key(2), k, 0) {
		t.Error("a drop of everything is forgotten")
	}
	_, k = a.Know()
	a.Around(func() {}, "tag")
	if a.admits(Tag("tag"), k, 0) || !a.admits(hash("tag", 0), k, 0) {
		t.Error("a drop of a tag is forgotten, or is one of a key")
	}
}

func TestManyOriginsAreBoundedAndForgetNothing(t *testing.T) {
	last := clocked(1000)
	files := make([]Knowledge, 60)
	for i := range files {
		x := clocked(uint64(i + 1))
		_, files[i] = x.Know()
		x.Note(key(i), 0)
		teach(t, x, last)
		next := clocked(uint64(2000 + i)) // a process that begins with the file of the one before
		s := teach(t, last, next)
		if i > 0 && !next.admits(key(9999), s.Knows, 0) {
			t.Fatalf("after %d others: an entry of the last file is refused", i)
		}
		last = next
		if n := len(last.origins); n > maxOrigins+1 {
			t.Fatalf("%d origins", n)
		}
	}
	for i, k := range files {
		if last.admits(key(i), k, 0) {
			t.Errorf("the drop of process %d is forgotten", i)
		}
	}
}

func TestMalformedPiecesAreRefused(t *testing.T) {
	a := clocked(1)
	for i := range 50_000 {
		a.Note(key(i), 0)
	}
	pieces := a.TellAll()
	r := rand.New(rand.NewPCG(1, 2))
	b := clocked(2)
	for range 300 {
		p := bytes.Clone(pieces[r.IntN(len(pieces))])
		for range 1 + r.IntN(3) {
			p[r.IntN(min(len(p), 60))] ^= 1 << r.IntN(8)
		}
		_ = b.Learn(p[:r.IntN(len(p)+1)], new(Lesson))
	}
	if len(b.origins) > maxOrigins+1 {
		t.Errorf("%d origins", len(b.origins))
	}
	for name, p := range map[string]string{
		"empty": "", "no origin": "\x00", "drops without an origin": "\x00\x02", "cut origin": "\x00\x01abc", "unknown record": "\x00\x09",
		"origin zero": "\x00\x01" + string(make([]byte, 24)),
	} {
		if b.Learn([]byte(p), new(Lesson)) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestLessonKeepsNoMoreMarksThanAWriterHas has a piece with many stamps of one origin, which no writer makes.
func TestLessonKeepsNoMoreMarksThanAWriterHas(t *testing.T) {
	l, s, w := clocked(2), new(Lesson), new(writer)
	const stamps = 400
	w.begin(7, 1, 0)
	for i := range uint64(stamps) {
		// The last stamp is not the highest one.
		w.list(recordMarks, 10_000+int64(i*7%stamps), manyMarks, []uint64{i})
		w.begin(7, 1, int64(i+1))
	}
	w.send(flagMore)
	l.Begin(s)
	for _, p := range w.all {
		if err := l.Learn(p, s); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.wide); n > maxSlices+1 {
		t.Errorf("%d sets of marks for one origin", n)
	}
	l.sessions = []Knowledge{nil}
	for i := range uint64(stamps) {
		stamp := 10_000 + int64(i*7%stamps)
		if l.Outlives(s, &Query{Hashes: []uint64{i << (64 - manyMarks)}, Born: stamp + int64(Skew)}, true) {
			t.Fatalf("drop %d is forgotten", i)
		}
	}
	if !l.Outlives(s, &Query{Hashes: []uint64{stamps << (64 - manyMarks)}, Born: 10_000 + int64(Skew)}, true) {
		t.Error("a key without a drop is taken for dropped")
	}
}

func TestDropsOfEverythingInARowLookAtEntriesOnce(t *testing.T) {
	log, looks := clocked(1), 0
	withdraw := func(func(*Aged) bool) { looks++ }
	first := NewLearner(log, withdraw)
	for range 1000 {
		first.DropAll()
	}
	if looks != 0 {
		t.Errorf("%d looks, and no entry is from a snapshot", looks)
	}
	second := NewLearner(log, withdraw)
	second.Ask(key(1), nil, 0)
	if !second.Admit(func() {}) {
		t.Fatal("an entry from after the drops is refused")
	}
	for range 1000 {
		first.DropAll()
	}
	if looks != 1 {
		t.Errorf("%d looks for the entry of another snapshot", looks)
	}
	if second.Admit(func() {}) {
		t.Error("an entry is taken in after a drop of everything")
	}
}

func FuzzLearn(f *testing.F) {
	a := clocked(1)
	for i := range 20 {
		a.Note(key(i), 0)
	}
	f.Add(a.TellAll()[0])
	f.Fuzz(func(t *testing.T, piece []byte) {
		l, s := clocked(2), new(Lesson)
		_ = l.Learn(piece, s)
		l.Begin(s)
		l.Outlives(s, &Query{Hashes: []uint64{1}}, true)
		l.Learned(s)
		for _, p := range l.TellAll() {
			if err := clocked(3).Learn(p, new(Lesson)); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestHashesDiffer(t *testing.T) {
	var all []uint64
	for i := range 200_000 {
		all = append(all, hash(fmt.Sprint(i), 0), number(uint64(i))>>1, hash(fmt.Sprint("long key of a user ", i), 0), Tag(fmt.Sprint(i)))
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 800_000 {
		t.Errorf("%d of 800 000 hashes", n)
	}
	for text, want := range map[string]uint64{"": 0xa13eb13782b1c903, "k1": 0xfbf7955b95f3dab1, "a key of more than eight bytes": 0x5d49cc5e53e1d78e} {
		if got := hash(text, 0); got != want { // files have them
			t.Errorf("the hash of %q is %#x", text, got)
		}
	}
	byte8, word := Hasher[uint8](nil), Hasher[int32](nil)
	if byte8(7) != number(7) || word(-1) != number(1<<32-1) || Hasher[string](nil)("a") != hash("a", 0) {
		t.Error("hashes of types differ")
	}
}

// TestLessonKeepsNoMoreDropsThanAWriterHas has pieces with more drops than a writer knows, which all belong together.
func TestLessonKeepsNoMoreDropsThanAWriterHas(t *testing.T) {
	l, s, w := clocked(2), new(Lesson), new(writer)
	keyOfNumber := func(i uint64) uint64 { return i << (keyBits - manyMarks) }
	w.begin(7, 1, 0)
	for i := range int64(100) {
		w.list(recordDrops, 10_000+i, keyBits, []uint64{keyOfNumber(0)})
	}
	const drops = maxNews + 3*most
	for i := uint64(0); i < drops; i += most {
		keys := make([]uint64, most)
		for j := range keys {
			keys[j] = keyOfNumber(i + uint64(j))
		}
		w.list(recordDrops, 20_000, keyBits, keys)
	}
	w.send(flagMore)
	l.Begin(s)
	for _, p := range w.all {
		if err := l.Learn(p, s); err != nil {
			t.Fatal(err)
		}
	}
	if n, of := len(s.fresh), len(s.fresh[keyOfNumber(0)]); n > maxNews || of != 1 {
		t.Errorf("%d keys, one of them with %d drops", n, of)
	}
	l.sessions = []Knowledge{nil}
	for i := range uint64(drops) {
		if l.Outlives(s, &Query{Hashes: []uint64{keyOfNumber(i) << (64 - keyBits)}, Born: 20_000 + int64(Skew)}, true) {
			t.Fatalf("drop %d of %d is forgotten", i, drops)
		}
	}
	if !l.Outlives(s, &Query{Hashes: []uint64{keyOfNumber(drops+1) << (64 - keyBits)}, Born: 20_000 + int64(Skew)}, true) {
		t.Error("a key without a drop is taken for dropped")
	}
}

// TestDropAfterASuspensionIsAsLateAsTheWall has a clock that stands while the wall goes on, as in a machine that is
// suspended.
func TestDropAfterASuspensionIsAsLateAsTheWall(t *testing.T) {
	for name, drop := range map[string]func(l *Log){
		"key":        func(l *Log) { l.Note(key(1), 0) },
		"tag":        func(l *Log) { l.Around(func() {}, "tag") },
		"everything": func(l *Log) { l.Around(func() {}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			clock, begun := int64(time.Second), time.Now()
			suspended, other := New(1, func() int64 { return clock }), New(2, func() int64 { return int64(time.Since(begun)) + 1 })
			time.Sleep(10 * time.Minute) // in the bubble
			read := other.Stamp(other.now())
			time.Sleep(5 * time.Minute) // in the bubble
			clock += int64(time.Second)
			drop(suspended)
			teach(t, suspended, other)
			q := Query{Hashes: []uint64{key(1), Tag("tag")}, Born: read}
			if other.Admit(&q, func() {}) {
				t.Errorf("%s: a value is admitted that was read five minutes before its drop", name)
			}
			if q.Born += int64(7 * time.Minute); !other.Admit(&q, func() {}) {
				t.Errorf("%s: a value is refused that was read two minutes after the drop", name)
			}
		})
	}
}
