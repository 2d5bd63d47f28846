package resp

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
)

// readers are all ways to read a string; each returns it as text.
func readers() map[string]func(*Reader) (string, error) {
	return map[string]func(*Reader) (string, error){
		"Read":   func(r *Reader) (string, error) { v, err := r.Read(); return string(v.Bytes()), err },
		"Borrow": func(r *Reader) (string, error) { v, err := r.Borrow(); return string(v.Bytes()), err },
		"Next": func(r *Reader) (string, error) {
			for {
				raw, err := r.Next()
				if err != nil {
					return "", err
				}
				if raw != nil {
					return string(Parse(raw).Bytes()), nil
				}
				if err := r.Fill(); err != nil {
					return "", err
				}
			}
		},
		"AppendBulk": func(r *Reader) (string, error) {
			out, found, v, err := r.AppendBulk(nil)
			if err == nil && !found {
				return string(v.Bytes()), nil
			}
			return string(out), err
		},
		"BulkHeader": func(r *Reader) (string, error) {
			n, v, err := r.BulkHeader()
			if err != nil || n < 0 {
				return "not a string: " + v.Kind().String(), err
			}
			p := make([]byte, n)
			for at := 0; at < len(p) && err == nil; {
				var m int
				m, err = r.Body(p[at:])
				at += m
			}
			if err == nil {
				err = r.EndBulk()
			}
			return string(p), err
		},
	}
}

// sources return the same bytes in pieces of different lengths.
func sources() map[string]func(string) io.Reader {
	return map[string]func(string) io.Reader{
		"at once":     func(s string) io.Reader { return strings.NewReader(s) },
		"one by one":  func(s string) io.Reader { return iotest.OneByteReader(strings.NewReader(s)) },
		"head, value": func(s string) io.Reader { return &chunk{s, strings.Index(s, "\n") + 1} },
	}
}

// chunk returns its first n bytes at once, and then the rest.
type chunk struct {
	s string
	n int
}

func (c *chunk) Read(p []byte) (n int, err error) {
	if c.s == "" {
		return 0, io.EOF
	}
	n = copy(p, c.s[:c.n])
	c.s, c.n = c.s[n:], len(c.s)-n
	return n, nil
}

// inEveryWay calls f for each way of reading and each source.
func inEveryWay(wire string, f func(way string, source io.Reader, read func(*Reader) (string, error))) {
	for way, read := range readers() {
		for cut, source := range sources() {
			f(way+", "+cut, source(wire), read)
		}
	}
}

// TestLimitsOfAStringAreThoseOfItsBytesInEveryWay: the result depends neither
// on the way of reading nor on the division into pieces.
func TestLimitsOfAStringAreThoseOfItsBytesInEveryWay(t *testing.T) {
	const most = 100
	for _, lim := range []Limits{{Reply: most}, {Bulk: most}, {Bulk: most, Reply: most}} {
		for n := most - 8; n <= most+8; n++ {
			wire := fmt.Sprintf("$%d\r\n%s\r\n", n, strings.Repeat("x", n))
			inEveryWay(wire, func(way string, source io.Reader, read func(*Reader) (string, error)) {
				s, err := read(NewReader(source, lim))
				var broken *ProtocolError
				if n <= most && (err != nil || len(s) != n) || n > most && !errors.As(err, &broken) {
					t.Errorf("%+v: %d bytes, %s: %d bytes, %v", lim, n, way, len(s), err)
				}
			})
		}
	}
}

func TestEveryWayUnderstandsAttributesAndVerbatimStrings(t *testing.T) {
	for _, wire := range []string{
		"|1\r\n+ttl\r\n:3\r\n$2\r\nhi\r\n",
		"|0\r\n$2\r\nhi\r\n",
		"|1\r\n+a\r\n*2\r\n:1\r\n|1\r\n+b\r\n:2\r\n$3\r\nabc\r\n|1\r\n+c\r\n#t\r\n$2\r\nhi\r\n",
		"=6\r\ntxt:hi\r\n",
		"|1\r\n+a\r\n+b\r\n=6\r\nmkd:hi\r\n",
		"|1\r\n$9\r\n123456789\r\n$200\r\n" + strings.Repeat("y", 200) + "\r\n$2\r\nhi\r\n",
	} {
		inEveryWay(wire, func(way string, source io.Reader, read func(*Reader) (string, error)) {
			r := NewReader(source, Limits{})
			if s, err := read(r); s != "hi" || err != nil || r.Buffered() != 0 {
				t.Errorf("%q, %s: %q, %v", wire, way, s, err)
			}
		})
	}
	for _, wire := range []string{"|1\r\n+a\r\n+b\r\n", "|1\r\n+a\r\n", "|1", "|0\r\n", "=6\r\nt"} {
		for way, read := range readers() {
			if s, err := read(NewReader(strings.NewReader(wire), Limits{})); !errors.Is(err, io.ErrUnexpectedEOF) && way != "Next" {
				t.Errorf("%q, %s: %q, %v", wire, way, s, err)
			}
		}
	}
}

func TestEveryWayBoundsAttributes(t *testing.T) {
	for _, wire := range []string{
		strings.Repeat("|0\r\n", 12), "|6\r\n", "|1\r\n+a\r\n*9\r\n", "|1\r\n>1\r\n+x\r\n+b\r\n",
		"|1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "|4611686018427387904\r\n", "|999999999\r\n", "|-1\r\n",
		"|1\r\n+a\r\n$300\r\n",
	} {
		for way, read := range readers() {
			var broken *ProtocolError
			_, err := read(NewReader(strings.NewReader(wire), Limits{Elements: 10, Depth: 3, Bulk: 200}))
			if !errors.As(err, &broken) {
				t.Errorf("%q, %s: %v", wire, way, err)
			}
		}
	}
}

// TestLimitsWithoutBoundDoNotOverflow: with any limits, memory for a length
// close to math.MaxInt is not reserved.
func TestLimitsWithoutBoundDoNotOverflow(t *testing.T) {
	for _, wire := range []string{
		fmt.Sprintf("$%d\r\nabc", math.MaxInt), fmt.Sprintf("|1\r\n+a\r\n+b\r\n$%d\r\nabc", math.MaxInt),
		fmt.Sprintf("*2\r\n:1\r\n$%d\r\nabc", math.MaxInt), fmt.Sprintf("=%d\r\ntxt:abc", math.MaxInt),
	} {
		for way, read := range readers() {
			var broken *ProtocolError
			if _, err := read(NewReader(strings.NewReader(wire), Limits{Bulk: math.MaxInt, Reply: math.MaxInt})); !errors.As(err, &broken) {
				t.Errorf("%q, %s: %v", wire, way, err)
			}
		}
	}
}

// TestNextCollectsRepliesThatDoNotFit: a row of replies of all sizes is returned
// complete and in order, for any division into pieces.
func TestNextCollectsRepliesThatDoNotFit(t *testing.T) {
	var wire []byte
	var want []string
	for i, n := range []int{1, 100, bufSize/2 - 10, bufSize / 2, bufSize - 4, bufSize, 3, step, step + 1, 5, 300_000, 0, 70_000, 1 << 20, 2} {
		at := len(wire)
		s := []byte(strings.Repeat(string(rune('a'+i)), n))
		switch i % 3 {
		case 0:
			wire = AppendBulk(wire, s)
		case 1:
			wire = AppendInt(AppendBulk(AppendInt(AppendArray(wire, 3), 1), s), 2)
		case 2:
			wire = AppendBulk(AppendInt(AppendMap(AppendArray(wire, 2), 1), 7), s)
			wire = AppendStatus(wire, "OK")
		}
		want = append(want, string(wire[at:]))
	}
	for _, most := range []int{7, 1000, 16 << 10, 40 << 10, 1 << 20} {
		src := &pieces{wire, most}
		r := NewReader(src, Limits{})
		for i := 0; i < len(want); {
			raw, err := r.Next()
			switch {
			case err != nil:
				t.Fatal(err)
			case raw == nil:
				err = r.Fill()
			default:
				if string(raw) != want[i] {
					t.Fatalf("pieces of %d, reply %d: %d bytes, want %d", most, i, len(raw), len(want[i]))
				}
				i++
			}
			if err != nil {
				t.Fatalf("pieces of %d, reply %d: %v", most, i, err)
			}
			if len(r.Buf) > bufSize {
				t.Fatalf("a buffer of %d bytes", len(r.Buf))
			}
		}
		if n := r.Buffered(); n != 0 {
			t.Errorf("pieces of %d: %d bytes are left", most, n)
		}
	}
}

// pieces is a source that returns at most so many bytes per Read.
type pieces struct {
	rest []byte
	most int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(p.most, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}
