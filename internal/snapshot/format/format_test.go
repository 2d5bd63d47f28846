package format_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/testing/kit"
)

const ms = time.Millisecond

// created is the time at which the snapshots of the tests were begun.
func created() time.Time { return time.UnixMilli(1_764_000_000_123) }

func headerOf(m format.Mode) format.Header {
	return format.Header{Version: format.Version, Created: created(), Stream: 1, Streams: 3, Mode: m, ID: [16]byte{7, 15: 9}}
}

// op is one call of a Writer, and the record that it must become. part of the zero op
// is an entry.
type op struct {
	section int
	key     string
	entry   format.Entry
	drop    *format.Drop
	flush   bool
}

// sample is a snapshot as calls.
type sample struct {
	header   format.Header
	sections []format.Section
	ops      []op
}

// write writes the whole sample but its end.
func (s *sample) write(t testing.TB, to io.Writer) *format.Writer {
	t.Helper()
	w := format.NewWriter(to, s.header)
	for i, sec := range s.sections {
		if got, err := w.Section(sec); got != i || err != nil {
			t.Fatalf("Section: %d, %v", got, err)
		}
	}
	for _, o := range s.ops {
		if err := s.call(w, o); err != nil {
			t.Fatalf("section %d, key %.60q: %v", o.section, o.key+string(o.entry.Key), err)
		}
	}
	return w
}

func (s *sample) call(w *format.Writer, o op) error {
	switch {
	case o.flush:
		return w.Flush()
	case o.drop != nil && o.drop.All:
		return w.DropAll(o.section, o.drop.Expire)
	case o.drop != nil:
		return w.Drop(o.section, string(o.drop.Name), o.drop.Expire)
	case s.header.Mode == format.Keys:
		return w.Key(o.section, o.key)
	}
	return w.Entry(o.section, &o.entry, func(b []byte) ([]byte, error) { return append(b, o.entry.Value...), nil })
}

// bytes returns the sample as a whole snapshot.
func (s *sample) bytes(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.write(t, &b).Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// records returns the records that a Reader must return for the sample, by sections:
// between sections there is no order. The section itself is the first record.
func (s *sample) records() [][]string {
	all := make([][]string, len(s.sections))
	counts := make([]format.Counts, len(s.sections))
	for i, sec := range s.sections {
		all[i] = append(all[i], show(format.Record{Kind: format.KindSection, Index: i, Section: &sec}))
	}
	for _, o := range s.ops {
		rec := format.Record{Index: o.section}
		switch {
		case o.flush:
			continue
		case o.drop != nil:
			rec.Kind, rec.Drop = format.KindDrop, *o.drop
			counts[o.section].Drops++
		case s.header.Mode == format.Keys:
			rec.Kind, rec.Key = format.KindKey, []byte(o.key)
			counts[o.section].Entries++
			counts[o.section].Bytes += uint64(len(o.key))
		default:
			rec.Kind, rec.Entry = format.KindEntry, &o.entry
			counts[o.section].Entries++
			counts[o.section].Bytes += uint64(len(o.entry.Key) + len(o.entry.Value))
		}
		all[o.section] = append(all[o.section], show(rec))
	}
	for i := range all {
		all[i] = append(all[i], show(format.Record{Kind: format.KindSectionEnd, Index: i, Counts: counts[i]}))
	}
	return all
}

// show returns all of a record as a text. Empty and nil slices are the same.
func show(rec format.Record) string {
	c := rec.Counts
	b := number(nil, int64(rec.Kind), int64(rec.Index), int64(c.Entries), int64(c.Bytes), int64(c.Drops), int64(c.Skipped))
	b = strconv.AppendBool(strconv.AppendBool(b, rec.Drop.Expire), rec.Drop.All)
	b = strconv.AppendQuote(b, rec.Reason)
	b = brief(brief(b, rec.Key), rec.Drop.Name)
	if s := rec.Section; s != nil {
		b = strconv.AppendQuote(append(b, " section "...), strings.Join([]string{s.Name, s.Space, s.Codec}, "\n"))
		b = brief(number(b, int64(s.Fingerprint)), s.Position)
	}
	if e := rec.Entry; e != nil {
		b = brief(brief(append(b, " entry "...), e.Key), e.Value)
		b = number(b, int64(e.Fresh), int64(e.Left), int64(e.ID), e.Weight, int64(e.Age), int64(e.Uses))
		b = strconv.AppendBool(strconv.AppendBool(b, e.NotFound), e.Expired)
		for _, t := range e.Tags {
			b = strconv.AppendQuote(b, t)
		}
	}
	return string(b)
}

func number(b []byte, all ...int64) []byte {
	for _, n := range all {
		b = append(strconv.AppendInt(b, n, 10), ' ')
	}
	return b
}

// brief appends data in hexadecimal, or its length and a hash.
func brief(b, data []byte) []byte {
	if len(data) > 100 {
		b = number(b, int64(len(data)))
		sum := sha256.Sum256(data)
		data = sum[:]
	}
	return append(hex.AppendEncode(b, data), ' ')
}

// read reads until an error.
func read(from io.Reader, l format.Limits) (all []format.Record, shown []string, err error) {
	r := format.NewReader(from, l)
	for {
		rec, err := r.Next()
		if err != nil {
			if rec.Kind != 0 {
				panic("a record beside an error")
			}
			if _, again := r.Next(); again != err {
				panic("another error behind the first")
			}
			return all, shown, err
		}
		all, shown = append(all, rec), append(shown, show(rec))
	}
}

func bySection(recs []format.Record, shown []string, n int) [][]string {
	all := make([][]string, n)
	for i, rec := range recs {
		all[rec.Index] = append(all[rec.Index], shown[i])
	}
	return all
}

// text returns n bytes that look random.
func text(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// size returns a length up to most, often a small one.
func size(r *rand.Rand, most int) int { return r.IntN(1 + most>>r.IntN(20)) }

func randomEntry(r *rand.Rand, most int) format.Entry {
	e := format.Entry{
		Key: text(r, size(r, most/4)), Value: text(r, size(r, most)),
		Fresh: format.Forever, Left: format.Forever, Age: format.Unknown, Weight: 1, Uses: r.IntN(4), Expired: r.IntN(4) == 0,
	}
	if r.IntN(4) > 0 {
		e.Fresh = time.Duration(r.Int64N(1<<r.IntN(40))-1<<r.IntN(30)) * ms
	}
	if e.Fresh != format.Forever && r.IntN(4) > 0 {
		e.Left = e.Fresh + time.Duration(r.Int64N(1<<r.IntN(40)))*ms
	}
	if r.IntN(5) == 0 {
		e.NotFound, e.Value = true, nil
	}
	if r.IntN(2) == 0 {
		e.ID, e.Weight, e.Age = r.Uint64(), r.Int64N(1<<r.IntN(62)), time.Duration(r.Int64N(1<<r.IntN(40)))*ms
	}
	for range r.IntN(3) * r.IntN(1<<r.IntN(6)) {
		e.Tags = append(e.Tags, string(text(r, size(r, most/100))))
	}
	e.Tags = e.Tags[:min(len(e.Tags), format.MaxTags)]
	return e
}

func randomSample(r *rand.Rand, records, most int) *sample {
	s := &sample{header: headerOf(format.Mode(1 + r.IntN(2)))}
	for i := range 1 + r.IntN(5) {
		s.sections = append(s.sections, format.Section{
			Name: fmt.Sprintf("cache %d", i), Space: string(text(r, size(r, 100))), Codec: "json", Fingerprint: r.Uint64(), Position: text(r, size(r, most)),
		})
	}
	for range r.IntN(records) {
		o := op{section: r.IntN(len(s.sections))}
		switch n := r.IntN(20); {
		case n == 0:
			o.flush = true
		case n == 1:
			o.drop = &format.Drop{Expire: r.IntN(2) == 0, All: true}
		case n < 4:
			o.drop = &format.Drop{Expire: r.IntN(2) == 0, Name: text(r, size(r, 60_000))}
		case s.header.Mode == format.Keys:
			o.key = string(text(r, size(r, most)))
		default:
			o.entry = randomEntry(r, most)
		}
		s.ops = append(s.ops, o)
	}
	return s
}

func TestSnapshotReadsAsItWasWritten(t *testing.T) {
	for seed := range uint64(kit.Rounds(50)) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := randomSample(r, 100, 300_000)
		b := s.bytes(t)
		for _, keep := range []bool{false, true} {
			recs, shown, err := read(bytes.NewReader(b), format.Limits{Keep: keep})
			if err != io.EOF {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if got, want := bySection(recs, shown, len(s.sections)), s.records(); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, keep %v: read\n%.2000q\nbut wrote\n%.2000q", seed, keep, got, want)
			}
		}
	}
}

func TestKeptRecordsAreNeverWrittenAgain(t *testing.T) {
	for seed := range uint64(kit.Rounds(20)) {
		s := randomSample(rand.New(rand.NewPCG(seed, 2)), 200, 200_000)
		b := s.bytes(t)
		r := format.NewReader(bytes.NewReader(b), format.Limits{Keep: true})
		var recs []format.Record
		for {
			rec, err := r.Next()
			if err != nil {
				break
			}
			if rec.Entry != nil {
				e := *rec.Entry
				rec.Entry = &e
			}
			recs = append(recs, rec)
		}
		var shown []string
		for _, rec := range recs {
			// No field has room that belongs to another one.
			_ = append(rec.Key, "appended"...)
			_ = append(rec.Drop.Name, "appended"...)
			if rec.Entry != nil {
				_, _ = append(rec.Entry.Key, "appended"...), append(rec.Entry.Value, "appended"...)
			}
		}
		for _, rec := range recs {
			shown = append(shown, show(rec))
		}
		if got, want := bySection(recs, shown, len(s.sections)), s.records(); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: what was kept is\n%.2000q\nbut wrote\n%.2000q", seed, got, want)
		}
	}
}

func TestHeaderReadsAsItWasWritten(t *testing.T) {
	for _, m := range []format.Mode{format.Keys, format.Values} {
		s := sample{header: headerOf(m)}
		r := format.NewReader(bytes.NewReader(s.bytes(t)), format.Limits{})
		for range 2 {
			h, err := r.Header()
			if err != nil || !h.Created.Equal(s.header.Created) {
				t.Fatalf("%v, %v", h, err)
			}
			if h.Created = s.header.Created; h != s.header {
				t.Fatalf("read %+v, wrote %+v", h, s.header)
			}
			if _, err := r.Next(); err != io.EOF {
				t.Fatal(err)
			}
		}
	}
}

// TestTimesNeverGrow writes times that the format cannot hold exactly.
func TestTimesNeverGrow(t *testing.T) {
	const most = format.Forever / ms * ms
	for _, tt := range []struct{ fresh, left, age, wantFresh, wantLeft, wantAge time.Duration }{
		{1, 2*ms - 1, 1, 0, ms, ms},
		{-1, -1, ms + 1, -ms, -ms, 2 * ms},
		{5 * ms, 3 * ms, 0, 3 * ms, 3 * ms, 0},
		{format.Forever, 3 * ms, -5, 3 * ms, 3 * ms, format.Unknown},
		{format.Forever, format.Forever, most, format.Forever, format.Forever, most},
		{format.Forever - 1, format.Forever, format.Forever, most, format.Forever, most},
		{-format.Forever - 1, format.Forever - 1, -format.Forever - 1, -most, most, format.Unknown},
		{-format.Forever - 1, -format.Forever - 1, 0, -most, -most, 0},
	} {
		e := format.Entry{Fresh: tt.fresh, Left: tt.left, Age: tt.age}
		s := sample{header: headerOf(format.Values), sections: make([]format.Section, 1), ops: []op{{entry: e}}}
		r := format.NewReader(bytes.NewReader(s.bytes(t)), format.Limits{})
		r.Next()
		rec, err := r.Next()
		if err != nil {
			t.Fatalf("%+v: %v", tt, err)
		}
		if got := rec.Entry; got.Fresh != tt.wantFresh || got.Left != tt.wantLeft || got.Age != tt.wantAge {
			t.Errorf("%+v: read fresh %v, left %v, age %v", tt, got.Fresh, got.Left, got.Age)
		}
	}
}

// TestEntriesOfEveryLengthNearAFrame writes entries with records that end around the
// end of a frame.
func TestEntriesOfEveryLengthNearAFrame(t *testing.T) {
	for d := range 80 {
		s := sample{header: headerOf(format.Values), sections: make([]format.Section, 200)}
		n := format.MaxPayload - 60 + d
		for _, sec := range []int{0, 199} {
			for _, length := range []int{3, n, 3, n / 2, n - n/2, n * 2, n} {
				s.ops = append(s.ops, op{section: sec, entry: format.Entry{Key: []byte("key"), Value: bytes.Repeat([]byte{byte(length)}, length), Tags: []string{"a"}}})
			}
		}
		recs, shown, err := read(bytes.NewReader(s.bytes(t)), format.Limits{})
		if got := bySection(recs, shown, 200); err != io.EOF || !reflect.DeepEqual(got, s.records()) {
			t.Fatalf("%d bytes: %v, or other records", n, err)
		}
	}
	for d := range 12 {
		name := strings.Repeat("k", format.MaxPayload-12+d)
		s := sample{header: headerOf(format.Keys), sections: make([]format.Section, 1), ops: []op{{key: name}, {key: "a"}, {key: name}}}
		recs, shown, err := read(bytes.NewReader(s.bytes(t)), format.Limits{})
		if got := bySection(recs, shown, 1); err != io.EOF || !reflect.DeepEqual(got, s.records()) {
			t.Fatalf("key of %d bytes: %v, or other records", len(name), err)
		}
	}
}

func TestEntryThatCannotBeWrittenIsLeftOut(t *testing.T) {
	failed := errors.New("no codec")
	value := func(n int) func([]byte) ([]byte, error) {
		return func(b []byte) ([]byte, error) { return append(b, make([]byte, n)...), nil }
	}
	for name, tt := range map[string]struct {
		entry  format.Entry
		append func([]byte) ([]byte, error)
		want   error
	}{
		"codec fails":                   {format.Entry{}, func(b []byte) ([]byte, error) { return append(b, "half"...), failed }, failed},
		"codec cuts":                    {format.Entry{}, func(b []byte) ([]byte, error) { return b[:1], nil }, nil},
		"codec returns the value alone": {format.Entry{}, func(b []byte) ([]byte, error) { return make([]byte, len(b)+1), nil }, nil},
		"codec has nothing":             {format.Entry{}, func([]byte) ([]byte, error) { return nil, nil }, nil},
		"too long":                      {format.Entry{}, value(format.MaxEntry), format.ErrTooLarge},
		"negative weight":               {format.Entry{Weight: -1}, nil, nil},
		"too many tags":                 {format.Entry{Tags: make([]string, format.MaxTags+1)}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			s := sample{header: headerOf(format.Values), sections: make([]format.Section, 1)}
			w := s.write(t, &b)
			var skip *format.SkipError
			for range 2 {
				if err := w.Entry(0, &tt.entry, tt.append); !errors.As(err, &skip) || tt.want != nil && !errors.Is(err, tt.want) {
					t.Fatalf("Entry: %v", err)
				}
				if err := w.Entry(0, &format.Entry{Key: []byte("k")}, value(5)); err != nil {
					t.Fatal(err)
				}
			}
			want := format.Counts{Entries: 2, Bytes: 12, Skipped: 2}
			if err := w.Close(); err != nil || w.Counts() != want {
				t.Fatalf("Close: %v, %+v", err, w.Counts())
			}
			recs, _, err := read(&b, format.Limits{})
			if err != io.EOF || len(recs) != 4 || recs[3].Counts != want {
				t.Fatalf("read %+v, %v", recs, err)
			}
		})
	}
}

func TestLargestEntryIsWrittenAndRead(t *testing.T) {
	e := format.Entry{Key: []byte("k"), Tags: slices.Repeat([]string{""}, format.MaxTags), Weight: 1, Fresh: format.Forever, Left: format.Forever, Age: format.Unknown}
	e.Value = make([]byte, format.MaxEntry-4-1-format.MaxTags) // flags, key, fresh; number of tags, tags
	s := sample{header: headerOf(format.Values), sections: make([]format.Section, 1), ops: []op{{entry: e}}}
	name := bytes.Repeat([]byte("k"), format.MaxPayload-10)
	s.ops = append(s.ops, op{drop: &format.Drop{Name: name}})
	recs, shown, err := read(bytes.NewReader(s.bytes(t)), format.Limits{})
	if got := bySection(recs, shown, 1); err != io.EOF || !reflect.DeepEqual(got, s.records()) {
		t.Errorf("%v, or other records", err)
	}
	w := s.write(t, io.Discard)
	e.Value = append(e.Value, 0)
	if err := w.Entry(0, &e, nil); !errors.Is(err, format.ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}

func TestPanicOfACodecLeavesTheWriterUsable(t *testing.T) {
	var b bytes.Buffer
	s := sample{header: headerOf(format.Values), sections: make([]format.Section, 1)}
	w := s.write(t, &b)
	e := format.Entry{Key: []byte("k"), Value: []byte("v")}
	func() {
		defer func() { recover() }()
		w.Entry(0, &e, func(b []byte) ([]byte, error) { panic(append(b, "half"...)) })
	}()
	if err := errors.Join(w.Entry(0, &e, nil), w.Close()); err != nil {
		t.Fatal(err)
	}
	if recs, _, err := read(&b, format.Limits{}); err != io.EOF || len(recs) != 3 {
		t.Fatalf("%+v, %v", recs, err)
	}
}

func TestAbortedSnapshotIsUsableUpToItsEnd(t *testing.T) {
	s := randomSample(rand.New(rand.NewPCG(3, 3)), 50, 100_000)
	for _, reason := range []string{"", "time is up", strings.Repeat("é", format.MaxReason)} {
		var b bytes.Buffer
		w := s.write(t, &b)
		if err := w.Abort(reason); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatalf("Close behind Abort: %v", err)
		}
		_, err := w.Section(format.Section{})
		for _, err := range []error{err, w.Flush(), w.Abort(""), w.DropAll(0, true)} {
			if err != format.ErrClosed {
				t.Fatalf("behind Abort: %v", err)
			}
		}
		recs, shown, err := read(&b, format.Limits{})
		if !errors.Is(err, format.ErrAborted) || len(recs) == 0 {
			t.Fatal(err)
		}
		last := recs[len(recs)-1]
		if last.Kind != format.KindAbort || last.Reason != reason[:min(len(reason), format.MaxReason)] {
			t.Fatalf("the last record is %+v", last)
		}
		got, want := bySection(recs[:len(recs)-1], shown, len(s.sections)), s.records()
		for i := range want {
			want[i] = want[i][:len(want[i])-1]
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("read\n%.1000q\nbut wrote\n%.1000q", got, want)
		}
	}
}

func TestWriterRefusesWrongCallsAndGoesOn(t *testing.T) {
	var b bytes.Buffer
	w := format.NewWriter(&b, headerOf(format.Keys))
	long := strings.Repeat("n", format.MaxName+1)
	for _, s := range []format.Section{{Name: long}, {Space: long}, {Codec: long}, {Position: make([]byte, format.MaxPosition+1)}} {
		if _, err := w.Section(s); !errors.Is(err, format.ErrTooLarge) {
			t.Errorf("Section: %v", err)
		}
	}
	w.Section(format.Section{Name: "a", Position: make([]byte, format.MaxPosition)})
	if err := w.Drop(0, strings.Repeat("k", format.MaxPayload), false); !errors.Is(err, format.ErrTooLarge) {
		t.Errorf("Drop: %v", err)
	}
	values := newWriter(t, io.Discard, format.Values)
	for name, err := range map[string]error{
		"Entry of keys": w.Entry(0, &format.Entry{}, nil), "Key": w.Key(1, "k"), "Drop": w.Drop(-1, "k", false),
		"Key of values": values.Key(0, "k"), "Entry": values.Entry(1, &format.Entry{}, nil),
	} {
		if !errors.Is(err, format.ErrUse) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.Key(0, "k"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Section(format.Section{}); !errors.Is(err, format.ErrUse) {
		t.Errorf("Section behind a key: %v", err)
	}
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if recs, _, err := read(&b, format.Limits{}); err != io.EOF || len(recs) != 3 {
		t.Fatalf("%+v, %v", recs, err)
	}
}

func TestLargestHeaderAndSectionsAreWrittenAndRead(t *testing.T) {
	h := format.Header{Version: format.Version, Created: time.UnixMilli(253402300799999), Stream: format.MaxStreams - 1, Streams: format.MaxStreams, Mode: format.Keys}
	name := strings.Repeat("n", format.MaxName)
	s := sample{header: h, sections: slices.Repeat([]format.Section{{}}, format.MaxSections)}
	s.sections[format.MaxSections-1] = format.Section{Name: name, Space: name, Codec: name, Position: make([]byte, format.MaxPosition)}
	var b bytes.Buffer
	w := s.write(t, &b)
	if _, err := w.Section(format.Section{}); !errors.Is(err, format.ErrUse) {
		t.Errorf("one section more: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := format.NewReader(bytes.NewReader(b.Bytes()), format.Limits{})
	if got, err := r.Header(); err != nil || got != h {
		t.Errorf("read %+v, %v; want %+v", got, err, h)
	}
	recs, shown, err := read(&b, format.Limits{})
	if got := bySection(recs, shown, format.MaxSections); err != io.EOF || !reflect.DeepEqual(got, s.records()) {
		t.Errorf("%v, or other sections", err)
	}
}

func TestShortestRecordsOfEverySectionAreWritten(t *testing.T) {
	s := sample{header: headerOf(format.Keys), sections: make([]format.Section, 300)}
	for i := range s.sections {
		s.ops = append(s.ops, op{section: i}, op{flush: true}, op{section: i, drop: &format.Drop{All: true}})
	}
	recs, shown, err := read(bytes.NewReader(s.bytes(t)), format.Limits{})
	if got := bySection(recs, shown, len(s.sections)); err != io.EOF || !reflect.DeepEqual(got, s.records()) {
		t.Errorf("%v, or other records", err)
	}
}

func TestWriterRefusesWrongHeaders(t *testing.T) {
	for _, change := range []func(*format.Header){
		func(h *format.Header) { h.Mode = 0 },
		func(h *format.Header) { h.Mode = 3 },
		func(h *format.Header) { h.Created = time.Time{} },
		func(h *format.Header) { h.Created = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) },
		func(h *format.Header) { h.Stream = -1 },
		func(h *format.Header) { h.Stream = 3 },
		func(h *format.Header) { h.Streams = format.MaxStreams + 1 },
	} {
		h := headerOf(format.Keys)
		change(&h)
		var b bytes.Buffer
		w := format.NewWriter(&b, h)
		if _, err := w.Section(format.Section{}); !errors.Is(err, format.ErrUse) || w.Close() != err || w.Abort("") != err || b.Len() > 0 {
			t.Errorf("%+v: %v", h, err)
		}
	}
}

// failing fails the Write with a number, or writes only a part of it. Later ones would
// succeed.
type failing struct {
	after int
	err   error
}

func (f *failing) Write(b []byte) (int, error) {
	if f.after--; f.after == -1 {
		return len(b) / 2, f.err
	}
	return len(b), nil
}

func TestFailedWriteEndsTheWriter(t *testing.T) {
	s := randomSample(rand.New(rand.NewPCG(4, 4)), 40, 100_000)
	full := errors.New("disk full")
	for n := range 1000 {
		for _, cause := range []error{full, nil} {
			w := format.NewWriter(&failing{n, cause}, s.header)
			for _, sec := range s.sections {
				w.Section(sec)
			}
			for _, o := range s.ops {
				s.call(w, o)
			}
			err := w.Close()
			if err == nil && n > 5 {
				return
			}
			if want := cause; err == nil || want != nil && err != want || want == nil && err != io.ErrShortWrite {
				t.Fatalf("Write %d fails with %v: Close returns %v", n, cause, err)
			}
			if w.Flush() != err || w.Abort("x") != err || w.DropAll(0, true) != err {
				t.Fatalf("Write %d: another error follows", n)
			}
		}
	}
	t.Fatal("no Write succeeds")
}

func TestRecordsOfASectionKeepTheirOrder(t *testing.T) {
	s := sample{header: headerOf(format.Keys), sections: make([]format.Section, 2)}
	for i := range 100 {
		s.ops = append(s.ops, op{section: i % 2, key: "k"}, op{section: i % 2, drop: &format.Drop{Name: []byte("k")}}, op{section: 1, key: fmt.Sprint(i)})
	}
	recs, shown, err := read(bytes.NewReader(s.bytes(t)), format.Limits{})
	if got := bySection(recs, shown, 2); err != io.EOF || !slices.EqualFunc(got, s.records(), slices.Equal) {
		t.Fatalf("%v, or another order:\n%q", err, got)
	}
}
