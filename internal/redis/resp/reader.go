package resp

import (
	"io"

	"github.com/strata-cache/strata/internal/wire"
)

// Names of package wire.
const (
	bufSize   = wire.BufferSize
	step      = wire.BufferStep
	idleReads = wire.IdleReads
)

// Steps lends memory for large values to any number of Readers.
type Steps = wire.Steps

// Reader reads replies, or commands, from a stream. It may read ahead. After an
// error the position is undefined, except after io.EOF and after errors of the
// source in [Reader.Wait] and [Reader.Fill]. Error replies of the server are
// values, not errors. A Reader is not safe for concurrent use.
type Reader struct {
	wire.Buffer
	lim  Limits
	scan scanner
	// scanning is true while scan is in the middle of a reply for Next, push if it is a push.
	scanning, push bool
}

// NewReader returns a Reader for src. Zero fields of lim mean defaults.
func NewReader(src io.Reader, lim Limits) *Reader {
	return &Reader{Buffer: wire.NewBuffer(src), lim: lim.withDefaults()}
}

// Read returns the next value, which the caller owns. The error is a
// [*ProtocolError], io.EOF if the stream ended between two values,
// io.ErrUnexpectedEOF if it ended inside a value, or the error of the source.
func (r *Reader) Read() (Value, error) { return r.ReadTo(nil) }

// ReadTo is Read, with memory of s for a value other than a string; nil is no Slab.
func (r *Reader) ReadTo(s *Slab) (Value, error) {
	if err := r.begin(); err != nil {
		return Value{}, err
	}
	if r.Buf[r.Pos] == '$' {
		body, null, err := r.bulk(nil)
		if err != nil || null {
			return Value{}, err
		}
		return Value{kind: Bulk, body: body}, nil
	}
	raw, err := r.whole(s)
	if err != nil {
		return Value{}, err
	}
	v, _ := parse(raw)
	return v, nil
}

// AppendBulk reads the next value. If it is a string, its bytes are appended to
// dst, directly from the source if dst has room, and found is true. If it is
// null, found is false. If it is of another kind, dst is returned unchanged and
// v holds the value.
func (r *Reader) AppendBulk(dst []byte) (out []byte, found bool, v Value, err error) {
	if err = r.begin(); err != nil {
		return dst, false, v, err
	}
	if r.Buf[r.Pos] != '$' {
		v, err = r.Read()
		return dst, false, v, err
	}
	out, null, err := r.bulk(dst)
	if err != nil {
		return dst, false, v, err
	}
	return out, !null, v, nil
}

// BulkHeader reads the header of the next value if it is a string, and returns
// its length; [Reader.Body] then reads the bytes, and [Reader.EndBulk] the end.
// A verbatim string counts as a string, without its format. If the value is
// null or of another kind, n is -1 and v holds it.
func (r *Reader) BulkHeader() (n int64, v Value, err error) {
	if err = r.begin(); err != nil {
		return -1, v, err
	}
	switch r.Buf[r.Pos] {
	case '$':
		return r.bulkHeader(v)
	case '=':
		if n, v, err = r.bulkHeader(v); err != nil {
			return -1, v, err
		}
		// The format is a part of the announced length, but not of the text.
		for r.End-r.Pos < 4 {
			if err = r.More(); err != nil {
				return -1, v, err
			}
		}
		if r.Buf[r.Pos+3] == ':' {
			r.Pos, n = r.Pos+4, n-4
		}
		return n, v, nil
	}
	v, err = r.Read()
	return -1, v, err
}

func (r *Reader) bulkHeader(v Value) (int64, Value, error) {
	h, err := r.header()
	switch {
	case err != nil || h.kind == Null:
		return -1, v, err
	case h.n > int64(r.lim.Bulk) || h.n > int64(r.lim.Reply):
		return -1, v, broken("string over the limit")
	}
	return h.n, v, nil
}

// header reads the header line of a string or an array.
func (r *Reader) header() (header, error) {
	if c := r.Buf[r.Pos]; c == '$' || c == '*' {
		// The kind is also Bulk for an array: callers have seen the type byte, and only tell null
		// from the rest.
		if n, size := shortLength(r.Buf[r.Pos:r.End]); size > 0 {
			r.Pos += size
			return header{kind: Bulk, n: n}, nil
		}
	}
	for {
		h, err := parseHeader(r.Buf[r.Pos:r.End])
		if err != nil || h.size > 0 {
			r.Pos += h.size
			return h, err
		}
		if err := r.More(); err != nil {
			return h, err
		}
	}
}

// EndBulk reads the CRLF after the last byte of a string.
func (r *Reader) EndBulk() error {
	ok, err := r.CRLF()
	if err == nil && !ok {
		err = broken("string does not end in CRLF")
	}
	return err
}

// bulk reads a string and appends it to dst.
func (r *Reader) bulk(dst []byte) (out []byte, null bool, err error) {
	size, _, err := r.bulkHeader(Value{})
	if err != nil || size < 0 {
		return dst, true, err
	}
	out, err = r.Append(dst, int(size))
	if err == nil {
		err = r.EndBulk()
	}
	return out, false, err
}

// whole reads one value of any kind and returns its bytes. The caller owns
// them, except the bytes of a value without text.
func (r *Reader) whole(s *Slab) ([]byte, error) {
	r.scan.reset(&r.lim)
	n, err := r.scan.Feed(r.Buf[r.Pos:r.End])
	if err != nil {
		return nil, err
	}
	if r.scan.Done() {
		raw := r.Buf[r.Pos : r.Pos+n]
		r.Pos += n
		// After parse, these values refer to no bytes of the buffer: a copy would be in vain.
		switch raw[0] {
		case ':', '#', '_', ',':
			return raw, nil
		case '+':
			if string(raw) == "+OK\r\n" {
				return raw, nil
			}
		}
		return s.clone(raw), nil
	}
	return r.Rest(&r.scan, n)
}

// slabMost is the size of the largest piece of memory that values share: so much is kept alive
// by one of them at most. Larger pieces are large objects of the allocator, and take longer.
const slabMost = 32 << 10

// Slab gives values of one batch their memory: some share a piece. The zero Slab has none.
type Slab struct {
	// Left is the number of values still to come, the next one among them.
	Left  int
	piece []byte
}

// clone copies the bytes of a value. A new piece has room for the values to come if they are about
// as long as this one. A nil Slab makes a piece for each value.
func (s *Slab) clone(raw []byte) []byte {
	if s == nil {
		return append(make([]byte, 0, len(raw)), raw...)
	}
	if cap(s.piece)-len(s.piece) < len(raw) {
		const spare = 8 // for longer ones
		s.piece = make([]byte, 0, max(len(raw), min(slabMost, (len(raw)+spare)*s.Left)))
	}
	from := len(s.piece)
	s.piece = append(s.piece, raw...)
	return s.piece[from:len(s.piece):len(s.piece)]
}
