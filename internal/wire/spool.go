// Reads a stream of unknown length to its end, so that its length
// is known before any of it is passed on. It keeps the bytes in memory up to a
// bound, and beyond that in a temporary file.

package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrTooLarge is returned for a stream longer than SpoolLimits.Size.
var ErrTooLarge = errors.New("spool: too large")

var errCount = errors.New("spool: reader returned a count that cannot be")

// SpoolMemory lends pieces of memory, each of the same size.
type SpoolMemory interface {
	// Get returns a piece of length zero.
	Get() []byte
	// Put takes a piece back.
	Put(piece []byte)
}

// SpoolLimits bound a spool.
type SpoolLimits struct {
	// Pieces is the number of pieces of memory to fill before a file is used.
	Pieces int
	// Size is the largest number of bytes to keep.
	Size int64
}

// Spool holds the bytes read from a stream. It is an io.Reader of them, for
// one caller at a time.
type Spool struct {
	mem    SpoolMemory
	lim    SpoolLimits
	pieces [][]byte
	file   *os.File
	size   int64
	read   int64
}

// ReadSpool reads r to its end. It returns ErrTooLarge as soon as the size limit is
// exceeded, the error of ctx if ctx ends between two pieces, or the error of r
// or of the file system. After an error nothing is kept.
func ReadSpool(ctx context.Context, r io.Reader, mem SpoolMemory, lim SpoolLimits) (*Spool, error) {
	s := &Spool{mem: mem, lim: lim}
	whole := false
	defer func() {
		if !whole { // also if r panics
			s.Close()
		}
	}()
	if err := s.fill(ctx, r); err != nil {
		return nil, err
	}
	whole = true
	return s, nil
}

// fill reads r piece by piece. Once there is a file, one piece is the buffer
// for it.
func (s *Spool) fill(ctx context.Context, r io.Reader) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		piece, err := s.piece()
		if err != nil {
			return err
		}
		n, err := Fill(r, piece[:cap(piece)])
		s.pieces[len(s.pieces)-1] = piece[:n]
		if s.size += int64(n); s.size > s.lim.Size {
			return ErrTooLarge
		}
		// The piece is a buffer now: its bytes must be in the file before it is filled again.
		if s.file != nil && n > 0 {
			if _, err := s.file.Write(piece[:n]); err != nil {
				return fmt.Errorf("spool: %w", err)
			}
		}
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return s.rewind()
		case err != nil:
			return err
		}
	}
}

// piece returns the piece for the next bytes.
func (s *Spool) piece() ([]byte, error) {
	if s.file == nil && len(s.pieces) == s.lim.Pieces {
		if err := s.spill(); err != nil {
			return nil, fmt.Errorf("spool: %w", err)
		}
	}
	if s.file != nil {
		return s.pieces[0], nil
	}
	s.pieces = append(s.pieces, s.mem.Get())
	return s.pieces[len(s.pieces)-1], nil
}

// idleReads is the number of allowed empty reads in a row.
const idleReads = 100

// Fill is io.ReadFull with one difference: it returns io.ErrNoProgress for a
// reader that repeatedly returns neither bytes nor an error.
func Fill(r io.Reader, p []byte) (n int, err error) {
	for idle := 0; n < len(p) && err == nil; idle++ {
		var m int
		m, err = r.Read(p[n:])
		switch {
		// Readers come from programs: a wrong count would be a panic far from its cause.
		case m < 0 || m > len(p)-n:
			return n, errCount
		case m > 0:
			n, idle = n+m, -1
		case err == nil && idle == idleReads:
			return n, io.ErrNoProgress
		}
	}
	switch {
	case n == len(p):
		return n, nil
	case n > 0 && err == io.EOF:
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// spill moves the bytes in memory to a file, and keeps one piece as a buffer.
func (s *Spool) spill() (err error) {
	if s.file, err = os.CreateTemp("", "strata-"); err != nil {
		return err
	}
	// Most systems can remove an open file; then no file is left if the process
	// is killed. On others Close removes it.
	_ = os.Remove(s.file.Name())
	for i, p := range s.pieces {
		if _, err = s.file.Write(p); err != nil {
			return err
		}
		if i > 0 {
			s.mem.Put(p)
		}
	}
	s.pieces = s.pieces[:1]
	return nil
}

func (s *Spool) rewind() error {
	if s.file == nil {
		return nil
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}

// Size returns the number of bytes held.
func (s *Spool) Size() int64 { return s.size }

// Read implements io.Reader.
func (s *Spool) Read(p []byte) (n int, err error) {
	if s.file != nil {
		return s.file.Read(p)
	}
	at := s.read
	for _, piece := range s.pieces {
		if at < int64(len(piece)) {
			n = copy(p, piece[at:])
			s.read += int64(n)
			return n, nil
		}
		at -= int64(len(piece))
	}
	return 0, io.EOF
}

// Close gives the memory back and removes the file. It can be called more than
// once.
func (s *Spool) Close() {
	for _, p := range s.pieces {
		s.mem.Put(p)
	}
	s.pieces = nil
	if s.file != nil {
		s.file.Close()
		_ = os.Remove(s.file.Name()) // spill has removed it on most systems
		s.file = nil
	}
}
