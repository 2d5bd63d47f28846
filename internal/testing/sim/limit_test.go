package sim

import (
	"bytes"
	"compress/gzip"
	"errors"
	"testing"
)

func TestReadRefusesATraceThatIsTooLong(t *testing.T) {
	for n, want := range map[int]error{10: nil, 11: ErrTooLong} {
		var file bytes.Buffer
		w := gzip.NewWriter(&file)
		if _, err := w.Write(make([]byte, 8*n)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		keys, err := read(&file, 0, 10)
		if !errors.Is(err, want) || err == nil && len(keys) != n {
			t.Errorf("%d requests of at most 10: got %d, %v, want %v", n, len(keys), err, want)
		}
	}
}
