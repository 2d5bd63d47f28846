package meta_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/strata-cache/strata/internal/memcached/meta"
)

// recorded are replies of memcached 1.6.18, and some of 1.6.38, each with the number
// of lines that Parse finds in it.
var recorded = []struct { // read-only
	raw   string
	lines int
}{
	{"HD O1\r\n", 1},
	{"HD\r\n", 1},
	{"EN O12 knokey\r\n", 1},
	{"EN\r\n", 1},
	{"NF O5\r\n", 1},
	{"NS O2\r\n", 1},
	{"EX\r\n", 1},
	{"MN\r\n", 1},
	{"VA 2 f5 c1 ka O7 t100\r\nhi\r\n", 1},
	{"VA 0\r\n\r\n", 1},
	{"VA 2 c9 X W\r\n\r\n\r\n", 1},
	{"VA 3 s3 W Z X t-1 O1\r\nEND\r\n", 1},
	{"ME a exp=-1 la=0 cas=2 fetch=yes cls=1 size=62\r\n", 1},
	{"VERSION 1.6.18\r\n", 1},
	{"STORED\r\n", 1},
	{"NOT_STORED\r\n", 1},
	{"EXISTS\r\n", 1},
	{"NOT_FOUND\r\n", 1},
	{"DELETED\r\n", 1},
	{"TOUCHED\r\n", 1},
	{"OK\r\n", 1},
	{"18446744073709551615\r\n", 1},
	{"9 \r\n", 1},
	{"END\r\n", 1},
	{"VALUE a 5 2\r\nhi\r\nEND\r\n", 2},
	{"VALUE a 5 2 77\r\nhi\r\nVALUE b 4294967295 5 78\r\nEND\r\n\r\nEND\r\n", 3},
	{"STAT pid 7\r\nSTAT version 1.6.18\r\nSTAT empty \r\nEND\r\n", 4},
	{"ERROR\r\n", 1},
	{"CLIENT_ERROR bad data chunk\r\n", 1},
	{"SERVER_ERROR object too large for cache\r\n", 1},
	{"VALUE a 5 2\r\nhi\r\nSERVER_ERROR out of memory\r\n", 2},
}

func TestRecordedRepliesAreTakenWholeHoweverTheyAreCut(t *testing.T) {
	var all strings.Builder
	for _, rec := range recorded {
		all.WriteString(rec.raw)
	}
	for name, src := range map[string]io.Reader{
		"at once":      strings.NewReader(all.String()),
		"byte by byte": iotest.OneByteReader(strings.NewReader(all.String())),
		"by halves":    iotest.HalfReader(strings.NewReader(all.String())),
	} {
		r := meta.NewReader(src, meta.Limits{})
		for _, rec := range recorded {
			raw, err := next(r)
			if err != nil || string(raw) != rec.raw {
				t.Fatalf("%s: %q, %v instead of %q", name, raw, err, rec.raw)
			}
			lines := 0
			for rest := raw; len(rest) > 0; lines++ {
				if _, rest = meta.Parse(rest); rest == nil {
					break
				}
			}
			if lines != rec.lines {
				t.Errorf("%s: %q has %d lines, not %d", name, raw, lines, rec.lines)
			}
		}
		if raw, err := next(r); raw != nil || err != io.EOF {
			t.Errorf("%s: %q, %v at the end", name, raw, err)
		}
	}
}

// next waits for a reply.
func next(r *meta.Reader) ([]byte, error) {
	for {
		raw, err := r.Next()
		if raw != nil || err != nil {
			return raw, err
		}
		if err := r.Fill(); err != nil {
			return nil, err
		}
	}
}

// TestRepliesAreReadLineByLineAsByFrames: a call with a connection of its own reads line by
// line, the shared connection reads whole frames. Both must find the same replies.
func TestRepliesAreReadLineByLineAsByFrames(t *testing.T) {
	for _, rec := range recorded {
		r := meta.NewReader(iotest.OneByteReader(strings.NewReader(rec.raw)), meta.Limits{})
		rest := []byte(rec.raw)
		for range rec.lines {
			var want meta.Reply
			want, rest = meta.Parse(rest)
			got, err := r.Read()
			if err != nil || got.Kind != want.Kind || got.Size != want.Size || got.Code != want.Code || string(got.Text) != string(want.Text) {
				t.Errorf("%q: %+v, %v instead of %+v", rec.raw, got, err, want)
			}
			if got.Size < 0 {
				continue
			}
			if data, err := r.Append(nil, got.Size); err != nil || !bytes.Equal(data, want.Data) || data == nil {
				t.Errorf("%q: value %q, %v", rec.raw, data, err)
			}
		}
		if _, err := r.Read(); err != io.EOF {
			t.Errorf("%q: %v at the end", rec.raw, err)
		}
	}
}

func TestEveryCutOfAReplyIsAnUnexpectedEnd(t *testing.T) {
	for _, rec := range recorded {
		for cut := 1; cut < len(rec.raw); cut++ {
			r := meta.NewReader(strings.NewReader(rec.raw[:cut]), meta.Limits{})
			if raw, err := next(r); raw != nil || err != io.EOF || r.Buffered() != cut {
				t.Errorf("%q: %q, %v, %d bytes are left", rec.raw[:cut], raw, err, r.Buffered())
			}
			r = meta.NewReader(strings.NewReader(rec.raw[:cut]), meta.Limits{})
			var err error
			for err == nil {
				var reply meta.Reply
				if reply, err = r.Read(); err == nil && reply.Size >= 0 {
					_, err = r.Append(nil, reply.Size)
				}
			}
			if err != io.ErrUnexpectedEOF && err != io.EOF {
				t.Errorf("%q: %v", rec.raw[:cut], err)
			}
		}
	}
}

func TestFlagsAreASetInAnyOrder(t *testing.T) {
	for _, flags := range []string{"X W c9 O7", "O7 W X c9", "c9 X O7 W ", "W c9  O7 X"} {
		reply, _ := meta.Parse([]byte("HD " + flags + "\r\n"))
		cas, ok := reply.Flags.Uint('c')
		opaque, _ := reply.Flags.Get('O')
		if !ok || cas != 9 || string(opaque) != "7" || !reply.Flags.Has('W') || !reply.Flags.Has('X') || reply.Flags.Has('Z') {
			t.Errorf("%q: %+v", flags, reply)
		}
		if _, ok := reply.Flags.Uint('W'); ok {
			t.Error("W has a number")
		}
	}
}

func TestBrokenRepliesAreProtocolErrors(t *testing.T) {
	for _, raw := range []string{
		"\r\n", "\n", " \r\n", "HD\n", "HX\r\n", "hd\r\n", "VA\r\n", "VA \r\n", "VA x\r\n", "VA -1\r\n", "VA 1 O1 O2\r\na\r\n",
		"VA 3\r\nhi\r\n\r\n", "VA 1\r\nhi\r\n", "VA 99999999999999999999\r\n", "VA 9223372036854775807\r\n", "HD \x01\r\n",
		"VALUE a 5\r\n", "VALUE a 5 x\r\n", "VALUE a x 1\r\n", "VALUE a 4294967296 1\r\n", "VALUE a 5 1 x\r\n", "VALUE a 5 1 2 3\r\n",
		"VALUE  5 1\r\n", "VALUE a 5 1\r\nx\r\nHD\r\n", "VALUE a 5 1\r\nx\r\nSTAT a b\r\n", "STAT a b\r\nVALUE a 5 1\r\nx\r\n", "STAT \r\n",
		"-1\r\n", "1x\r\n", strings.Repeat("VERSION x", 600) + "\r\n", strings.Repeat("x", 5000), "MN MN\nx",
	} {
		r := meta.NewReader(strings.NewReader(raw), meta.Limits{})
		var broken *meta.ProtocolError
		if got, err := next(r); !errors.As(err, &broken) {
			t.Errorf("%.40q: %q, %v", raw, got, err)
		}
	}
}

// TestErrorsSayWhetherTheStreamGoesOn: after a command that the server refused
// before its value, the server takes the bytes of the value for commands.
func TestErrorsSayWhetherTheStreamGoesOn(t *testing.T) {
	for line, fatal := range map[string]bool{
		"ERROR":                       true,
		"CLIENT_ERROR bad data chunk": true,
		"CLIENT_ERROR line too long":  true,
		"CLIENT_ERROR cannot increment or decrement non-numeric value": false,
		"SERVER_ERROR object too large for cache":                      false,
		"SERVER_ERROR out of memory storing object":                    false,
		"EN": false,
		"HD": false,
	} {
		if r, _ := meta.Parse([]byte(line + "\r\n")); r.Fatal() != fatal {
			t.Errorf("%s: fatal is %v", line, r.Fatal())
		}
	}
}

func TestLimitsOfValuesAndReplies(t *testing.T) {
	lim := meta.Limits{Value: 10, Reply: 60}
	ten, item := strings.Repeat("x", 10), "VALUE a 0 10\r\n0123456789\r\n"
	for raw, ok := range map[string]bool{
		"VA 10\r\n" + ten + "\r\n":     true,
		"VA 11\r\n" + ten + "x\r\n":    false,
		item + item + "END\r\n":        true,
		item + item + item + "END\r\n": false,
	} {
		if _, err := next(meta.NewReader(strings.NewReader(raw), lim)); (err == nil) != ok {
			t.Errorf("%q: %v", raw, err)
		}
	}
	r := meta.NewReader(strings.NewReader("VA 11\r\n"), lim)
	if _, err := r.Read(); err == nil {
		t.Error("Read accepts a value over the limit")
	}
}

func TestLargeValuesAreCollected(t *testing.T) {
	for _, n := range []int{16 << 10, 32<<10 - 4, 32 << 10, 100_000, 1 << 20, 3 << 20} {
		value := bytes.Repeat([]byte("ab"), n/2)
		raw := meta.AppendItem([]byte("VA 1\r\nx\r\n"), "k", 1, 2, value)
		raw = append(raw, "END\r\nMN\r\n"...)
		r := meta.NewReader(iotest.HalfReader(bytes.NewReader(raw)), meta.Limits{})
		if _, err := next(r); err != nil {
			t.Fatal(err)
		}
		got, err := next(r)
		if err != nil {
			t.Fatal(err)
		}
		if reply, rest := meta.Parse(got); !bytes.Equal(reply.Data, value) || string(rest) != "END\r\n" {
			t.Errorf("%d bytes: %d, and then %q", n, len(reply.Data), rest)
		}
		if last, err := next(r); string(last) != "MN\r\n" || err != nil {
			t.Errorf("%q, %v", last, err)
		}
	}
}

func TestPlainKeys(t *testing.T) {
	for key, ok := range map[string]bool{
		"": false, "a": true, strings.Repeat("k", 250): true, strings.Repeat("k", 251): false, strings.Repeat("k", 1<<20): false,
		"a b": false, "a\rb": false, "a\nb": false, "a\x00b": false, "a\tb": false, "a\x7fb": false, "ключ": true, "\xff": true,
	} {
		if meta.PlainKey(key) != ok || meta.PlainKey([]byte(key)) != ok {
			t.Errorf("%.20q: %v", key, !ok)
		}
	}
}
