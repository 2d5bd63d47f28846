package format_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/testing/kit"
)

// small is a snapshot of a few KiB with frames of all kinds but Abort and parts.
func small(t testing.TB, m format.Mode) []byte {
	t.Helper()
	s := randomSample(rand.New(rand.NewPCG(11, uint64(m))), 1, 10)
	s.header = headerOf(m)
	s.sections = []format.Section{{Name: "users", Space: "prod", Codec: "json", Fingerprint: 77, Position: []byte("position")}, {Name: "orders"}}
	r := rand.New(rand.NewPCG(12, uint64(m)))
	for i := range 100 {
		o := op{section: i % 2, key: string(text(r, r.IntN(40))), entry: randomEntry(r, 100)}
		if i%9 == 0 {
			o.drop = &format.Drop{Name: []byte("dropped"), Expire: i%2 == 0}
		}
		s.ops = append(s.ops, o)
	}
	return s.bytes(t)
}

// large is a snapshot with parts and a position of several frames.
func large(t testing.TB) []byte {
	t.Helper()
	s := sample{header: headerOf(format.Values), sections: []format.Section{{Name: "a", Position: make([]byte, 150_000)}}}
	r := rand.New(rand.NewPCG(13, 1))
	for range 6 {
		e := randomEntry(r, 100)
		s.ops = append(s.ops, op{entry: e})
		e.Value, e.NotFound = text(r, r.IntN(150_000)), false
		s.ops = append(s.ops, op{entry: e})
	}
	return s.bytes(t)
}

// isPrefix reports whether the records of a damaged snapshot are the first ones of the
// whole.
func isPrefix(got, whole []string) bool {
	return len(got) <= len(whole) && slices.Equal(got, whole[:len(got)])
}

func causes() []error {
	return []error{format.ErrFormat, format.ErrVersion, format.ErrCorrupt, format.ErrTruncated, format.ErrTooLarge, format.ErrCounts, format.ErrAborted}
}

// typed reports whether err is an *Error with one of the known causes.
func typed(err error) bool {
	var e *format.Error
	return errors.As(err, &e) && slices.ContainsFunc(causes(), func(c error) bool { return errors.Is(err, c) })
}

func TestEveryTruncationIsSeen(t *testing.T) {
	for _, m := range []format.Mode{format.Keys, format.Values} {
		b := small(t, m)
		_, whole, err := read(bytes.NewReader(b), format.Limits{})
		if err != io.EOF || len(b) < 2000 {
			t.Fatal(len(b), err)
		}
		for n := range b {
			_, got, err := read(bytes.NewReader(b[:n]), format.Limits{})
			if !errors.Is(err, format.ErrTruncated) || !errors.Is(err, io.ErrUnexpectedEOF) || !typed(err) || !isPrefix(got, whole) {
				t.Fatalf("cut to %d of %d bytes: %d records, %v", n, len(b), len(got), err)
			}
		}
	}
}

func TestTruncatedPartsAreSeen(t *testing.T) {
	b := large(t)
	_, whole, _ := read(bytes.NewReader(b), format.Limits{})
	for n := 0; n < len(b); n += 1997 {
		if _, got, err := read(bytes.NewReader(b[:n]), format.Limits{}); !errors.Is(err, format.ErrTruncated) || !isPrefix(got, whole) {
			t.Fatalf("cut to %d of %d bytes: %d records, %v", n, len(b), len(got), err)
		}
	}
}

// flipped reads a snapshot with one bit flipped, and returns the records before the
// error, which must come.
func flipped(t *testing.T, b []byte, bit int, whole []string) {
	t.Helper()
	b[bit/8] ^= 1 << (bit % 8)
	defer func() { b[bit/8] ^= 1 << (bit % 8) }()
	_, got, err := read(bytes.NewReader(b), format.Limits{})
	if !typed(err) || !isPrefix(got, whole) {
		t.Fatalf("bit %d of %d bytes flipped: %d records, %v", bit, len(b), len(got), err)
	}
	if bit/8 < 8 && !errors.Is(err, format.ErrFormat) {
		t.Fatalf("bit %d of the magic flipped: %v", bit, err)
	}
}

func TestEveryFlippedBitIsSeen(t *testing.T) {
	for _, m := range []format.Mode{format.Keys, format.Values} {
		b := small(t, m)
		_, whole, _ := read(bytes.NewReader(b), format.Limits{})
		// Of an odd number of bits, so that each place in a byte has its turn.
		step := 1
		if m == format.Keys || testing.Short() {
			step = 5 // the frames are the same
		}
		for bit := 0; bit < 8*len(b); bit += step {
			flipped(t, b, bit, whole)
		}
	}
}

func TestFlippedBitsOfALargeSnapshotAreSeen(t *testing.T) {
	b := large(t)
	_, whole, _ := read(bytes.NewReader(b), format.Limits{})
	r := rand.New(rand.NewPCG(14, 1))
	for range kit.Rounds(1000) {
		flipped(t, b, r.IntN(8*len(b)), whole)
	}
}

func TestTenThousandFlipsInSnapshotsOfAllForms(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 1))
	for range kit.Rounds(100) {
		b := randomSample(r, 30, 8000).bytes(t)
		_, whole, err := read(bytes.NewReader(b), format.Limits{})
		if err != io.EOF {
			t.Fatal(err)
		}
		for range 100 {
			flipped(t, b, r.IntN(8*len(b)), whole)
		}
	}
}

// splitFrames returns the magic and the frames of a snapshot.
func splitFrames(b []byte) (frames [][]byte) {
	frames = append(frames, b[:8])
	for b = b[8:]; len(b) > 0; {
		n := 8 + int(b[1]) + int(b[2])<<8 + int(b[3])<<16
		frames, b = append(frames, b[:n]), b[n:]
	}
	return frames
}

func TestFramesInAnotherOrderAreSeen(t *testing.T) {
	kit.Alone(t)
	for _, b := range [][]byte{small(t, format.Keys), small(t, format.Values), large(t)} {
		_, whole, _ := read(bytes.NewReader(b), format.Limits{})
		frames := splitFrames(b)
		try := func(what string, i, j int, changed [][]byte) {
			t.Helper()
			data := slices.Concat(changed...)
			if bytes.Equal(data, b) {
				return
			}
			if _, got, err := read(bytes.NewReader(data), format.Limits{}); !typed(err) || !isPrefix(got, whole) {
				t.Fatalf("frame %d %s (%d): %d records, %v", i, what, j, len(got), err)
			}
		}
		for i := range frames {
			try("dropped", i, 0, slices.Delete(slices.Clone(frames), i, i+1))
			for j := range frames {
				if d, near := i-j, 1+kit.Rounds(4)/2; len(frames) > 20 && (d > near || d < -near) {
					continue // of a large snapshot the near ones
				}
				try("repeated behind another", i, j, slices.Insert(slices.Clone(frames), j+1, frames[i]))
				try("in the place of another", i, j, slices.Replace(slices.Clone(frames), j, j+1, frames[i]))
				swapped := slices.Clone(frames)
				swapped[i], swapped[j] = swapped[j], swapped[i]
				try("swapped with another", i, j, swapped)
			}
		}
	}
}

// TestFramesOfAnotherSnapshotAreSeen takes frames from a snapshot with another ID, or
// another stream of the same snapshot, at the same places.
func TestFramesOfAnotherSnapshotAreSeen(t *testing.T) {
	s := sample{header: headerOf(format.Keys), sections: []format.Section{{Name: "a"}}, ops: []op{{key: "a"}, {flush: true}, {key: "b"}}}
	mine := splitFrames(s.bytes(t))
	for _, change := range []func(*format.Header){
		func(h *format.Header) { h.ID[3]++ },
		func(h *format.Header) { h.Stream-- },
	} {
		other := s
		change(&other.header)
		theirs := splitFrames(other.bytes(t))
		for i := 1; i < len(mine); i++ {
			mixed := slices.Concat(slices.Concat(mine[:i]...), slices.Concat(theirs[i:]...))
			if i == 1 {
				continue // all of theirs
			}
			if _, _, err := read(bytes.NewReader(mixed), format.Limits{}); !errors.Is(err, format.ErrCorrupt) {
				t.Errorf("frames from %d on are those of another snapshot: %v", i, err)
			}
		}
	}
}

func TestBytesBehindTheTrailerAreSeen(t *testing.T) {
	b := small(t, format.Values)
	for _, more := range []string{"\x00", "more than a frame's head", strings.Repeat("\x00", 100)} {
		for _, r := range []io.Reader{strings.NewReader(string(b) + more), iotest.OneByteReader(strings.NewReader(string(b) + more))} {
			if _, _, err := read(r, format.Limits{}); !errors.Is(err, format.ErrCorrupt) {
				t.Errorf("%q behind the trailer: %v", more, err)
			}
		}
	}
	failed := errors.New("sum of the stream is wrong")
	if _, _, err := read(io.MultiReader(bytes.NewReader(b), iotest.ErrReader(failed)), format.Limits{}); !errors.Is(err, failed) {
		t.Errorf("failed read behind the trailer: %v", err)
	}
}

func TestFailedReadIsTheCause(t *testing.T) {
	b := small(t, format.Values)
	_, whole, _ := read(bytes.NewReader(b), format.Limits{})
	failed := errors.New("connection reset")
	for n := range b {
		_, got, err := read(io.MultiReader(bytes.NewReader(b[:n]), iotest.ErrReader(failed)), format.Limits{})
		var e *format.Error
		if !errors.Is(err, failed) || !errors.As(err, &e) || e.Offset > int64(n) || !isPrefix(got, whole) {
			t.Fatalf("read fails at %d: %v", n, err)
		}
	}
}

func TestStreamsInPiecesReadTheSame(t *testing.T) {
	for _, b := range [][]byte{small(t, format.Keys), small(t, format.Values), large(t)} {
		_, whole, _ := read(bytes.NewReader(b), format.Limits{})
		for _, r := range []io.Reader{iotest.OneByteReader(bytes.NewReader(b)), iotest.HalfReader(bytes.NewReader(b)), iotest.DataErrReader(bytes.NewReader(b))} {
			if _, got, err := read(r, format.Limits{}); err != io.EOF || !slices.Equal(got, whole) {
				t.Fatalf("%d of %d records, %v", len(got), len(whole), err)
			}
		}
	}
}

// live is a stream without further bytes: a read of them fails the test.
type live struct {
	t *testing.T
	b []byte
}

func (l *live) Read(p []byte) (int, error) {
	if len(l.b) == 0 {
		l.t.Fatal("the Reader waits for bytes behind a frame that has come")
	}
	n := copy(p, l.b)
	l.b = l.b[n:]
	return n, nil
}

func TestRecordsOfAFlushedFrameAreNotHeldBack(t *testing.T) {
	var b bytes.Buffer
	s := sample{header: headerOf(format.Keys), sections: make([]format.Section, 1), ops: []op{{key: "a"}, {key: "b"}, {flush: true}}}
	s.write(t, &b)
	r := format.NewReader(&live{t, b.Bytes()}, format.Limits{})
	for range 3 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestForeignStreamsAreNoSnapshots(t *testing.T) {
	for _, text := range []string{"{\"json\": 1}", "STRATA\n\r", "STRATA\n", "strata\r\n", "S\x00", strings.Repeat("\x00", 1000)} {
		_, err := format.NewReader(strings.NewReader(text), format.Limits{}).Header()
		var e *format.Error
		if !errors.Is(err, format.ErrFormat) || !errors.As(err, &e) || e.Frame != 0 || e.Offset != 0 {
			t.Errorf("%q: %v", text, err)
		}
	}
}
