package resp

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// collect passes wire to a Collector in pieces, some by Write and some by
// ReadFrom, and returns the result.
func collect(wire []byte, lim Limits, rnd *rand.Rand) (Value, error) {
	c := &Collector{Limits: lim}
	for len(wire) > 0 {
		n := 1 + rnd.IntN(len(wire))
		piece := wire[:n]
		wire = wire[n:]
		var err error
		if rnd.IntN(2) == 0 {
			_, err = c.Write(piece)
		} else {
			_, err = c.ReadFrom(bytes.NewReader(piece))
		}
		if err != nil {
			break
		}
	}
	return c.Value()
}

func TestCollectorAgreesWithReader(t *testing.T) {
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		for _, tc := range sound() {
			v, err := collect([]byte(tc.wire), Limits{}, rnd)
			if err != nil || v.Kind() != tc.kind || string(v.Bytes()) != tc.text {
				t.Errorf("%s: %v %q, %v", tc.name, v.Kind(), v.Bytes(), err)
			}
		}
		for _, tc := range hostile() {
			v, err := collect([]byte(tc.reply[:min(len(tc.reply), 10<<20)]), Limits{}, rnd)
			var broken *ProtocolError
			switch {
			case err == nil:
				t.Errorf("%s: accepted as %v", tc.name, v.Kind())
			case tc.wait && err != io.ErrUnexpectedEOF, !tc.wait && !errors.As(err, &broken):
				t.Errorf("%s: error %v; incomplete: %v", tc.name, err, tc.wait)
			}
		}
	}
}

func TestCollectorTakesOneValueAndNoMore(t *testing.T) {
	for _, wire := range []string{"+OK\r\n+OK\r\n", "$1\r\nx\r\ny", ":1\r\n\r\n"} {
		c := &Collector{}
		_, err := io.WriteString(c, wire)
		var broken *ProtocolError
		if !errors.As(err, &broken) {
			t.Errorf("%q: %v", wire, err)
		}
		if n, err := c.Write([]byte("+OK\r\n")); n != 0 || err == nil {
			t.Errorf("%q: a write after the error took %d, %v", wire, n, err)
		}
		if v, err := c.Value(); err == nil {
			t.Errorf("%q: the value is %v", wire, v.Kind())
		}
	}
	if v, err := new(Collector).Value(); err != io.ErrUnexpectedEOF {
		t.Errorf("nothing is %v, %v", v.Kind(), err)
	}
}

func TestCollectorPassesOnTheErrorsOfItsSource(t *testing.T) {
	c := &Collector{}
	if n, err := c.ReadFrom(&stalled{"$5\r\nhel"}); n != 7 || err != errStalled {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := c.ReadFrom(&stuck{}); n != 0 || err != io.ErrNoProgress {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := io.WriteString(c, "lo\r\n"); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Value(); err != nil || string(v.Bytes()) != "hello" {
		t.Errorf("%q, %v", v.Bytes(), err)
	}
}

func TestMemoryOfACollectorFollowsTheBytesReceived(t *testing.T) {
	for _, tc := range []struct{ head, body string }{
		{"$536870912\r\n", "abc"},
		{"$536870912\r\n", strings.Repeat("x", 1<<20)},
		{"*1048576\r\n", ":1\r\n"},
	} {
		c := &Collector{}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		io.WriteString(c, tc.head)
		c.ReadFrom(&stalled{tc.body})
		runtime.ReadMemStats(&after)
		// Memory that append has replaced counts too: the size doubles each
		// time.
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(4*len(tc.body)+3*step); got > most {
			t.Errorf("%q and %d bytes took %d bytes; want at most %d", tc.head, len(tc.body), got, most)
		}
		runtime.KeepAlive(c)
	}
}

func FuzzCollector(f *testing.F) {
	for _, tc := range hostile() {
		f.Add([]byte(tc.reply[:min(len(tc.reply), 4096)]), uint64(1))
	}
	for _, s := range sound() {
		f.Add([]byte(s.wire), uint64(2))
	}
	f.Add([]byte(everything()), uint64(3))
	small := Limits{Bulk: 1 << 10, Reply: 2 << 10, Line: 100, Elements: 1000, Depth: 5}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		got, err := collect(data, small, rand.New(rand.NewPCG(seed, 0)))
		r := NewReader(bytes.NewReader(data), small)
		want, wantErr := r.Read()
		switch {
		case wantErr == io.EOF, wantErr == nil && r.Buffered() > 0:
			if err == nil {
				t.Fatalf("%v of something else than one value", got.Kind())
			}
			return
		case (err == nil) != (wantErr == nil):
			t.Fatalf("collector: %v, reader: %v", err, wantErr)
		}
		var a, b strings.Builder
		describe(&a, got, 0)
		describe(&b, want, 0)
		if a.String() != b.String() {
			t.Fatalf("collector:\n%s\nreader:\n%s", &a, &b)
		}
	})
}
