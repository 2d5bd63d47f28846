// Package flate is the format of compress/flate for [codec.Compressed]: compression
// without modules of others. It is a separate package because it links compress/flate.
//
// It compresses at the level flate.BestSpeed. The module contrib/zstd is faster.
package flate

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/strata-cache/strata/codec"
)

// New returns the format named "flate". It keeps the memory of its compressors, which is
// 1.2 MiB for each call of Append that runs at the same time, until the garbage
// collector takes it.
func New() codec.Compressor { return &format{} }

type format struct {
	writers sync.Pool // of *writer
	readers sync.Pool // of *reader
}

// Name implements [codec.Compressor].
func (*format) Name() string { return "flate" }

// writer compresses into out.
type writer struct {
	*flate.Writer
	out output
}

// output is an io.Writer that appends to b.
type output struct{ b []byte }

// Write appends p.
func (o *output) Write(p []byte) (int, error) {
	o.b = append(o.b, p...)
	return len(p), nil
}

// Compress implements [codec.Compressor].
func (f *format) Compress(dst, src []byte) ([]byte, error) {
	w, err := f.writer()
	if err != nil {
		return dst, err
	}
	w.out.b = dst
	w.Reset(&w.out)
	_, err = w.Write(src)
	err = errors.Join(err, w.Close())
	out := w.out.b
	w.out.b = nil
	f.writers.Put(w)
	return out, err
}

func (f *format) writer() (*writer, error) {
	if w, ok := f.writers.Get().(*writer); ok {
		return w, nil
	}
	inner, err := flate.NewWriter(nil, flate.BestSpeed)
	return &writer{Writer: inner}, err
}

// reader decompresses in.
type reader struct {
	io.ReadCloser
	in   bytes.Reader
	more [1]byte // room for a byte too many
}

// Decompress implements [codec.Compressor].
func (f *format) Decompress(dst, src []byte) ([]byte, error) {
	r := f.reader(src)
	out, err := r.fill(dst)
	if err == nil && r.in.Len() > 0 {
		err = codec.ErrLong
	}
	r.in.Reset(nil)
	f.readers.Put(r)
	return out, err
}

func (f *format) reader(src []byte) *reader {
	r, ok := f.readers.Get().(*reader)
	if !ok {
		r = &reader{}
		r.ReadCloser = flate.NewReader(&r.in)
	}
	r.in.Reset(src)
	// It has the method, and the method returns no errors.
	_ = r.ReadCloser.(flate.Resetter).Reset(&r.in, nil)
	return r
}

// fill appends to dst all that r decompresses, within its capacity.
func (r *reader) fill(dst []byte) ([]byte, error) {
	for {
		room := dst[len(dst):cap(dst)]
		full := len(room) == 0
		if full {
			room = r.more[:]
		}
		n, err := r.Read(room)
		if full && n > 0 {
			return dst, io.ErrShortBuffer
		}
		if dst = dst[:len(dst)+n]; err != nil {
			return dst, reason(err)
		}
	}
}

// reason returns the error of package codec for one of compress/flate: nil for the end
// of the stream.
func reason(err error) error {
	switch err {
	case io.EOF:
		return nil
	case io.ErrUnexpectedEOF:
		return codec.ErrShort
	}
	return fmt.Errorf("%w: %w", codec.ErrMalformed, err)
}
