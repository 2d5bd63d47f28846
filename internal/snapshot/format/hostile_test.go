package format_test

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

	"github.com/strata-cache/strata/internal/snapshot/format"
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
		if recs, _, err := read(bytes.NewReader(forge(frames...)), format.Limits{}); err != io.EOF {
			t.Errorf("%s: %+v, %v", name, recs, err)
		}
	}
}

// hostile is a snapshot of wrong frames with right checksums.
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
			_, shown, err := read(bytes.NewReader(forge(h.frames...)), format.Limits{Keep: keep})
			if !errors.Is(err, h.cause) || !typed(err) || len(shown) > 3 {
				t.Errorf("%s: %v, want %v", h.name, err, h.cause)
			}
		}
	}
}

func TestHostileFramesAreRefused(t *testing.T) {
	refuse(t, []hostile{
		{"header: version 2", format.ErrVersion, []string{"\x01\x02 of another form"}},
		{"header: huge version", format.ErrVersion, []string{"\x01" + huge}},
		{"header: version 0", format.ErrCorrupt, []string{"\x01\x00\x00\x00\x01\x02" + sixteen}},
		{"header: empty", format.ErrCorrupt, []string{"\x01"}},
		{"header: mode 0", format.ErrCorrupt, []string{"\x01\x01\x00\x00\x01\x00" + sixteen}},
		{"header: mode 3", format.ErrCorrupt, []string{"\x01\x01\x00\x00\x01\x03" + sixteen}},
		{"header: no streams", format.ErrCorrupt, []string{"\x01\x01\x00\x00\x00\x02" + sixteen}},
		{"header: stream 1 of 1", format.ErrCorrupt, []string{"\x01\x01\x00\x01\x01\x02" + sixteen}},
		{"header: huge streams", format.ErrCorrupt, []string{"\x01\x01\x00\x00" + huge + "\x02" + sixteen}},
		{"header: huge time", format.ErrCorrupt, []string{"\x01\x01" + huge + "\x00\x01\x02" + sixteen}},
		{"header: short ID", format.ErrCorrupt, []string{"\x01\x01\x00\x00\x01\x02i"}},
		{"header: long", format.ErrCorrupt, []string{"\x01\x01\x00\x00\x01\x02" + sixteen + "i"}},
		{"second header", format.ErrCorrupt, []string{"\x01\x01\x00\x00\x01\x02" + sixteen, "\x01\x01\x00\x00\x01\x02" + sixteen}},
		{"frame over 64 KiB", format.ErrCorrupt, []string{"\x80" + strings.Repeat("x", format.MaxPayload+1)}},
		{"kind 0", format.ErrCorrupt, []string{"\x00"}},
		{"kind 10", format.ErrVersion, []string{"\x0a"}},
		{"kind 127", format.ErrVersion, []string{sectionA, "\x7f"}},
		{"section: empty", format.ErrCorrupt, []string{"\x02"}},
		{"section: index 1 first", format.ErrCorrupt, []string{"\x02\x01\x01a\x00\x00ffffffff\x00"}},
		{"section: twice", format.ErrCorrupt, []string{sectionA, sectionA}},
		{"section: huge index", format.ErrCorrupt, []string{"\x02" + huge + "\x01a\x00\x00ffffffff\x00"}},
		{"section: huge name", format.ErrCorrupt, []string{"\x02\x00" + huge + "a"}},
		{"section: long name", format.ErrCorrupt, []string{"\x02\x00" + uvarint(format.MaxName+1) + strings.Repeat("n", format.MaxName+1) + "\x00\x00ffffffff\x00"}},
		{"section: name over the end", format.ErrCorrupt, []string{"\x02\x00\x40a"}},
		{"section: more behind", format.ErrCorrupt, []string{sectionA + "x"}},
		{"section: behind entries", format.ErrCorrupt, []string{sectionA, "\x04\x00" + entry, "\x02\x01\x01b\x00\x00ffffffff\x00"}},
		{"position: huge", format.ErrCorrupt, []string{"\x02\x00\x01a\x00\x00ffffffff" + huge}},
		{"position: too long", format.ErrCorrupt, []string{"\x02\x00\x01a\x00\x00ffffffff" + uvarint(format.MaxPosition+1)}},
		{"position: without a section", format.ErrCorrupt, []string{"\x03p"}},
		{"position: unasked", format.ErrCorrupt, []string{sectionA, "\x03p"}},
		{"position: interrupted", format.ErrCorrupt, []string{"\x02\x00\x01a\x00\x00ffffffff\x02", "\x03p", "\x80", "\x03p"}},
		{"position: empty piece", format.ErrCorrupt, []string{"\x02\x00\x01a\x00\x00ffffffff\x02", "\x03"}},
		{"position: longer than said", format.ErrCorrupt, []string{"\x02\x00\x01a\x00\x00ffffffff\x02", "\x03ppp"}},
		{"end: no section", format.ErrCorrupt, []string{endOfNone}},
		{"end: twice", format.ErrCorrupt, []string{sectionA, endOfNone, endOfNone}},
		{"end: cut", format.ErrCorrupt, []string{sectionA, "\x07\x00\x00\x00\x00"}},
		{"end: long", format.ErrCorrupt, []string{sectionA, endOfNone + "\x00"}},
		{"end: one entry too many", format.ErrCounts, []string{sectionA, "\x07\x00\x01\x00\x00\x00"}},
		{"end: other bytes", format.ErrCounts, []string{sectionA, "\x04\x00" + entry, "\x07\x00\x01\x03\x00\x00"}},
		{"end: a drop is missing", format.ErrCounts, []string{sectionA, "\x07\x00\x00\x00\x01\x00"}},
		{"end: behind it a section", format.ErrCorrupt, []string{sectionA, endOfNone, "\x02\x01\x01b\x00\x00ffffffff\x00"}},
		{"trailer: section without an end", format.ErrCorrupt, []string{sectionA, trailer}},
		{"trailer: cut", format.ErrCorrupt, []string{sectionA, endOfNone, trailer[:4]}},
		{"trailer: long", format.ErrCorrupt, []string{sectionA, endOfNone, trailer + "\x00"}},
		{"trailer: two sections", format.ErrCounts, []string{sectionA, endOfNone, "\x08\x02\x00\x00\x00\x00"}},
		{"trailer: one entry too many", format.ErrCounts, []string{sectionA, endOfNone, "\x08\x01\x01\x00\x00\x00"}},
		{"trailer: one skipped too few", format.ErrCounts, []string{sectionA, "\x07\x00\x00\x00\x00\x01", trailer}},
		{"trailer: twice", format.ErrCorrupt, []string{sectionA, endOfNone, trailer, trailer}},
		{"trailer: behind it a later kind", format.ErrCorrupt, []string{sectionA, endOfNone, trailer, "\x80"}},
		{"abort: long reason", format.ErrCorrupt, []string{sectionA, "\x09" + strings.Repeat("r", format.MaxReason+1)}},
	})
}

func TestHostileRecordsAreRefused(t *testing.T) {
	value := func(record string) []string { return []string{sectionA, "\x04\x00" + record} }
	key := func(record string) []string { return []string{keysHeader, sectionA, "\x04\x00" + record} }
	refuse(t, []hostile{
		{"entries: no section", format.ErrCorrupt, []string{"\x04\x00" + entry}},
		{"entries: section 1 of 1", format.ErrCorrupt, []string{sectionA, "\x04\x01" + entry}},
		{"entries: huge section", format.ErrCorrupt, []string{sectionA, "\x04" + huge + entry}},
		{"entries: section in a long form", format.ErrCorrupt, []string{sectionA, "\x04\x80\x00" + entry}},
		{"entries: none", format.ErrCorrupt, []string{sectionA, "\x04\x00"}},
		{"entries: behind the end", format.ErrCorrupt, []string{sectionA, endOfNone, "\x04\x00" + entry}},
		{"entry: second is cut", format.ErrCorrupt, value(entry + entry[:5])},
		{"entry: huge key", format.ErrCorrupt, value("\x00" + huge + "k\x00\x01\x00\x00v")},
		{"entry: key in a long form", format.ErrCorrupt, value("\x00\x81\x00k\x00\x01\x00\x00v")},
		{"entry: value over the end", format.ErrCorrupt, value("\x00\x01k\x00\x02\x00\x00v")},
		{"entry: huge value", format.ErrCorrupt, value("\x00\x01k\x00\xff\xff\xffv")},
		{"entry: not found, with a value", format.ErrCorrupt, value("\x01\x01k\x00\x01\x00\x00v")},
		{"entry: huge fresh", format.ErrCorrupt, value("\x00\x01k" + huge + "\x00\x01\x00\x00v")},
		{"entry: fresh of 293 years", format.ErrCorrupt, value("\x00\x01k" + uvarint(2*9_300_000_000_000+1) + "\x00\x01\x00\x00v")},
		{"entry: fresh ended 293 years ago", format.ErrCorrupt, value("\x00\x01k" + uvarint(2*9_300_000_000_000) + "\x00\x01\x00\x00v")},
		{"entry: huge left", format.ErrCorrupt, value("\x00\x01k\x01" + huge + "\x01\x00\x00v")},
		{"entry: left over the range", format.ErrCorrupt, value("\x00\x01k" + uvarint(2*9_000_000_000_000+1) + uvarint(9_000_000_000_000) + "\x01\x00\x00v")},
		{"entry: no ID", format.ErrCorrupt, value("\x08\x01k\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00v")},
		{"entry: weight 1 with its flag", format.ErrCorrupt, value("\x10\x01k\x00\x01\x01\x00\x00v")},
		{"entry: huge weight", format.ErrCorrupt, value("\x10\x01k\x00" + huge + "\x01\x00\x00v")},
		{"entry: huge age", format.ErrCorrupt, value("\x20\x01k\x00" + huge + "\x01\x00\x00v")},
		{"entry: no tags with their flag", format.ErrCorrupt, value("\x04\x01k\x00\x00\x01\x00\x00v")},
		{"entry: 65 tags", format.ErrCorrupt, value("\x04\x01k\x00\x41" + strings.Repeat("\x00", 65) + "\x01\x00\x00v")},
		{"entry: huge number of tags", format.ErrCorrupt, value("\x04\x01k\x00" + huge)},
		{"entry: huge tag", format.ErrCorrupt, value("\x04\x01k\x00\x01" + huge + "t\x01\x00\x00v")},
		{"key: huge", format.ErrCorrupt, key(huge + "k")},
		{"key: cut", format.ErrCorrupt, key("\x01k\x02k")},
		{"part: no section", format.ErrCorrupt, []string{"\x05\x00\x05\x00\x01k\x00v"}},
		{"part: of nothing", format.ErrCorrupt, []string{sectionA, "\x05\x00\x00"}},
		{"part: without bytes", format.ErrCorrupt, []string{sectionA, "\x05\x00\x05"}},
		{"part: huge", format.ErrTooLarge, []string{sectionA, "\x05\x00" + huge + "k"}},
		{"part: over the limit", format.ErrTooLarge, []string{sectionA, "\x05\x00" + uvarint(format.MaxEntry+1) + "k"}},
		{"part: longer than said", format.ErrCorrupt, []string{sectionA, "\x05\x00\x04\x00\x01k\x00v"}},
		{"part: empty piece", format.ErrCorrupt, []string{sectionA, "\x05\x00\x05\x00", "\x05"}},
		{"part: second is too long", format.ErrCorrupt, []string{sectionA, "\x05\x00\x05\x00", "\x05\x01k\x00vv"}},
		{"part: interrupted by a later kind", format.ErrCorrupt, []string{sectionA, "\x05\x00\x05\x00", "\x80", "\x05\x01k\x00v"}},
		{"part: interrupted by entries", format.ErrCorrupt, []string{sectionA, "\x05\x00\x05\x00", "\x04\x00" + entry}},
		{"part: malformed entry", format.ErrCorrupt, []string{sectionA, "\x05\x00\x05\x00\x09k\x00v"}},
		{"part: two entries", format.ErrCorrupt, []string{sectionA, "\x05\x00\x08\x01\x01k\x00\x01\x01k\x00"}},
		{"part: two keys", format.ErrCorrupt, []string{keysHeader, sectionA, "\x05\x00\x04\x01k\x01k"}},
		{"drops: none", format.ErrCorrupt, []string{sectionA, "\x06\x00"}},
		{"drops: unknown flag", format.ErrCorrupt, []string{sectionA, "\x06\x00\x04\x01k"}},
		{"drops: huge name", format.ErrCorrupt, []string{sectionA, "\x06\x00\x00" + huge + "k"}},
	})
}

func TestFirstFrameIsTheHeader(t *testing.T) {
	for _, first := range []string{"\x80", sectionA, trailer, "\x09aborted", "\x02\x01\x00\x00\x01\x02" + sixteen} {
		r := format.NewReader(bytes.NewReader(forgeAll(first, keysHeader, trailer)), format.Limits{})
		_, err := r.Header()
		if _, again := r.Next(); !errors.Is(err, format.ErrCorrupt) || !typed(err) || again != err {
			t.Errorf("a frame of kind %d before the header: %v, then %v", first[0], err, again)
		}
	}
}

func TestNothingOfABadFrameIsReturned(t *testing.T) {
	b := forge(sectionA, "\x04\x00"+strings.Repeat(entry, 100)+entry[:5])
	recs, _, err := read(bytes.NewReader(b), format.Limits{})
	if !errors.Is(err, format.ErrCorrupt) || len(recs) != 1 {
		t.Errorf("%d records, %v", len(recs), err)
	}
}

func TestErrorSaysWhere(t *testing.T) {
	b := forge(sectionA, "\x80", "\x04\x00"+entry[:5])
	_, _, err := read(bytes.NewReader(b), format.Limits{})
	var e *format.Error
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
	for i := range format.MaxSections + 1 {
		frames = append(frames, "\x02"+uvarint(uint64(i))+"\x01a\x00\x00ffffffff\x00")
	}
	recs, _, err := read(bytes.NewReader(forge(frames...)), format.Limits{})
	if !errors.Is(err, format.ErrCorrupt) || len(recs) != format.MaxSections {
		t.Errorf("%d sections, %v", len(recs), err)
	}
}

func TestPositionsOfAllSectionsAreBounded(t *testing.T) {
	s := sample{header: headerOf(format.Keys)}
	for range format.MaxPositions / format.MaxPosition {
		s.sections = append(s.sections, format.Section{Position: make([]byte, format.MaxPosition)})
	}
	var b bytes.Buffer
	w := s.write(t, &b)
	if _, err := w.Section(format.Section{Position: []byte("p")}); !errors.Is(err, format.ErrTooLarge) {
		t.Errorf("Writer: %v", err)
	}
	frames := []string{}
	for i, f := range splitFrames(b.Bytes())[1:] {
		frames = append(frames, string(f[:1])+string(f[8:]))
		_ = i
	}
	frames = append(frames, "\x02"+uvarint(uint64(len(s.sections)))+"\x00\x00\x00ffffffff\x01")
	recs, _, err := read(bytes.NewReader(forge(frames...)), format.Limits{})
	if !errors.Is(err, format.ErrTooLarge) || len(recs) != len(s.sections) {
		t.Errorf("Reader: %d sections, %v", len(recs), err)
	}
}

func TestLimitOfEntriesIsKept(t *testing.T) {
	for _, n := range []int{1000, 100_000, 1_000_000} {
		s := sample{header: headerOf(format.Values), sections: make([]format.Section, 1)}
		s.ops = []op{{entry: format.Entry{Value: make([]byte, n), Weight: 1, Age: format.Unknown, Fresh: format.Forever, Left: format.Forever}}}
		b := s.bytes(t)
		head := 3 // flags, key, fresh
		if n < format.MaxPayload {
			head += 3
		}
		for limit, want := range map[int]error{n + head: io.EOF, n + head - 1: format.ErrTooLarge} {
			if _, _, err := read(bytes.NewReader(b), format.Limits{MaxEntry: limit}); !errors.Is(err, want) {
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

// TestClaimsTakeNoMemory reads claims of many bytes that only few bytes follow.
func TestClaimsTakeNoMemory(t *testing.T) {
	for name, frames := range map[string][]string{
		"part":     {sectionA, "\x05\x00" + uvarint(format.MaxEntry) + "k"},
		"position": {"\x02\x00\x01a\x00\x00ffffffff" + uvarint(format.MaxPosition), "\x03p"},
		"tags":     {sectionA, "\x04\x00\x04\x01k\x00\x40" + strings.Repeat("\x00", 63)},
		"frame":    {sectionA},
	} {
		b := forge(frames...)
		if name == "frame" {
			b = append(b, "\x04\xf8\xff\x00sum."...)
		}
		for _, keep := range []bool{false, true} {
			var err error
			n := allocated(func() { _, _, err = read(bytes.NewReader(b), format.Limits{Keep: keep, MaxEntry: math.MaxInt}) })
			if !typed(err) || n > 3<<16 {
				t.Errorf("%s: %d bytes allocated for %d, %v", name, n, len(b), err)
			}
		}
	}
}

// TestMemoryFollowsTheBytesOfALongEntry reads the first bytes of an entry of 64 MiB.
func TestMemoryFollowsTheBytesOfALongEntry(t *testing.T) {
	frames := []string{sectionA, "\x05\x00" + uvarint(format.MaxEntry) + "\x00\x00"}
	for range 32 {
		frames = append(frames, "\x05"+strings.Repeat("v", format.MaxPayload))
	}
	b := forge(frames...)
	n := allocated(func() { read(bytes.NewReader(b), format.Limits{}) })
	if n > uint64(5*len(b)) {
		t.Errorf("%d bytes allocated for %d", n, len(b))
	}
}
