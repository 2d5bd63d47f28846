package format_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"reflect"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/format"
)

// unforge returns a snapshot in the form that FuzzReader takes: for each frame a byte
// of kind, two of length, and the payload. The checksums are added again.
func unforge(snapshot []byte) (data []byte) {
	for _, f := range splitFrames(snapshot)[1:] {
		data = append(data, f[0], f[1], f[2])
		data = append(data, f[8:]...)
	}
	return data
}

// frames is the counterpart of unforge for any bytes.
func framesOf(data []byte) (frames []string) {
	for len(data) >= 3 {
		n := min(int(binary.LittleEndian.Uint16(data[1:])), len(data)-3, format.MaxPayload)
		frames = append(frames, string(data[:1])+string(data[3:3+n]))
		data = data[3+n:]
	}
	return frames
}

// FuzzReader reads any bytes, and any frames with right checksums.
func FuzzReader(f *testing.F) {
	for _, b := range [][]byte{small(f, format.Keys), small(f, format.Values)} {
		f.Add(b, true)
		f.Add(unforge(b), false)
	}
	for _, frames := range [][]string{
		{sectionA, "\x05\x00\x06\x00\x01", "\x05k\x00", "\x05vv", "\x07\x00\x01\x03\x00\x00", "\x08\x01\x01\x03\x00\x00"},
		{keysHeader, sectionA, "\x04\x00\x01k\x00", "\x06\x00\x01\x01k\x02", "\x07\x00\x02\x01\x02\x05", "\x08\x01\x02\x01\x02\x05"},
		{"\x02\x00\x01a\x00\x00ffffffff\x02", "\x03p", "\x03p", "\x80", "\x09reason"},
	} {
		f.Add(forge(frames...), true)
		f.Add(unforge(forge(frames...)), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, raw bool) {
		if !raw {
			data = forge(framesOf(data)...)
		}
		recs, shown, err := read(bytes.NewReader(data), format.Limits{})
		if err != io.EOF && !typed(err) {
			t.Fatalf("an error without a place and a cause: %v", err)
		}
		_, kept, err2 := read(bytes.NewReader(data), format.Limits{Keep: true})
		_, pieces, err3 := read(iotest.OneByteReader(bytes.NewReader(data)), format.Limits{})
		if !slices.Equal(kept, shown) || !slices.Equal(pieces, shown) || !same(err, err2) || !same(err, err3) {
			t.Fatalf("%q, %v at once; %q, %v to keep; %q, %v by pieces", shown, err, kept, err2, pieces, err3)
		}
		if err == io.EOF {
			rewrite(t, data, recs, shown)
		}
	})
}

func same(a, b error) bool {
	return a.Error() == b.Error()
}

// rewrite writes the records that a whole snapshot has given, and reads them again.
func rewrite(t *testing.T, data []byte, recs []format.Record, shown []string) {
	t.Helper()
	r := format.NewReader(bytes.NewReader(data), format.Limits{Keep: true})
	h, err := r.Header()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, sections := format.NewWriter(&b, h), 0
	for i := range recs {
		rec, err := r.Next()
		if err == nil {
			err = copyRecord(w, rec)
		}
		if err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		if rec.Kind == format.KindSection {
			sections++
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	recs2, shown2, err := read(&b, format.Limits{})
	got, want := bySection(recs2, shown2, sections), bySection(recs, shown, sections)
	for i := range want {
		// The Writer has skipped nothing.
		want[i], got[i] = want[i][:len(want[i])-1], got[i][:len(got[i])-1]
	}
	if err != io.EOF || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v: read\n%q\nwrote\n%q", err, got, want)
	}
}

func copyRecord(w *format.Writer, rec format.Record) error {
	switch rec.Kind {
	case format.KindSection:
		_, err := w.Section(*rec.Section)
		return err
	case format.KindKey:
		return w.Key(rec.Index, string(rec.Key))
	case format.KindEntry:
		return w.Entry(rec.Index, rec.Entry, nil)
	case format.KindDrop:
		if rec.Drop.All {
			return w.DropAll(rec.Index, rec.Drop.Expire)
		}
		return w.Drop(rec.Index, string(rec.Drop.Name), rec.Drop.Expire)
	case format.KindSectionEnd:
		return nil
	}
	return errors.New("an unknown kind")
}

// script makes a sample of any bytes.
type script struct{ b []byte }

func (s *script) next() (n uint64) {
	n, size := binary.Uvarint(s.b)
	s.b = s.b[min(len(s.b), max(size, 1)):]
	return n
}

// text returns up to 63 bytes of the script, or now and then a long text.
func (s *script) text() []byte {
	n := int(s.next() & math.MaxInt32 >> 1)
	if n%64 == 63 {
		return bytes.Repeat([]byte{byte(n)}, n/64%(5*format.MaxPayload/4))
	}
	piece := s.b[:min(n%64, len(s.b))]
	s.b = s.b[len(piece):]
	return piece
}

func (s *script) entry() format.Entry {
	e := format.Entry{Key: s.text(), Fresh: format.Forever, Left: format.Forever, Weight: 1, Age: format.Unknown}
	flags := s.next()
	e.NotFound, e.Expired, e.Uses = flags&1 > 0, flags&2 > 0, int(flags>>2&3)
	if flags&16 > 0 {
		e.Fresh = time.Duration(s.next()%(1<<42)) * ms
	}
	if flags&32 > 0 {
		e.Fresh = -e.Fresh / 2 / ms * ms
	}
	if e.Fresh != format.Forever && flags&64 > 0 {
		e.Left = e.Fresh + time.Duration(s.next()%(1<<40))*ms
	}
	if flags&128 > 0 {
		e.ID, e.Weight, e.Age = s.next(), int64(s.next()>>1), time.Duration(s.next()%(1<<40))*ms
	}
	for range flags >> 8 % (format.MaxTags + 1) {
		e.Tags = append(e.Tags, string(s.text()))
	}
	if !e.NotFound {
		e.Value = s.text()
	}
	return e
}

func (s *script) sample() *sample {
	made := &sample{header: headerOf(format.Keys + format.Mode(s.next()%2))}
	for range 1 + s.next()%5 {
		name := func() string { b := s.text(); return string(b[:min(len(b), format.MaxName)]) }
		made.sections = append(made.sections, format.Section{Name: name(), Space: name(), Codec: name(), Fingerprint: s.next(), Position: s.text()})
	}
	for len(s.b) > 0 {
		kind := s.next()
		o := op{section: int(kind/16) % len(made.sections)}
		switch {
		case kind%16 == 0:
			o.flush = true
		case kind%16 < 3:
			o.drop = &format.Drop{Name: s.text(), Expire: kind%16 == 1}
			o.drop.Name = o.drop.Name[:min(len(o.drop.Name), 60_000)]
		case kind%16 == 3:
			o.drop = &format.Drop{All: true}
		case made.header.Mode == format.Keys:
			o.key = string(s.text())
		default:
			o.entry = s.entry()
		}
		made.ops = append(made.ops, o)
	}
	return made
}

// FuzzRoundTrip writes a snapshot that the data describe, reads it, and reads it with
// one bit flipped and with its end cut off.
func FuzzRoundTrip(f *testing.F) {
	for _, b := range [][]byte{small(f, format.Keys), small(f, format.Values)} {
		f.Add(b, uint32(12_345))
	}
	f.Add([]byte("\x00\x00\x02ab\x01c\x00\x05\x03pos\x04\x03key\x14\x04keys\x01\x02ab\x03\x00\x04\xbf\x84\x3d"), uint32(0))
	f.Add([]byte("\x01\x01\x02ab\x01c\x00\x05\x03pos\x01a\x00\x00\x06\x00\x04\x03key\xff\x03\x99\x01\x09\x07\x08\x09\x01t\x02tt\x03val\x14\x01k\x10\x80\x10\xbf\x84\x3d"), uint32(99))
	f.Fuzz(func(t *testing.T, data []byte, place uint32) {
		s := (&script{data}).sample()
		b := s.bytes(t)
		recs, shown, err := read(bytes.NewReader(b), format.Limits{})
		if got, want := bySection(recs, shown, len(s.sections)), s.records(); err != io.EOF || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v: read\n%q\nwrote\n%q", err, got, want)
		}
		flipped(t, b, int(place)%(8*len(b)), shown)
		if _, got, err := read(bytes.NewReader(b[:int(place)%len(b)]), format.Limits{}); !errors.Is(err, format.ErrTruncated) || !isPrefix(got, shown) {
			t.Fatalf("cut to %d bytes: %q, %v", int(place)%len(b), got, err)
		}
	})
}
