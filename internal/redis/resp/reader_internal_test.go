package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/strata-cache/strata/internal/wire"
)

// hostile are replies that must end in an error. wait marks incomplete replies:
// their error is io.ErrUnexpectedEOF.
func hostile() []struct {
	name, reply string
	wait        bool
} {
	return []struct {
		name, reply string
		wait        bool
	}{
		{name: "negative length", reply: "$-5\r\n"},
		{name: "length near 2^62", reply: "$4611686018427387904\r\n"},
		{name: "length overflows", reply: "$99999999999999999999999\r\n"},
		{name: "4 GiB and three bytes", reply: "$4294967296\r\nabc"},
		{name: "a billion elements", reply: "*1000000000\r\n"},
		{name: "nested 3 million deep", reply: strings.Repeat("*1\r\n", 3_000_000)},
		{name: "no CRLF behind a string", reply: "$3\r\nabcXX"},
		{name: "at the limit and three bytes", reply: "$536870912\r\nabc", wait: true},
		{name: "over the limit", reply: "$536870913\r\nabc"},
		{name: "length with plus", reply: "$+5\r\nhello\r\n"},
		{name: "length minus zero", reply: "$-0\r\n\r\n"},
		{name: "length is no number", reply: "$abc\r\n"},
		{name: "length is empty", reply: "$\r\n"},
		{name: "length with space", reply: "$ 3\r\nabc\r\n"},
		{name: "streamed string", reply: "$?\r\n;3\r\nabc\r\n;0\r\n"},
		{name: "streamed array", reply: "*?\r\n:1\r\n.\r\n"},
		{name: "unknown type", reply: "@3\r\n"},
		{name: "no type", reply: "\r\n"},
		{name: "plain text", reply: "HTTP/1.1 400 Bad Request\r\n"},
		{name: "LF without CR in a header", reply: "$3\nabc\r\n"},
		{name: "LF without CR in a status", reply: "+OK\n"},
		{name: "CR without LF in a status", reply: "+O\rK\r\n"},
		{name: "header without end", reply: "$" + strings.Repeat("1", 100)},
		{name: "status without end", reply: "+" + strings.Repeat("x", 70_000)},
		{name: "error without end", reply: "-" + strings.Repeat("x", 70_000) + "\r\n"},
		{name: "element count overflows", reply: "*99999999999999999999\r\n"},
		{name: "negative element count", reply: "*-2\r\n"},
		{name: "map of 2^62 pairs", reply: "%4611686018427387904\r\n"},
		{name: "null map", reply: "%-1\r\n"},
		{name: "many elements in all", reply: "*2\r\n*1048576\r\n"},
		{name: "33 deep", reply: strings.Repeat("*1\r\n", 33) + ":1\r\n"},
		{name: "deep in attributes", reply: strings.Repeat("|1\r\n", 40) + ":1\r\n"},
		{name: "empty attributes for ever", reply: strings.Repeat("|0\r\n", 1<<20+1)},
		{name: "push inside", reply: "*1\r\n>1\r\n:1\r\n"},
		{name: "integer is no number", reply: ":1x\r\n"},
		{name: "integer overflows", reply: ":9223372036854775808\r\n"},
		{name: "bad boolean", reply: "#x\r\n"},
		{name: "bad null", reply: "_x\r\n"},
		{name: "bad double", reply: ",0x1p4\r\n"},
		{name: "double with separators", reply: ",1_0\r\n"},
		{name: "double overflows", reply: ",1e999\r\n"},
		{name: "bad big number", reply: "(12x\r\n"},
		{name: "big number without digits", reply: "(-\r\n"},
		{name: "verbatim without format", reply: "=3\r\ntxt\r\n"},
		{name: "bad element", reply: "*2\r\n:1\r\n$-7\r\n"},
		{name: "element without CRLF", reply: "*1\r\n$3\r\nabcde"},
		{name: "string cut short", reply: "$5\r\nab", wait: true},
		{name: "array cut short", reply: "*3\r\n:1\r\n", wait: true},
		{name: "attribute without value", reply: "|1\r\n+a\r\n+b\r\n", wait: true},
		{name: "header cut short", reply: "$1", wait: true},
		{name: "CRLF cut short", reply: "$1\r\na\r", wait: true},
	}
}

func TestHostileReplies(t *testing.T) {
	for _, tc := range hostile() {
		t.Run(tc.name, func(t *testing.T) {
			for _, wrap := range []func(io.Reader) io.Reader{
				func(r io.Reader) io.Reader { return r }, iotest.HalfReader, iotest.DataErrReader,
			} {
				r := NewReader(wrap(strings.NewReader(tc.reply)), Limits{})
				v, err := r.Read()
				var broken *ProtocolError
				switch {
				case err == nil:
					t.Fatalf("accepted as %v", v.Kind())
				case tc.wait && err != io.ErrUnexpectedEOF:
					t.Errorf("error %v, want io.ErrUnexpectedEOF", err)
				case !tc.wait && !errors.As(err, &broken):
					t.Errorf("error %v, want a *ProtocolError", err)
				}
			}
		})
	}
}

// stalled is a source that ends with an error, like a passed deadline.
type stalled struct{ rest string }

func (s *stalled) Read(p []byte) (int, error) {
	if s.rest == "" {
		return 0, errStalled
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

var errStalled = errors.New("stalled")

func TestMemoryFollowsTheBytesThatArrive(t *testing.T) {
	tests := []struct {
		name, reply string
		more        int // bytes reserved beyond the reply
	}{
		{"claims 1 MiB", "$1048576\r\nabc", 1 << 20},
		{"claims 1 MiB and a byte", "$1048577\r\nabc", 0},
		{"claims 8 MiB, an eighth came", "$8388608\r\n" + strings.Repeat("x", 1<<20), 8 << 20},
		{"claims 512 MiB", "$536870912\r\nabc", 0},
		{"claims 512 MiB, 1 MiB came", "$536870912\r\n" + strings.Repeat("x", 1<<20), 0},
		{"claims a million elements", "*1048576\r\n:1\r\n", 0},
		{"a million elements, a half came", "*1048576\r\n" + strings.Repeat("_\r\n", 1<<19), 0},
		{"claims a map of strings", "%5\r\n$400000000\r\nabc", 0},
		{"many large strings", "*1000\r\n" + strings.Repeat("$70000\r\n"+strings.Repeat("y", 70000)+"\r\n", 9), 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			for _, way := range []string{"Read", "Borrow", "AppendBulk", "Next"} {
				r := NewReader(&stalled{tc.reply}, Limits{})
				read := readers()[way]
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := read(r)
				runtime.ReadMemStats(&after)
				if err != errStalled {
					t.Fatalf("%s: error %v", way, err)
				}
				// A few KiB for the test itself and the list of steps.
				most := uint64(len(tc.reply) + step + 8<<10 + tc.more)
				if way == "Borrow" {
					most += step // the larger buffer of Borrow
				}
				if used := after.TotalAlloc - before.TotalAlloc; used > most {
					t.Errorf("%s: allocated %d bytes for %d received", way, used, len(tc.reply))
				}
			}
		})
	}
}

// measured is a source that checks the bound at each Read.
type measured struct {
	src io.Reader
	r   *Reader
	t   testing.TB
}

func (m *measured) Read(p []byte) (int, error) {
	if got, most := m.r.Sink.Reserved(), int(m.r.Received())+step; got > most {
		m.t.Errorf("%d bytes reserved after %d received", got, m.r.Received())
	}
	return m.src.Read(p)
}

// chunks cuts a stream into pieces of random sizes.
type chunks struct {
	rest []byte
	rng  *rand.Rand
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.rest[:1+c.rng.IntN(min(len(c.rest), 40))])
	c.rest = c.rest[n:]
	return n, nil
}

// readAll returns all values of a stream as text, and the error at its end.
func readAll(t testing.TB, src io.Reader, lim Limits, read func(*Reader) (Value, error)) string {
	m := &measured{src: src, t: t}
	m.r = NewReader(m, lim)
	var b strings.Builder
	for {
		v, err := read(m.r)
		if err != nil {
			fmt.Fprintf(&b, "! %v", err)
			return b.String()
		}
		describe(&b, v, 0)
	}
}

func describe(b *strings.Builder, v Value, depth int) {
	fmt.Fprintf(b, "%d %v %d %v %q\n", depth, v.Kind(), v.Int(), v.Float(), v.Bytes())
	n := 0
	for e := range v.Elems() {
		describe(b, e, depth+1)
		n++
	}
	if n != v.Len() {
		fmt.Fprintf(b, "%d elements instead of %d", n, v.Len())
	}
}

func FuzzReply(f *testing.F) {
	for _, tc := range hostile() {
		f.Add([]byte(tc.reply[:min(len(tc.reply), 4096)]), uint64(1))
	}
	for _, s := range sound() {
		f.Add([]byte(s.wire), uint64(2))
	}
	f.Add([]byte(everything()), uint64(3))
	small := Limits{Bulk: 1 << 20, Reply: 2 << 20, Line: 100, Elements: 1000, Depth: 5}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		for _, lim := range []Limits{{}, small} {
			whole := readAll(t, bytes.NewReader(data), lim, (*Reader).Read)
			for name, read := range map[string]func(*Reader) (Value, error){"Read": (*Reader).Read, "Borrow": (*Reader).Borrow} {
				rng := rand.New(rand.NewPCG(seed, 0))
				cut := readAll(t, &chunks{data, rng}, lim, func(r *Reader) (Value, error) {
					if rng.IntN(4) == 0 {
						r.Release()
					}
					return read(r)
				})
				if whole != cut {
					t.Fatalf("whole:\n%s\ncut, by %s:\n%s", whole, name, cut)
				}
			}
		}
	})
}

// sound are replies with their meanings.
func sound() []struct {
	name, wire string
	kind       Kind
	text       string
} {
	return []struct {
		name, wire string
		kind       Kind
		text       string
	}{
		{"ok", "+OK\r\n", Status, "OK"},
		{"status", "+QUEUED\r\n", Status, "QUEUED"},
		{"empty status", "+\r\n", Status, ""},
		{"error", "-ERR no\r\n", Error, "ERR no"},
		{"blob error", "!6\r\nERR\r\nx\r\n", Error, "ERR\r\nx"},
		{"string", "$5\r\nhello\r\n", Bulk, "hello"},
		{"empty string", "$0\r\n\r\n", Bulk, ""},
		{"string with CRLF", "$4\r\n\r\n\r\n\r\n", Bulk, "\r\n\r\n"},
		{"null string", "$-1\r\n", Null, ""},
		{"null array", "*-1\r\n", Null, ""},
		{"null", "_\r\n", Null, ""},
		{"big number", "(-123456789012345678901234567890\r\n", BigNumber, "-123456789012345678901234567890"},
		{"verbatim", "=7\r\ntxt:abc\r\n", Verbatim, "abc"},
		{"attribute in front", "|1\r\n+ttl\r\n:3\r\n$2\r\nhi\r\n", Bulk, "hi"},
		{"nested attribute in front", "|1\r\n|1\r\n+a\r\n+b\r\n+c\r\n*1\r\n:1\r\n+x\r\n", Status, "x"},
	}
}

// everything is one reply that contains all kinds.
func everything() string {
	return "*14\r\n+OK\r\n-ERR x\r\n:-42\r\n$3\r\nabc\r\n*2\r\n:1\r\n*0\r\n%1\r\n+k\r\n~1\r\n:7\r\n~0\r\n" +
		"_\r\n#t\r\n#f\r\n,-1.5e3\r\n,inf\r\n(99\r\n|1\r\n+a\r\n%0\r\n=5\r\ntxt:z\r\n"
}

func TestReadUnderstandsEveryKind(t *testing.T) {
	for _, tc := range sound() {
		t.Run(tc.name, func(t *testing.T) {
			v, err := NewReader(iotest.OneByteReader(strings.NewReader(tc.wire)), Limits{}).Read()
			if err != nil || v.Kind() != tc.kind || string(v.Bytes()) != tc.text {
				t.Errorf("got %v %q, %v", v.Kind(), v.Bytes(), err)
			}
		})
	}
	v, err := NewReader(strings.NewReader(everything()), Limits{}).Read()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []Kind
	for e := range v.Elems() {
		kinds = append(kinds, e.Kind())
	}
	want := []Kind{Status, Error, Int, Bulk, Array, Map, Set, Null, Bool, Bool, Double, Double, BigNumber, Verbatim}
	if !slices.Equal(kinds, want) {
		t.Errorf("kinds %v, want %v", kinds, want)
	}
	for i, wire := range []string{",inf\r\n", ",-inf\r\n", ",nan\r\n", ",-nan\r\n", ",3\r\n"} {
		v, err := NewReader(strings.NewReader(wire), Limits{}).Read()
		ok := [](func(float64) bool){
			func(f float64) bool { return math.IsInf(f, 1) }, func(f float64) bool { return math.IsInf(f, -1) },
			math.IsNaN, math.IsNaN, func(f float64) bool { return f == 3 },
		}[i](v.Float())
		if err != nil || !ok {
			t.Errorf("%q is %v, %v", wire, v.Float(), err)
		}
	}
}

func TestElementsCanBeLeftEarly(t *testing.T) {
	v, _ := NewReader(strings.NewReader("*3\r\n:1\r\n:2\r\n:3\r\n"), Limits{}).Read()
	var sum int64
	for e := range v.Elems() {
		if sum += e.Int(); sum == 3 {
			break
		}
	}
	if sum != 3 {
		t.Errorf("sum %d", sum)
	}
}

func TestLargeStringsOfAllSizes(t *testing.T) {
	for _, n := range []int{0, 1, wire.Tail, wire.Direct - 1, wire.Direct, wire.Direct + 1, bufSize, step - 1, step, step + 1, 3*step + 7, 1 << 20} {
		want := bytes.Repeat([]byte{'a', 'b', 'c'}, n/3+1)[:n]
		wire := AppendBulk(nil, want)
		for _, dst := range [][]byte{nil, []byte("head"), make([]byte, 4, n+4)} {
			src := bytes.NewReader(append(append([]byte{}, wire...), ":7\r\n"...))
			r := NewReader(src, Limits{})
			out, found, _, err := r.AppendBulk(dst)
			if err != nil || !found || !bytes.Equal(out[len(dst):], want) || !bytes.Equal(out[:len(dst)], dst) {
				t.Fatalf("%d bytes behind %d: %d, found %v, %v", n, len(dst), len(out), found, err)
			}
			if cap(dst) >= len(dst)+n && n > 0 && &out[0] != &dst[:1][0] {
				t.Errorf("%d bytes were not read into the room given", n)
			}
			if v, err := r.Read(); err != nil || v.Int() != 7 {
				t.Errorf("the next value is %v, %v", v, err)
			}
		}
		in := append([]byte("*1\r\n"), wire...)
		v, err := NewReader(bytes.NewReader(in), Limits{}).Read()
		for e := range v.Elems() {
			if err != nil || !bytes.Equal(e.Bytes(), want) {
				t.Errorf("%d bytes in an array: %d, %v", n, len(e.Bytes()), err)
			}
		}
	}
}

func TestAppendBulkTellsMissingFromEmpty(t *testing.T) {
	r := NewReader(strings.NewReader("$-1\r\n$0\r\n\r\n_\r\n-ERR x\r\n"), Limits{})
	for i, want := range []struct {
		found bool
		kind  Kind
	}{{false, Null}, {true, Null}, {false, Null}, {false, Error}} {
		out, found, v, err := r.AppendBulk([]byte("x"))
		if err != nil || found != want.found || v.Kind() != want.kind || string(out) != "x" {
			t.Errorf("%d: %q, %v, %v, %v", i, out, found, v.Kind(), err)
		}
	}
}

func TestBulkInPieces(t *testing.T) {
	r := NewReader(iotest.OneByteReader(strings.NewReader("$5\r\nhello\r\n$2\r\nabXY$-1\r\n")), Limits{})
	n, _, err := r.BulkHeader()
	if n != 5 || err != nil {
		t.Fatal(n, err)
	}
	buf := make([]byte, 5)
	for i := 0; i < 5; {
		m, err := r.Body(buf[i:])
		if err != nil {
			t.Fatal(err)
		}
		i += m
	}
	if err := r.EndBulk(); err != nil || string(buf) != "hello" {
		t.Errorf("%q, %v", buf, err)
	}
	if n, _, err = r.BulkHeader(); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	r.Body(buf[:1])
	r.Body(buf[:1])
	var broken *ProtocolError
	if err := r.EndBulk(); !errors.As(err, &broken) {
		t.Errorf("end of a string without CRLF: %v", err)
	}
}

func TestWaitCanBeRepeated(t *testing.T) {
	s := &stalled{}
	r := NewReader(s, Limits{})
	if err := r.Wait(); err != errStalled {
		t.Fatal(err)
	}
	s.rest = "+OK\r\n"
	if err := r.Wait(); err != nil {
		t.Fatal(err)
	}
	if v, err := r.Read(); err != nil || !v.OK() {
		t.Error(v, err)
	}
	if r.Received() != 5 || r.Buffered() != 0 {
		t.Error(r.Received(), r.Buffered())
	}
}

func TestSourceThatReturnsNothing(t *testing.T) {
	r := NewReader(&stuck{}, Limits{})
	if _, err := r.Read(); err != io.ErrNoProgress {
		t.Error(err)
	}
}

type stuck struct{}

func (*stuck) Read([]byte) (int, error) { return 0, nil }

func TestValuesSurviveTheNextRead(t *testing.T) {
	r := NewReader(strings.NewReader("$3\r\nabc\r\n*1\r\n$3\r\ndef\r\n+status\r\n$3\r\nxyz\r\n*1\r\n$3\r\nuvw\r\n+change\r\n"), Limits{})
	var got []Value
	for range 6 {
		v, err := r.Read()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, v)
	}
	for e := range got[1].Elems() {
		if string(got[0].Bytes()) != "abc" || string(e.Bytes()) != "def" || string(got[2].Bytes()) != "status" {
			t.Errorf("%q %q %q", got[0].Bytes(), e.Bytes(), got[2].Bytes())
		}
	}
}

func TestSharedStepsDoNotMixValues(t *testing.T) {
	var steps Steps
	var got []Value
	var want [][]byte
	for i := range 20 {
		text := bytes.Repeat([]byte{'a' + byte(i)}, 3*step+i)
		want = append(want, text)
		for _, wire := range [][]byte{
			AppendBulk(nil, text), AppendBulk(AppendArray(nil, 1), text),
			AppendBulkHeader(nil, 10*step), // its bytes never arrive
		} {
			src := io.MultiReader(bytes.NewReader(wire), bytes.NewReader(text[:step]))
			r := NewReader(src, Limits{})
			r.Share(&steps)
			if v, err := r.Read(); err == nil {
				got = append(got, v)
			}
		}
	}
	for i, v := range got {
		text := v.Bytes()
		for e := range v.Elems() {
			text = e.Bytes()
		}
		if !bytes.Equal(text, want[i/2]) {
			t.Fatalf("value %d was overwritten", i)
		}
	}
	if len(got) != 40 {
		t.Errorf("%d values", len(got))
	}
}

// TestValuesThatShareMemoryStayApart reads arrays of many lengths with a Slab, and appends to each.
func TestValuesThatShareMemoryStayApart(t *testing.T) {
	const n = 300
	r := rand.New(rand.NewPCG(1, 2))
	var wire []byte
	for i := range n {
		body := bytes.Repeat([]byte{byte(i)}, r.IntN(40)*r.IntN(100))
		wire = AppendInt(AppendBulk(AppendArray(wire, 2), body), int64(i))
	}
	apart, together := NewReader(bytes.NewReader(wire), Limits{}), NewReader(bytes.NewReader(wire), Limits{})
	var s Slab
	all := make([]Value, n)
	for i := range all {
		s.Left = n - i
		var err error
		if all[i], err = together.ReadTo(&s); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range all {
		_ = append(v.body, "more"...)
	}
	for i, v := range all {
		if want, err := apart.Read(); err != nil || v.Kind() != Array || v.Len() != 2 || !bytes.Equal(v.body, want.body) {
			t.Fatalf("value %d is %q, want %q, %v", i, v.body, want.body, err)
		}
	}
}
