package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/strata-cache/strata/internal/wire"
)

// rows returns a stream of values of all sizes around the sizes of the buffers.
func rows() (sent []byte, want []string) {
	for i, n := range []int{0, 1, 9, 10, 99, 100, wire.WidenFrom - 1, wire.WidenFrom, 16384, 16384, 16384, bufSize - 10, bufSize - 1, bufSize, bufSize + 1, step - 20, step - 2, step - 1, step, step + 1, 3 * step, 5, 100_000} {
		text := strings.Repeat(string(rune('a'+i)), n)
		sent = AppendString(sent, text)
		want = append(want, "string "+text)
		sent = AppendArray(sent, 2)
		sent = AppendInt(sent, int64(i))
		sent = AppendString(sent, text)
		want = append(want, fmt.Sprintf("array %d %s", i, text))
		sent = AppendStatus(sent, "OK")
		want = append(want, "status OK")
	}
	return sent, want
}

func text(v Value) string {
	s := v.Kind().String()
	if v.Kind() == Array {
		for e := range v.Elems() {
			if e.Kind() == Int {
				s += fmt.Sprint(" ", e.Int())
			} else {
				s += " " + string(e.Bytes())
			}
		}
		return s
	}
	return s + " " + string(v.Bytes())
}

func TestBorrowReadsTheSameAsRead(t *testing.T) {
	wire, want := rows()
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r },
		"cut":   iotest.HalfReader,
		"bytes": iotest.OneByteReader,
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(wrap(bytes.NewReader(wire)), Limits{})
			for i := range want {
				if i%7 == 6 {
					r.Release() // in the middle of the received bytes
				}
				v, err := r.Borrow()
				if got := text(v); err != nil || got != want[i] {
					t.Fatalf("%d: %d bytes, %v; want %d", i, len(got), err, len(want[i]))
				}
			}
			r.Release()
			if _, err := r.Borrow(); err != io.EOF {
				t.Error(err)
			}
		})
	}
}

// endless is a source that repeats the same bytes.
type endless struct {
	wire []byte
	at   int
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		m := copy(p[n:], e.wire[e.at:])
		e.at = (e.at + m) % len(e.wire)
		n += m
	}
	return n, nil
}

func TestBorrowAllocatesNothing(t *testing.T) {
	var steps Steps
	for name, wire := range map[string][]byte{
		"short strings": AppendString(nil, "hello"),
		"16 KiB":        AppendBulk(nil, make([]byte, 16<<10)),
		"60 KiB":        AppendBulk(nil, make([]byte, 60<<10)),
		"arrays":        AppendBulk(AppendArray(nil, 1), make([]byte, 10_000)),
		"OK":            []byte("+OK\r\n"),
		"other status":  []byte("+QUEUED\r\n"),
		"integers":      []byte(":12345\r\n"),
	} {
		r := NewReader(&endless{wire: wire}, Limits{})
		r.Share(&steps)
		if n := testing.AllocsPerRun(1000, func() {
			if _, err := r.Borrow(); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestReleaseGivesTheLargeBufferBack(t *testing.T) {
	r := NewReader(&endless{wire: AppendBulk(nil, make([]byte, 60<<10))}, Limits{})
	if _, err := r.Borrow(); err != nil {
		t.Fatal(err)
	}
	if len(r.Buf) != step {
		t.Fatalf("buffer of %d bytes", len(r.Buf))
	}
	for range 20 { // until the small buffer has room for the received bytes
		if r.Release(); len(r.Buf) == bufSize {
			break
		}
		if _, err := r.Borrow(); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.Buf) != bufSize || !r.Narrow() {
		t.Errorf("buffer of %d bytes", len(r.Buf))
	}
}

func TestArrayHeader(t *testing.T) {
	r := NewReader(iotest.OneByteReader(strings.NewReader("*2\r\n:1\r\n$1\r\nx\r\n*0\r\n*-1\r\n-ERR x\r\n$1\r\ny\r\n%1\r\n+a\r\n+b\r\n*1234567890\r\n")), Limits{})
	for i, want := range []struct {
		n    int
		kind Kind
	}{{2, Null}, {-2, Null}, {0, Null}, {-1, Null}, {-1, Error}, {-1, Bulk}, {-1, Map}} {
		if want.n == -2 { // the elements of the first array
			a, err1 := r.Borrow()
			one := a.Int()
			b, err2 := r.Borrow()
			if one != 1 || string(b.Bytes()) != "x" || err1 != nil || err2 != nil {
				t.Errorf("elements %d, %q, %v, %v", one, b.Bytes(), err1, err2)
			}
			continue
		}
		if n, v, err := r.ArrayHeader(); n != want.n || v.Kind() != want.kind || err != nil {
			t.Errorf("%d: %d, %v, %v", i, n, v.Kind(), err)
		}
	}
	var broken *ProtocolError
	if _, _, err := r.ArrayHeader(); !errors.As(err, &broken) {
		t.Error(err)
	}
	if _, _, err := NewReader(strings.NewReader("*1048577\r\n"), Limits{}).ArrayHeader(); !errors.As(err, &broken) {
		t.Error(err)
	}
}

func TestSomeReadsAllOfAString(t *testing.T) {
	for _, n := range []int{1, 100, wire.WidenFrom - 1, wire.WidenFrom, bufSize, step, step + 1, 5*step + 7} {
		want := bytes.Repeat([]byte("abc"), n/3+1)[:n]
		wire := append(AppendBulk(nil, want), ":7\r\n"...)
		for _, src := range []io.Reader{bytes.NewReader(wire), iotest.HalfReader(bytes.NewReader(wire))} {
			r := NewReader(src, Limits{})
			size, _, err := r.BulkHeader()
			if size != int64(n) || err != nil {
				t.Fatal(size, err)
			}
			var got []byte
			for len(got) < n {
				p, err := r.Some(size - int64(len(got)))
				if err != nil || len(p) == 0 {
					t.Fatalf("%d of %d bytes, then %d, %v", len(got), n, len(p), err)
				}
				got = append(got, p...)
			}
			if err := r.EndBulk(); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes: %v", n, err)
			}
			r.Release()
			if v, err := r.Read(); v.Int() != 7 || err != nil || len(r.Buf) != bufSize {
				t.Errorf("behind %d bytes: %v, %v, buffer of %d", n, v.Int(), err, len(r.Buf))
			}
		}
	}
	r := NewReader(strings.NewReader("$5\r\nab"), Limits{})
	r.BulkHeader()
	r.Some(5)
	if _, err := r.Some(3); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
}

// TestBorrowAfterFill: bytes that Fill has received must not be lost when
// Borrow is used next.
func TestBorrowAfterFill(t *testing.T) {
	first := AppendBulk(nil, make([]byte, 300_000))
	wire, want := rows()
	r := NewReader(bytes.NewReader(append(first, wire...)), Limits{})
	for {
		raw, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if raw != nil {
			break
		}
		if err := r.Fill(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range want {
		v, err := r.Borrow()
		if got := text(v); err != nil || got != want[i] {
			t.Fatalf("%d: %d bytes, %v; want %d", i, len(got), err, len(want[i]))
		}
		if i%5 == 0 {
			r.Release()
		}
	}
	if _, err := r.Borrow(); err != io.EOF || len(r.Buf) > step {
		t.Errorf("%v, and a buffer of %d bytes", err, len(r.Buf))
	}
}
