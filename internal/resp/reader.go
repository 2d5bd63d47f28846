package resp

import (
	"bytes"
	"io"
	"sync"
)

const (
	// bufSize is the read buffer of a connection.
	bufSize = 32 << 10
	// step is the amount of memory that is reserved ahead of the bytes that
	// arrive.
	step = 64 << 10
	// direct is the size from which bytes are read to their destination instead
	// of through the buffer. The last tail bytes go through the buffer, so that
	// the CRLF after them costs no extra read.
	direct = 16 << 10
	tail   = 4 << 10
	// eagerMax is the longest string for which memory is reserved when its
	// length arrives. For a longer string it is reserved when a lazyShare-th of
	// the bytes have arrived.
	eagerMax  = 1 << 20
	lazyShare = 8
	// idleReads is the number of empty reads in a row that are allowed.
	idleReads = 100
)

// Reader reads replies, or commands, from a stream. It may read ahead. After an
// error the position is undefined, except after io.EOF and after errors of the
// source in [Reader.Wait] and [Reader.Fill]. Error replies of the server are
// values, not errors. A Reader is not safe for concurrent use.
type Reader struct {
	src      io.Reader
	buf      []byte
	pos, end int
	lim      Limits
	received uint64
	scan     scanner
	sink     sink
	// scanning is true while scan is in the middle of a reply for Next, and
	// scanned is the number of its bytes in buf that were scanned.
	scanning bool
	scanned  int
	// collected is the number of bytes of that reply in sink.
	collected int
	narrow    []byte // the usual buffer while Borrow uses a larger one
}

// NewReader returns a Reader for src. Zero fields of lim mean defaults.
func NewReader(src io.Reader, lim Limits) *Reader {
	return &Reader{src: src, buf: make([]byte, bufSize), lim: lim.withDefaults()}
}

// Share makes the reader borrow memory from s, which several readers may share.
func (r *Reader) Share(s *Steps) { r.sink.steps = s }

// Buffered returns the number of bytes that were received and not yet returned.
func (r *Reader) Buffered() int { return r.end - r.pos + r.collected }

// Received returns the number of bytes that were read from the source.
func (r *Reader) Received() uint64 { return r.received }

// Wait returns once at least one byte of the next reply has arrived. After an
// error of the source, such as a passed deadline, Wait can be called again.
func (r *Reader) Wait() error {
	for r.pos == r.end {
		if err := r.fill(); err != nil {
			return err
		}
	}
	return nil
}

// Read returns the next value, which the caller owns. The error is a
// [*ProtocolError], io.EOF if the stream ended between two values,
// io.ErrUnexpectedEOF if it ended inside a value, or the error of the source.
func (r *Reader) Read() (Value, error) {
	if err := r.begin(); err != nil {
		return Value{}, err
	}
	if r.buf[r.pos] == '$' {
		body, null, err := r.bulk(nil)
		if err != nil || null {
			return Value{}, err
		}
		return Value{kind: Bulk, body: body}, nil
	}
	raw, err := r.whole()
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
	if r.buf[r.pos] != '$' {
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
	switch r.buf[r.pos] {
	case '$':
		return r.bulkHeader(v)
	case '=':
		if n, v, err = r.bulkHeader(v); err != nil {
			return -1, v, err
		}
		for r.end-r.pos < 4 {
			if err = r.more(); err != nil {
				return -1, v, err
			}
		}
		if r.buf[r.pos+3] == ':' {
			r.pos, n = r.pos+4, n-4
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
	if c := r.buf[r.pos]; c == '$' || c == '*' {
		if n, size := shortLength(r.buf[r.pos:r.end]); size > 0 {
			r.pos += size
			return header{kind: Bulk, n: n}, nil
		}
	}
	for {
		h, err := parseHeader(r.buf[r.pos:r.end])
		if err != nil || h.size > 0 {
			r.pos += h.size
			return h, err
		}
		if err := r.more(); err != nil {
			return h, err
		}
	}
}

// Body reads bytes of a string after its header. p must not be longer than the
// rest of the string.
func (r *Reader) Body(p []byte) (int, error) {
	if r.pos < r.end {
		n := copy(p, r.buf[r.pos:r.end])
		r.pos += n
		return n, nil
	}
	if len(p) < direct {
		if err := r.more(); err != nil {
			return 0, err
		}
		n := copy(p, r.buf[r.pos:r.end])
		r.pos += n
		return n, nil
	}
	return r.receive(p)
}

// EndBulk reads the CRLF after the last byte of a string.
func (r *Reader) EndBulk() error {
	for r.end-r.pos < 2 {
		if err := r.more(); err != nil {
			return err
		}
	}
	if r.buf[r.pos] != '\r' || r.buf[r.pos+1] != '\n' {
		return broken("string does not end in CRLF")
	}
	r.pos += 2
	return nil
}

// bulk reads a string and appends it to dst.
func (r *Reader) bulk(dst []byte) (out []byte, null bool, err error) {
	size, _, err := r.bulkHeader(Value{})
	if err != nil || size < 0 {
		return dst, true, err
	}
	n := int(size)
	have := len(dst)
	switch {
	case dst == nil && n == 0:
		out = []byte{} // an empty string, not null
	case cap(dst)-have >= n:
		out = dst[:have+n]
		err = r.fillAll(out[have:])
	default:
		out, err = r.large(dst, n)
	}
	if err == nil {
		err = r.EndBulk()
	}
	return out, false, err
}

// large reads n bytes and appends them to dst, in new memory. Beyond eagerMax
// it reserves that memory only after part of the bytes have arrived.
func (r *Reader) large(dst []byte, n int) ([]byte, error) {
	ahead := 0
	if n > eagerMax {
		ahead = n / lazyShare
	}
	for left := ahead; left > 0; {
		space := r.sink.space(left)
		if err := r.fillAll(space); err != nil {
			r.sink.drop()
			return nil, err
		}
		r.sink.advance(len(space))
		left -= len(space)
	}
	have := len(dst)
	out := make([]byte, have+n)
	copy(out, dst)
	r.sink.copyTo(out[have:])
	if err := r.fillAll(out[have+ahead:]); err != nil {
		return nil, err
	}
	return out, nil
}

// fillAll reads until p is full.
func (r *Reader) fillAll(p []byte) error {
	for len(p) > 0 {
		part := p
		if len(p) >= direct {
			part = p[:len(p)-tail]
		}
		n, err := r.Body(part)
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// whole reads one value of any kind and returns its bytes. The caller owns
// them, except those of a value without text.
func (r *Reader) whole() ([]byte, error) {
	r.scan.reset(&r.lim)
	n, err := r.scan.feed(r.buf[r.pos:r.end])
	if err != nil {
		return nil, err
	}
	if r.scan.done() {
		raw := r.buf[r.pos : r.pos+n]
		r.pos += n
		switch raw[0] {
		case ':', '#', '_', ',':
			return raw, nil
		case '+':
			if string(raw) == "+OK\r\n" {
				return raw, nil
			}
		}
		return append(make([]byte, 0, len(raw)), raw...), nil
	}
	return r.rest(n)
}

// rest reads the rest of an incomplete value; its first n bytes in the buffer
// were scanned.
func (r *Reader) rest(n int) (raw []byte, err error) {
	for {
		r.sink.write(r.buf[r.pos : r.pos+n])
		r.pos += n
		if r.scan.done() {
			return r.sink.take(nil), nil
		}
		if err = r.advance(); err != nil {
			break
		}
		if n, err = r.scan.feed(r.buf[r.pos:r.end]); err != nil {
			break
		}
	}
	r.sink.drop()
	return nil, err
}

// advance reads more bytes of the value that is being scanned: into the buffer,
// or directly into the sink in a long string.
func (r *Reader) advance() error {
	if r.pos < r.end || r.scan.mode != inBulk || r.scan.rest < direct {
		return r.more()
	}
	space := r.sink.space(int(r.scan.rest - tail))
	n, err := r.receive(space)
	r.sink.advance(n)
	r.scan.rest -= int64(n)
	r.scan.size += int64(n)
	return err
}

// more is fill in the middle of a value.
func (r *Reader) more() error {
	err := r.fill()
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fill reads at least one more byte into the buffer. The buffer is never full:
// the unused bytes between two calls are shorter than a header.
func (r *Reader) fill() error {
	if r.pos == r.end {
		r.pos, r.end = 0, 0
	} else if len(r.buf)-r.end < headerMax {
		r.shift()
	}
	n, err := r.read(r.buf[r.end:])
	r.end += n
	return err
}

// receive is read in the middle of a value.
func (r *Reader) receive(p []byte) (int, error) {
	n, err := r.read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// read returns at least one byte or an error, never both. A source that returns
// both will return the error again.
func (r *Reader) read(p []byte) (int, error) {
	for range idleReads {
		n, err := r.src.Read(p)
		if n > 0 {
			r.received += uint64(n)
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}

// Steps lends memory for large values to any number of Readers. The zero Steps
// is ready to use.
type Steps struct {
	pool sync.Pool // of *[step]byte
}

// Get lends a slice of length zero with room for 64 KiB.
func (s *Steps) Get() []byte {
	if s != nil {
		if p, ok := s.pool.Get().(*[step]byte); ok {
			return p[:0]
		}
	}
	return make([]byte, 0, step)
}

// Put takes back memory that Get has lent.
func (s *Steps) Put(b []byte) {
	if s != nil && cap(b) == step {
		s.pool.Put((*[step]byte)(b[:step]))
	}
}

// sink collects the bytes of a value in steps, if its length is unknown or too
// large to be reserved at once.
type sink struct {
	steps *Steps
	full  [][]byte
	cur   []byte
}

// space returns memory for up to n bytes. The caller reports with advance how
// many it has written.
func (s *sink) space(n int) []byte {
	if len(s.cur) == cap(s.cur) {
		if s.cur != nil {
			s.full = append(s.full, s.cur)
		}
		s.cur = s.steps.Get()
	}
	return s.cur[len(s.cur):min(cap(s.cur), len(s.cur)+n)]
}

func (s *sink) advance(n int) { s.cur = s.cur[:len(s.cur)+n] }

func (s *sink) write(p []byte) {
	for len(p) > 0 {
		n := copy(s.space(len(p)), p)
		s.advance(n)
		p = p[n:]
	}
}

// copyTo copies all bytes to p and empties the sink.
func (s *sink) copyTo(p []byte) {
	for _, b := range append(s.full, s.cur) {
		p = p[copy(p, b):]
	}
	s.drop()
}

// take returns dst with all bytes appended, in memory of the exact size, and
// empties the sink.
func (s *sink) take(dst []byte) []byte {
	pieces := make([][]byte, 0, len(s.full)+2)
	pieces = append(append(append(pieces, dst), s.full...), s.cur)
	out := bytes.Join(pieces, nil) // Join does not clear the memory first
	s.drop()
	return out
}

// drop empties the sink.
func (s *sink) drop() {
	for _, p := range s.full {
		s.steps.Put(p)
	}
	s.steps.Put(s.cur)
	*s = sink{steps: s.steps}
}
