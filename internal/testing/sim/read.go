// Reads traces of requests, and makes traces of known shape.

package sim

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Suffix ends the names of files that Files finds.
const Suffix = ".u64.gz"

// MaxRequests is the number of requests of the longest trace that Read accepts: 64 Mi,
// which is half a gigabyte.
const MaxRequests = 64 << 20

var (
	// ErrTooLong is returned for a trace of more than MaxRequests.
	ErrTooLong = errors.New("trace: too many requests")
	// ErrMalformed is returned for bytes in another form than gzip, or for gzip of incomplete keys.
	ErrMalformed = errors.New("trace: malformed")
	// ErrNoTraces is returned for a folder without traces.
	ErrNoTraces = errors.New("trace: no files *" + Suffix)
)

// Read reads a trace: gzip of little-endian uint64 keys, one per request, in order.
// It stops after limit requests and does not look at the rest; a limit of 0 means none.
// No keys at all are an empty trace.
func Read(r io.Reader, limit int) ([]uint64, error) { return read(r, limit, MaxRequests) }

// read is Read for traces of at most longest requests.
func read(r io.Reader, limit, longest int) ([]uint64, error) {
	unzipped, err := gzip.NewReader(bufio.NewReader(r))
	if err != nil {
		return nil, fmt.Errorf("%w: no gzip: %w", ErrMalformed, err)
	}
	in := bufio.NewReaderSize(unzipped, 1<<16)
	var keys []uint64
	for limit <= 0 || len(keys) < limit {
		var word [8]byte
		n, err := io.ReadFull(in, word[:])
		switch {
		case err == io.EOF:
			return keys, nil
		case err == io.ErrUnexpectedEOF && n > 0 && ended(in):
			return nil, fmt.Errorf("%w: %d bytes after the last whole key of 8", ErrMalformed, n)
		case err != nil:
			return nil, fmt.Errorf("%w: after %d keys: %w", ErrMalformed, len(keys), err)
		case len(keys) == longest:
			return nil, fmt.Errorf("%w: more than %d", ErrTooLong, longest)
		}
		keys = append(keys, binary.LittleEndian.Uint64(word[:]))
	}
	return keys, nil
}

// ended reports whether in ended as gzip does, rather than in the middle of it.
func ended(in *bufio.Reader) bool {
	_, err := in.Peek(1)
	return err == io.EOF
}

// ReadFile reads the trace in a file, as Read does.
func ReadFile(path string, limit int) ([]uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	keys, err := Read(f, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

// Files returns the traces in a folder: the files with names that end in Suffix, sorted.
func Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), Suffix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%w in %s", ErrNoTraces, dir)
	}
	slices.Sort(paths)
	return paths, nil
}

// Name returns the name of the trace in a file: the name of the file without Suffix.
func Name(path string) string { return strings.TrimSuffix(filepath.Base(path), Suffix) }
