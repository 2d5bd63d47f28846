package wire_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/strata-cache/strata/internal/wire"
)

// memory lends pieces of ten bytes and counts them.
type memory struct{ out, most int }

func (m *memory) Get() []byte {
	m.out++
	m.most = max(m.most, m.out)
	return make([]byte, 0, 10)
}

func (m *memory) Put([]byte) { m.out-- }

// folder makes an empty folder for temporary files.
func folder(t *testing.T) (files func() int) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	return func() int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
}

func TestSpoolHoldsTheBytesRead(t *testing.T) {
	files := folder(t)
	for n := range 100 {
		want := strings.Repeat("0123456789abcde", 10)[:n]
		for _, wrap := range []func(io.Reader) io.Reader{
			func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader,
		} {
			m := &memory{}
			s, err := wire.ReadSpool(t.Context(), wrap(strings.NewReader(want)), m, wire.SpoolLimits{Pieces: 4, Size: 100})
			if err != nil {
				t.Fatal(n, err)
			}
			if n := files(); n != 0 && runtime.GOOS != "windows" {
				t.Errorf("%d files would outlive the process", n)
			}
			if err := iotest.TestReader(s, []byte(want)); err != nil || s.Size() != int64(n) {
				t.Errorf("%d bytes: %v, size %d", n, err, s.Size())
			}
			s.Close()
			s.Close()
			if m.out != 0 || m.most > 5 || files() != 0 {
				t.Errorf("%d bytes: %d pieces kept, %d at most, %d files", n, m.out, m.most, files())
			}
		}
	}
}

func TestSpoolKeepsNothingAfterAnError(t *testing.T) {
	files := folder(t)
	cancelled, cancel := context.WithCancel(t.Context())
	own := errors.New("own")
	endless := func(f func(n int)) io.Reader {
		n := 0
		return readerFunc(func(p []byte) (int, error) {
			n++
			f(n)
			return copy(p, "x"), nil
		})
	}
	for name, tc := range map[string]struct {
		r    io.Reader
		want error
	}{
		"fails at once":      {iotest.ErrReader(own), own},
		"fails":              {io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(own)), own},
		"fails in the file":  {io.MultiReader(bytes.NewReader(make([]byte, 90)), iotest.ErrReader(own)), own},
		"too large":          {bytes.NewReader(make([]byte, 101)), wire.ErrTooLarge},
		"without end":        {endless(func(int) {}), wire.ErrTooLarge},
		"cancelled":          {endless(func(n int) { cancelAt(n, 25, cancel) }), context.Canceled},
		"panics":             {endless(func(n int) { panicAt(n, 5) }), nil},
		"panics in the file": {endless(func(n int) { panicAt(n, 55) }), nil},
	} {
		m := &memory{}
		func() {
			defer func() {
				if v := recover(); (v != nil) != (tc.want == nil) {
					t.Errorf("%s: panic %v", name, v)
				}
			}()
			ctx := t.Context()
			if name == "cancelled" {
				ctx = cancelled
			}
			if s, err := wire.ReadSpool(ctx, tc.r, m, wire.SpoolLimits{Pieces: 4, Size: 100}); s != nil || !errors.Is(err, tc.want) {
				t.Errorf("%s: %v, %v", name, s, err)
			}
		}()
		if m.out != 0 || files() != 0 {
			t.Errorf("%s: %d pieces kept, %d files", name, m.out, files())
		}
	}
}

func cancelAt(n, at int, cancel func()) {
	if n == at {
		cancel()
	}
}

func panicAt(n, at int) {
	if n == at {
		panic("reader")
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestSpoolWithoutRoomForFilesSaysSo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/none")
	m := &memory{}
	_, err := wire.ReadSpool(t.Context(), bytes.NewReader(make([]byte, 50)), m, wire.SpoolLimits{Pieces: 4, Size: 100})
	if !errors.Is(err, os.ErrNotExist) || m.out != 0 {
		t.Errorf("%v, %d pieces kept", err, m.out)
	}
}
