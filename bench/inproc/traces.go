package inproc

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// traceSuffix is how the names of traces end: gzip of little-endian uint64.
const traceSuffix = ".u64.gz"

// trace is a list of the keys of requests.
type trace struct {
	name     string
	keys     []uint64
	distinct int
}

// tracesIn returns the paths of the traces in a folder, none if there is no such
// folder.
func tracesIn(dir string) ([]string, error) {
	if dir == "" {
		return nil, nil
	}
	return filepath.Glob(filepath.Join(dir, "*"+traceSuffix))
}

// readTrace reads a trace, at most limit requests of it.
func readTrace(path string, limit int) (trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return trace{}, err
	}
	defer f.Close()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return trace{}, fmt.Errorf("inproc: %s: %w", path, err)
	}
	t := trace{name: strings.TrimSuffix(filepath.Base(path), traceSuffix)}
	seen := map[uint64]bool{}
	r := bufio.NewReaderSize(z, 1<<16)
	var b [8]byte
	for len(t.keys) < limit {
		if _, err := io.ReadFull(r, b[:]); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return trace{}, fmt.Errorf("inproc: %s: %w", path, err)
		}
		key := binary.LittleEndian.Uint64(b[:])
		t.keys = append(t.keys, key)
		seen[key] = true
	}
	t.distinct = len(seen)
	return t, nil
}
