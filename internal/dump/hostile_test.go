package dump_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/dump"
)

// forge returns a snapshot of frames that a Writer would not write, each a kind and a
// payload, with right checksums. The header is one of mode Values if there is none.
func forge(frames ...string) []byte {
	if len(frames) == 0 || frames[0][0] != 1 {
		frames = slices.Insert(slices.Clone(frames), 0, "\x01\x01\x00\x00\x01\x02"+sixteen)
	}
	return forgeAll(frames...)
}

// forgeAll is forge without a header of its own.
func forgeAll(frames ...string) []byte {
	table := crc32.MakeTable(crc32.Castagnoli)
	out, seed := []byte("STRATA\r\n"), uint32(0)
	for i, f := range frames {
		n := len(f) - 1
		place := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, seed), uint64(i))
		place = append(place, f[0], byte(n), byte(n>>8), byte(n>>16))
		sum := crc32.Checksum(append(place, f[1:]...), table)
		if i == 0 {
			seed = sum
		}
		out = append(binary.LittleEndian.AppendUint32(append(out, place[12:]...), sum), f[1:]...)
	}
	return out
}

func uvarint(n uint64) string { return string(binary.AppendUvarint(nil, n)) }

// The frames of forged snapshots.
const (
	keysHeader = "\x01\x01\x00\x00\x01\x01iiiiiiiiiiiiiiii"
	sectionA   = "\x02\x00\x01a\x00\x00ffffffff\x00"
	endOfNone  = "\x07\x00\x00\x00\x00\x00"
	trailer    = "\x08\x01\x00\x00\x00\x00"
	// entry is one of the section: flags, key "k", no end, value "v".
	entry = "\x00\x01k\x00\x01\x00\x00v"
)

func TestForgedSnapshotReads(t *testing.T) {
	skipped := "\x80anything"
	for name, frames := range map[string][]string{
		"no section":  {"\x08\x00\x00\x00\x00\x00"},
		"no entry":    {sectionA, endOfNone, trailer},
		"entry":       {sectionA, "\x04\x00" + entry, "\x07\x00\x01\x02\x00\x00", "\x08\x01\x01\x02\x00\x00"},
		"part":        {sectionA, "\x05\x00\x06\x00\x01", "\x05k\x00", "\x05vv", "\x07\x00\x01\x03\x00\x00", "\x08\x01\x01\x03\x00\x00"},
		"drop":        {sectionA, "\x06\x00\x01\x01k\x02", "\x07\x00\x00\x00\x02\x05", "\x08\x01\x00\x00\x02\x05"},
		"keys":        {keysHeader, sectionA, "\x04\x00\x01k\x00", "\x07\x00\x02\x01\x00\x00", "\x08\x01\x02\x01\x00\x00"},
		"later kinds": {skipped, sectionA, "\xff", skipped, endOfNone, skipped, trailer},
	} {
		if recs, _, err := read(bytes.NewReader(forge(frames...)), dump.Limits{}); err != io.EOF {
			t.Errorf("%s: %+v, %v", name, recs, err)
		}
	}
}

// hostile is a snapshot whose frames have right checksums but are wrong.
type hostile struct {
	name   string
	cause  error
	frames []string
}

// huge is the largest number, and sixteen an ID.
const (
	huge    = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
	sixteen = "iiiiiiiiiiiiiiii"
)

func refuse(t *testing.T, all []hostile) {
	t.Helper()
	for _, h := range all {
		for _, keep := range []bool{false, true} {
			_, shown, err := read(bytes.NewReader(forge(h.frames...)), dump.Limits{Keep: keep})
			if !errors.Is(err, h.cause) || !typed(err) || len(shown) > 3 {
				t.Errorf("%s: %v, want %v", h.name, err, h.cause)
			}
		}
	}
}

func TestHostileFramesAreRefused(t *testing.T) {
	refuse(t, []hostile{
		{"header: version 2", dump.ErrVersion, []string{"\x01\x02 of another form"}},
		{"header: huge version", dump.ErrVersion, []string{"\x01" + huge}},
		{"header: version 0", dump.ErrCorrupt, []string{"\x01\x00\x00\x00\x01\x02" + sixteen}},
		{"header: empty", dump.ErrCorrupt, []string{"\x01"}},
		{"header: mode 0", dump.ErrCorrupt, []string{"\x01\x01\x00\x00\x01\x00" + sixteen}},
		{"header: mode 3", dump.ErrCorrupt, []string{"\x01\x01\x00\x00\x01\x03" + sixteen}},
		{"header: no streams", dump.ErrCorrupt, []string{"\x01\x01\x00\x00\x00\x02" + sixteen}},
		{"header: stream 1 of 1", dump.ErrCorrupt, []string{"\x01\x01\x00\x01\x01\x02" + sixteen}},
		{"header: huge streams", dump.ErrCorrupt, []string{"\x01\x01\x00\x00" + huge + "\x02" + sixteen}},
		{"header: huge time", dump.ErrCorrupt, []string{"\x01\x01" + huge + "\x00\x01\x02" + sixteen}},
		{"header: short ID", dump.ErrCorrupt, []string{"\x01\x01\x00\x00\x01\x02i"}},
		{"header: long", dump.ErrCorrupt, []string{"\x01\x01\x00\x00\x01\x02" + sixteen + "i"}},
		{"second header", dump.ErrCorrupt, []string{"\x01\x01\x00\x00\x01\x02" + sixteen, "\x01\x01\x00\x00\x01\x02" + sixteen}},
		{"frame over 64 KiB", dump.ErrCorrupt, []string{"\x80" + strings.Repeat("x", dump.MaxPayload+1)}},
		{"kind 0", dump.ErrCorrupt, []string{"\x00"}},
		{"kind 10", dump.ErrVersion, []string{"\x0a"}},
		{"kind 127", dump.ErrVersion, []string{sectionA, "\x7f"}},
		{"section: empty", dump.ErrCorrupt, []string{"\x02"}},
		{"section: index 1 first", dump.ErrCorrupt, []string{"\x02\x01\x01a\x00\x00ffffffff\x00"}},
		{"section: twice", dump.ErrCorrupt, []string{sectionA, sectionA}},
		{"section: huge index", dump.ErrCorrupt, []string{"\x02" + huge + "\x01a\x00\x00ffffffff\x00"}},
		{"section: huge name", dump.ErrCorrupt, []string{"\x02\x00" + huge + "a"}},
		{"section: long name", dump.ErrCorrupt, []string{"\x02\x00" + uvarint(dump.MaxName+1) + strings.Repeat("n", dump.MaxName+1) + "\x00\x00ffffffff\x00"}},
		{"section: name over the end", dump.ErrCorrupt, []string{"\x02\x00\x40a"}},
		{"section: more behind", dump.ErrCorrupt, []string{sectionA + "x"}},
		{"section: behind entries", dump.ErrCorrupt, []string{sectionA, "\x04\x00" + entry, "\x02\x01\x01b\x00\x00ffffffff\x00"}},
		{"position: huge", dump.ErrCorrupt, []string{"\x02\x00\x01a\x00\x00ffffffff" + huge}},
		{"position: too long", dump.ErrCorrupt, []string{"\x02\x00\x01a\x00\x00ffffffff" + uvarint(dump.MaxPosition+1)}},
		{"position: without a section", dump.ErrCorrupt, []string{"\x03p"}},
		{"position: unasked", dump.ErrCorrupt, []string{sectionA, "\x03p"}},
		{"position: interrupted", dump.ErrCorrupt, []string{"\x02\x00\x01a\x00\x00ffffffff\x02", "\x03p", "\x80", "\x03p"}},
		{"position: empty piece", dump.ErrCorrupt, []string{"\x02\x00\x01a\x00\x00ffffffff\x02", "\x03"}},
		{"position: longer than said", dump.ErrCorrupt, []string{"\x02\x00\x01a\x00\x00ffffffff\x02", "\x03ppp"}},
		{"end: no section", dump.ErrCorrupt, []string{endOfNone}},
		{"end: twice", dump.ErrCorrupt, []string{sectionA, endOfNone, endOfNone}},
		{"end: cut", dump.ErrCorrupt, []string{sectionA, "\x07\x00\x00\x00\x00"}},
		{"end: long", dump.ErrCorrupt, []string{sectionA, endOfNone + "\x00"}},
		{"end: one entry too many", dump.ErrCounts, []string{sectionA, "\x07\x00\x01\x00\x00\x00"}},
		{"end: other bytes", dump.ErrCounts, []string{sectionA, "\x04\x00" + entry, "\x07\x00\x01\x03\x00\x00"}},
		{"end: a drop is missing", dump.ErrCounts, []string{sectionA, "\x07\x00\x00\x00\x01\x00"}},
		{"end: behind it a section", dump.ErrCorrupt, []string{sectionA, endOfNone, "\x02\x01\x01b\x00\x00ffffffff\x00"}},
		{"trailer: section without an end", dump.ErrCorrupt, []string{sectionA, trailer}},
		{"trailer: cut", dump.ErrCorrupt, []string{sectionA, endOfNone, trailer[:4]}},
		{"trailer: long", dump.ErrCorrupt, []string{sectionA, endOfNone, trailer + "\x00"}},
		{"trailer: two sections", dump.ErrCounts, []string{sectionA, endOfNone, "\x08\x02\x00\x00\x00\x00"}},
		{"trailer: one entry too many", dump.ErrCounts, []string{sectionA, endOfNone, "\x08\x01\x01\x00\x00\x00"}},
		{"trailer: one skipped too few", dump.ErrCounts, []string{sectionA, "\x07\x00\x00\x00\x00\x01", trailer}},
		{"trailer: twice", dump.ErrCorrupt, []string{sectionA, endOfNone, trailer, trailer}},
		{"trailer: behind it a later kind", dump.ErrCorrupt, []string{sectionA, endOfNone, trailer, "\x80"}},
		{"abort: long reason", dump.ErrCorrupt, []string{sectionA, "\x09" + strings.Repeat("r", dump.MaxReason+1)}},
	})
}

func TestHostileRecordsAreRefused(t *testing.T) {
	value := func(record string) []string { return []string{sectionA, "\x04\x00" + record} }
	key := func(record string) []string { return []string{keysHeader, sectionA, "\x04\x00" + record} }
	refuse(t, []hostile{
		{"entries: no section", dump.ErrCorrupt, []string{"\x04\x00" + entry}},
		{"entries: section 1 of 1", dump.ErrCorrupt, []string{sectionA, "\x04\x01" + entry}},
		{"entries: huge section", dump.ErrCorrupt, []string{sectionA, "\x04" + huge + entry}},
		{"entries: section in a long form", dump.ErrCorrupt, []string{sectionA, "\x04\x80\x00" + entry}},
		{"entries: none", dump.ErrCorrupt, []string{sectionA, "\x04\x00"}},
		{"entries: behind the end", dump.ErrCorrupt, []string{sectionA, endOfNone, "\x04\x00" + entry}},
		{"entry: second is cut", dump.ErrCorrupt, value(entry + entry[:5])},
		{"entry: huge key", dump.ErrCorrupt, value("\x00" + huge + "k\x00\x01\x00\x00v")},
		{"entry: key in a long form", dump.ErrCorrupt, value("\x00\x81\x00k\x00\x01\x00\x00v")},
		{"entry: value over the end", dump.ErrCorrupt, value("\x00\x01k\x00\x02\x00\x00v")},
		{"entry: huge value", dump.ErrCorrupt, value("\x00\x01k\x00\xff\xff\xffv")},
		{"entry: not found, with a value", dump.ErrCorrupt, value("\x01\x01k\x00\x01\x00\x00v")},
		{"entry: huge fresh", dump.ErrCorrupt, value("\x00\x01k" + huge + "\x00\x01\x00\x00v")},
		{"entry: fresh of 293 years", dump.ErrCorrupt, value("\x00\x01k" + uvarint(2*9_300_000_000_000+1) + "\x00\x01\x00\x00v")},
		{"entry: fresh ended 293 years ago", dump.ErrCorrupt, value("\x00\x01k" + uvarint(2*9_300_000_000_000) + "\x00\x01\x00\x00v")},
		{"entry: huge left", dump.ErrCorrupt, value("\x00\x01k\x01" + huge + "\x01\x00\x00v")},
		{"entry: left over the range", dump.ErrCorrupt, value("\x00\x01k" + uvarint(2*9_000_000_000_000+1) + uvarint(9_000_000_000_000) + "\x01\x00\x00v")},
		{"entry: no ID", dump.ErrCorrupt, value("\x08\x01k\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00v")},
		{"entry: weight 1 with its flag", dump.ErrCorrupt, value("\x10\x01k\x00\x01\x01\x00\x00v")},
		{"entry: huge weight", dump.ErrCorrupt, value("\x10\x01k\x00" + huge + "\x01\x00\x00v")},
		{"entry: huge age", dump.ErrCorrupt, value("\x20\x01k\x00" + huge + "\x01\x00\x00v")},
		{"entry: no tags with their flag", dump.ErrCorrupt, value("\x04\x01k\x00\x00\x01\x00\x00v")},
		{"entry: 65 tags", dump.ErrCorrupt, value("\x04\x01k\x00\x41" + strings.Repeat("\x00", 65) + "\x01\x00\x00v")},
		{"entry: huge number of tags", dump.ErrCorrupt, value("\x04\x01k\x00" + huge)},
		{"entry: huge tag", dump.ErrCorrupt, value("\x04\x01k\x00\x01" + huge + "t\x01\x00\x00v")},
		{"key: huge", dump.ErrCorrupt, key(huge + "k")},
		{"key: cut", dump.ErrCorrupt, key("\x01k\x02k")},
		{"part: no section", dump.ErrCorrupt, []string{"\x05\x00\x05\x00\x01k\x00v"}},
		{"part: of nothing", dump.ErrCorrupt, []string{sectionA, "\x05\x00\x00"}},
		{"part: without bytes", dump.ErrCorrupt, []string{sectionA, "\x05\x00\x05"}},
		{"part: huge", dump.ErrTooLarge, []string{sectionA, "\x05\x00" + huge + "k"}},
		{"part: over the limit", dump.ErrTooLarge, []string{sectionA, "\x05\x00" + uvarint(dump.MaxEntry+1) + "k"}},
		{"part: longer than said", dump.ErrCorrupt, []string{sectionA, "\x05\x00\x04\x00\x01k\x00v"}},
		{"part: empty piece", dump.ErrCorrupt, []string{sectionA, "\x05\x00\x05\x00", "\x05"}},
		{"part: second is too long", dump.ErrCorrupt, []string{sectionA, "\x05\x00\x05\x00", "\x05\x01k\x00vv"}},
		{"part: interrupted by a later kind", dump.ErrCorrupt, []string{sectionA, "\x05\x00\x05\x00", "\x80", "\x05\x01k\x00v"}},
		{"part: interrupted by entries", dump.ErrCorrupt, []string{sectionA, "\x05\x00\x05\x00", "\x04\x00" + entry}},
		{"part: malformed entry", dump.ErrCorrupt, []string{sectionA, "\x05\x00\x05\x00\x09k\x00v"}},
		{"part: two entries", dump.ErrCorrupt, []string{sectionA, "\x05\x00\x08\x01\x01k\x00\x01\x01k\x00"}},
		{"part: two keys", dump.ErrCorrupt, []string{keysHeader, sectionA, "\x05\x00\x04\x01k\x01k"}},
		{"drops: none", dump.ErrCorrupt, []string{sectionA, "\x06\x00"}},
		{"drops: unknown flag", dump.ErrCorrupt, []string{sectionA, "\x06\x00\x04\x01k"}},
		{"drops: huge name", dump.ErrCorrupt, []string{sectionA, "\x06\x00\x00" + huge + "k"}},
	})
}

func TestFirstFrameIsTheHeader(t *testing.T) {
	for _, first := range []string{"\x80", sectionA, trailer, "\x09aborted", "\x02\x01\x00\x00\x01\x02" + sixteen} {
		r := dump.NewReader(bytes.NewReader(forgeAll(first, keysHeader, trailer)), dump.Limits{})
		_, err := r.Header()
		if _, again := r.Next(); !errors.Is(err, dump.ErrCorrupt) || !typed(err) || again != err {
			t.Errorf("a frame of kind %d before the header: %v, then %v", first[0], err, again)
		}
	}
}

func TestNothingOfABadFrameIsReturned(t *testing.T) {
	b := forge(sectionA, "\x04\x00"+strings.Repeat(entry, 100)+entry[:5])
	recs, _, err := read(bytes.NewReader(b), dump.Limits{})
	if !errors.Is(err, dump.ErrCorrupt) || len(recs) != 1 {
		t.Errorf("%d records, %v", len(recs), err)
	}
}

func TestErrorSaysWhere(t *testing.T) {
	b := forge(sectionA, "\x80", "\x04\x00"+entry[:5])
	_, _, err := read(bytes.NewReader(b), dump.Limits{})
	var e *dump.Error
	if !errors.As(err, &e) || e.Frame != 3 || e.Offset != int64(len(b)-14) || e.Section != "a" {
		t.Fatalf("%+v", e)
	}
	want := fmt.Sprintf(`frame 3 at byte %d, section "a": snapshot is damaged: malformed record`, len(b)-14)
	if err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestMoreSectionsThanAllowedAreRefused(t *testing.T) {
	var frames []string
	for i := range dump.MaxSections + 1 {
		frames = append(frames, "\x02"+uvarint(uint64(i))+"\x01a\x00\x00ffffffff\x00")
	}
	recs, _, err := read(bytes.NewReader(forge(frames...)), dump.Limits{})
	if !errors.Is(err, dump.ErrCorrupt) || len(recs) != dump.MaxSections {
		t.Errorf("%d sections, %v", len(recs), err)
	}
}

func TestPositionsOfAllSectionsAreBounded(t *testing.T) {
	s := sample{header: headerOf(dump.Keys)}
	for range dump.MaxPositions / dump.MaxPosition {
		s.sections = append(s.sections, dump.Section{Position: make([]byte, dump.MaxPosition)})
	}
	var b bytes.Buffer
	w := s.write(t, &b)
	if _, err := w.Section(dump.Section{Position: []byte("p")}); !errors.Is(err, dump.ErrTooLarge) {
		t.Errorf("Writer: %v", err)
	}
	frames := []string{}
	for i, f := range splitFrames(b.Bytes())[1:] {
		frames = append(frames, string(f[:1])+string(f[8:]))
		_ = i
	}
	frames = append(frames, "\x02"+uvarint(uint64(len(s.sections)))+"\x00\x00\x00ffffffff\x01")
	recs, _, err := read(bytes.NewReader(forge(frames...)), dump.Limits{})
	if !errors.Is(err, dump.ErrTooLarge) || len(recs) != len(s.sections) {
		t.Errorf("Reader: %d sections, %v", len(recs), err)
	}
}

func TestLimitOfEntriesIsKept(t *testing.T) {
	for _, n := range []int{1000, 100_000, 1_000_000} {
		s := sample{header: headerOf(dump.Values), sections: make([]dump.Section, 1)}
		s.ops = []op{{entry: dump.Entry{Value: make([]byte, n), Weight: 1, Age: dump.Unknown, Fresh: dump.Forever, Left: dump.Forever}}}
		b := s.bytes(t)
		head := 3 // flags, key, fresh
		if n < dump.MaxPayload {
			head += 3
		}
		for limit, want := range map[int]error{n + head: io.EOF, n + head - 1: dump.ErrTooLarge} {
			if _, _, err := read(bytes.NewReader(b), dump.Limits{MaxEntry: limit}); !errors.Is(err, want) {
				t.Errorf("value of %d bytes, limit %d: %v, want %v", n, limit, err, want)
			}
		}
	}
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestClaimsTakeNoMemory reads claims of many bytes of which few come.
func TestClaimsTakeNoMemory(t *testing.T) {
	for name, frames := range map[string][]string{
		"part":     {sectionA, "\x05\x00" + uvarint(dump.MaxEntry) + "k"},
		"position": {"\x02\x00\x01a\x00\x00ffffffff" + uvarint(dump.MaxPosition), "\x03p"},
		"tags":     {sectionA, "\x04\x00\x04\x01k\x00\x40" + strings.Repeat("\x00", 63)},
		"frame":    {sectionA},
	} {
		b := forge(frames...)
		if name == "frame" {
			b = append(b, "\x04\xf8\xff\x00sum."...)
		}
		for _, keep := range []bool{false, true} {
			var err error
			n := allocated(func() { _, _, err = read(bytes.NewReader(b), dump.Limits{Keep: keep, MaxEntry: math.MaxInt}) })
			if !typed(err) || n > 3<<16 {
				t.Errorf("%s: %d bytes allocated for %d, %v", name, n, len(b), err)
			}
		}
	}
}

// TestMemoryFollowsTheBytesOfALongEntry reads the first bytes of an entry of 64 MiB.
func TestMemoryFollowsTheBytesOfALongEntry(t *testing.T) {
	frames := []string{sectionA, "\x05\x00" + uvarint(dump.MaxEntry) + "\x00\x00"}
	for range 32 {
		frames = append(frames, "\x05"+strings.Repeat("v", dump.MaxPayload))
	}
	b := forge(frames...)
	n := allocated(func() { read(bytes.NewReader(b), dump.Limits{}) })
	if n > uint64(5*len(b)) {
		t.Errorf("%d bytes allocated for %d", n, len(b))
	}
}
