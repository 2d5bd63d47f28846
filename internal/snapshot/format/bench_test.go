package format_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/format"
)

// kib is an entry with a value of 1 KiB.
func kib(tags ...string) format.Entry {
	return format.Entry{Key: []byte("user:12345678"), Value: text(rand.New(rand.NewPCG(1, 1)), 1024), Fresh: time.Minute, Left: time.Hour, Weight: 1, ID: 77, Age: time.Second, Tags: tags}
}

func newWriter(t testing.TB, to io.Writer, m format.Mode) *format.Writer {
	t.Helper()
	w := format.NewWriter(to, headerOf(m))
	if _, err := w.Section(format.Section{Name: "users"}); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWritingAllocatesNothingPerEntry(t *testing.T) {
	w, keys := newWriter(t, io.Discard, format.Values), newWriter(t, io.Discard, format.Keys)
	e, long := kib("a", "b"), kib()
	long.Value = make([]byte, 2*format.MaxPayload)
	appendValue := func(b []byte) ([]byte, error) { return append(b, e.Value...), nil }
	for name, f := range map[string]func() error{
		"Entry":      func() error { return w.Entry(0, &e, appendValue) },
		"its value":  func() error { return w.Entry(0, &e, nil) },
		"long entry": func() error { return w.Entry(0, &long, nil) },
		"Key":        func() error { return keys.Key(0, "user:12345678") },
		"Drop":       func() error { return keys.Drop(0, "user:12345678", true) },
	} {
		f()
		var err error
		if n := testing.AllocsPerRun(2000, func() { err = f() }); n > 0 || err != nil {
			t.Errorf("%s: %v allocations, %v", name, n, err)
		}
	}
}

// snapshot returns a snapshot of n entries, or their keys.
func snapshot(t testing.TB, m format.Mode, n int, e format.Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := newWriter(t, &b, m)
	for range n {
		err := error(nil)
		if m == format.Keys {
			err = w.Key(0, string(e.Key))
		} else {
			err = w.Entry(0, &e, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// drain reads a whole snapshot.
func drain(t testing.TB, snapshot []byte, keep bool) {
	t.Helper()
	r := format.NewReader(bytes.NewReader(snapshot), format.Limits{Keep: keep})
	for {
		if _, err := r.Next(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadingAllocatesNothingPerEntry(t *testing.T) {
	const n = 10_000
	long := kib()
	long.Value = make([]byte, 2*format.MaxPayload)
	for name, tt := range map[string]struct {
		mode  format.Mode
		entry format.Entry
		most  float64
		keep  bool
	}{
		"entries":           {format.Values, kib(), 20, false},
		"entries to keep":   {format.Values, kib(), n / 50, true}, // one per frame
		"keys":              {format.Keys, kib(), 20, false},
		"tags to keep":      {format.Values, kib("a long tag", "another one"), n + n/50, true},
		"tags, not to keep": {format.Values, kib("a long tag", "another one"), 3*n + 20, false},
		"long entries":      {format.Values, long, 30, false},
	} {
		b := snapshot(t, tt.mode, min(n, 20<<20/len(tt.entry.Value)), tt.entry)
		allocs := testing.AllocsPerRun(3, func() {
			drain(t, b, tt.keep)
		})
		if allocs > tt.most {
			t.Errorf("%s: %v allocations for %d entries, at most %v", name, allocs, n, tt.most)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	for name, e := range map[string]format.Entry{"1KiB": kib(), "1KiB, tags": kib("group:1", "tenant:2")} {
		b.Run(name, func(b *testing.B) {
			w := newWriter(b, io.Discard, format.Values)
			appendValue := func(dst []byte) ([]byte, error) { return append(dst, e.Value...), nil }
			b.SetBytes(int64(len(e.Value)))
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Entry(0, &e, appendValue); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("key", func(b *testing.B) {
		w := newWriter(b, io.Discard, format.Keys)
		b.ReportAllocs()
		for b.Loop() {
			w.Key(0, "user:12345678")
		}
	})
}

func BenchmarkRead(b *testing.B) {
	const n = 20_000
	for name, tt := range map[string]struct {
		mode  format.Mode
		entry format.Entry
		keep  bool
	}{"1KiB": {format.Values, kib(), false}, "1KiB, keep": {format.Values, kib(), true}, "1KiB, keep, tags": {format.Values, kib("group:1", "tenant:2"), true}, "key": {format.Keys, kib(), false}} {
		b.Run(name, func(b *testing.B) {
			data := snapshot(b, tt.mode, n, tt.entry)
			if tt.mode == format.Values {
				b.SetBytes(int64(len(tt.entry.Value)))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += n {
				drain(b, data, tt.keep)
			}
		})
	}
}
