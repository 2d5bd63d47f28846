package sim_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/testing/sim"
)

func zip(t testing.TB, plain []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// stored is zip without compression: a header of 10 bytes, one of 5, then plain.
func stored(t testing.TB, plain []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func encode(keys ...uint64) (b []byte) {
	for _, key := range keys {
		b = binary.LittleEndian.AppendUint64(b, key)
	}
	return b
}

func TestReadReturnsTheKeysInOrder(t *testing.T) {
	want := []uint64{1, 1 << 40, 0, ^uint64(0), 1}
	file := zip(t, encode(want...))
	for limit, want := range map[int][]uint64{0: want, 3: want[:3], 5: want, 9: want} {
		got, err := sim.Read(bytes.NewReader(file), limit)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("limit %d: got %v, %v, want %v", limit, got, err, want)
		}
	}
	if got, err := sim.Read(bytes.NewReader(zip(t, nil)), 0); err != nil || len(got) != 0 {
		t.Errorf("no keys: got %v, %v", got, err)
	}
}

func TestReadRefusesMalformedTraces(t *testing.T) {
	whole := zip(t, encode(slices.Repeat([]uint64{1, 2, 3}, 1000)...))
	broken := slices.Clone(whole)
	broken[len(broken)-6] ^= 1 // checksum
	for text, file := range map[string][]byte{
		"no gzip":                              []byte("1\n2\n3\n"),
		"no gzip: EOF":                         nil,
		"3 bytes after the last whole key":     zip(t, append(encode(1, 2), 1, 2, 3)),
		"after 0 keys: unexpected EOF":         whole[:12],
		"checksum":                             broken,
		"after 1 keys: unexpected EOF":         stored(t, encode(1, 2, 3))[:10+5+8+4],
		"after 3000 keys: gzip: invalid heade": append(slices.Clone(whole), "more than ten bytes"...),
	} {
		got, err := sim.Read(bytes.NewReader(file), 0)
		if !errors.Is(err, sim.ErrMalformed) || !strings.Contains(err.Error(), text) || got != nil {
			t.Errorf("want an error with %q, got %d keys and %v", text, len(got), err)
		}
	}
}

func TestReadFileNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad"+sim.Suffix)
	if _, err := sim.ReadFile(path, 0); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("absent: %v", err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sim.ReadFile(path, 0); !errors.Is(err, sim.ErrMalformed) || !strings.Contains(err.Error(), path) {
		t.Errorf("malformed: %v", err)
	}
}

func TestFilesFindsTheTracesOfAFolder(t *testing.T) {
	dir := t.TempDir()
	if _, err := sim.Files(dir); !errors.Is(err, sim.ErrNoTraces) {
		t.Errorf("empty folder: %v", err)
	}
	for _, name := range []string{"b" + sim.Suffix, "a" + sim.Suffix, "README.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := sim.Files(dir)
	if err != nil || len(got) != 2 || sim.Name(got[0]) != "a" || sim.Name(got[1]) != "b" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := sim.Files(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent folder: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(zip(f, encode(1, 2, 3)), 0)
	f.Add(zip(f, encode(1, 2, 3)), 2)
	f.Add(zip(f, []byte("short")), 0)
	f.Add(zip(f, encode(7))[:15], 0)
	f.Add([]byte("text"), 0)
	f.Fuzz(func(t *testing.T, file []byte, limit int) {
		if limit > 0 {
			limit %= 100
		}
		keys, err := sim.Read(bytes.NewReader(file), limit)
		plain, wantErr := unzip(file)
		switch {
		case len(plain) > 8*sim.MaxRequests:
		case err != nil && keys != nil:
			t.Fatalf("%d keys and an error: %v", len(keys), err)
		case err == nil && !bytes.HasPrefix(plain, encode(keys...)):
			t.Fatalf("the keys %v are not those of the file", keys)
		case err == nil && (limit <= 0 || len(keys) < limit) && (wantErr != nil || len(plain) != 8*len(keys)):
			t.Fatalf("%d keys of %d bytes, and no error where gzip has %v", len(keys), len(plain), wantErr)
		case err != nil && !errors.Is(err, sim.ErrMalformed):
			t.Fatalf("an error of another kind: %v", err)
		case err != nil && wantErr == nil && len(plain)%8 == 0:
			t.Fatalf("an error for a good file: %v", err)
		}
	})
}

func unzip(file []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
