package meta

import (
	"bytes"
	"io"
	"math"

	"github.com/strata-cache/strata/internal/wire"
)

// Steps lends memory for large values to any number of Readers.
type Steps = wire.Steps

// Reader reads replies, or commands, from a stream. It may read ahead. After an
// error the position is undefined, except after io.EOF and after errors of the
// source in Wait and [Reader.Fill]. Error replies of the server are values, not
// errors. A Reader is not safe for concurrent use.
type Reader struct {
	wire.Buffer
	lim  Limits
	scan scanner
	// scanning is true while scan is in the middle of a reply for Next.
	scanning bool
	// words holds the arguments of the last command.
	words [][]byte
}

// NewReader returns a Reader for src. Zero fields of lim mean defaults.
func NewReader(src io.Reader, lim Limits) *Reader {
	return &Reader{Buffer: wire.NewBuffer(src), lim: lim.withDefaults()}
}

// Fill reads from the source once. It may be called only after Next returned
// nil; see [wire.Buffer.Fill].
func (r *Reader) Fill() error { return r.Buffer.Fill(&r.scan) }

// Next takes the next reply from the received bytes, and returns nil if it is
// not complete: one line and its value, or all values or statistics up to END. The
// returned bytes are well formed, for [Parse], and valid until the next call of
// Fill. After Next has returned nil, only Fill, Buffered and Received may be called
// until Next returns a reply.
func (r *Reader) Next() (raw []byte, err error) {
	if !r.scanning {
		if r.Pos == r.End {
			return nil, nil
		}
		r.scan.reset(&r.lim)
		r.scanning = true
	}
	raw, err = r.Buffer.Next(&r.scan)
	r.scanning = raw == nil && err == nil
	return raw, err
}

// Read returns the next line of a reply. If its Size is not negative, the caller
// reads the value, by [Reader.Append] or Some, and its end by [Reader.EndValue]. The
// line is valid until the next call of a method. The error is a
// [*ProtocolError], io.EOF if the stream ended before the line, io.ErrUnexpectedEOF
// if it ended inside, or the error of the source.
func (r *Reader) Read() (Reply, error) {
	line, err := r.line(r.lim.Line)
	if err != nil {
		return Reply{}, err
	}
	reply, err := parseLine(line)
	if err == nil && reply.Size > int64(min(r.lim.Value, r.lim.Reply)) {
		err = broken("value over the limit")
	}
	return reply, err
}

// TakeItem takes the next line if it has come and begins the value of key. cas is its CAS
// number, or zero. Otherwise it takes nothing, and Read tells what there is. It is a
// short way to read one of many values; as with Read, the caller reads the value.
func (r *Reader) TakeItem(key string) (flags uint32, size int64, cas uint64, ok bool) {
	const name = "VALUE "
	p := r.Unread()
	head := len(name) + len(key)
	if len(p) <= head || p[head] != ' ' || string(p[:len(name)]) != name || string(p[len(name):head]) != key {
		return 0, 0, 0, false
	}
	n, rest, ok := digits(p[head+1:], ' ')
	if !ok || n > math.MaxUint32 {
		return 0, 0, 0, false
	}
	m, last, ok := digits(rest, '\r')
	if !ok {
		if m, last, ok = digits(rest, ' '); ok {
			cas, last, ok = lastNumber(last)
		}
	}
	if !ok || m > uint64(min(r.lim.Value, r.lim.Reply)) || len(last) == 0 || last[0] != '\n' {
		return 0, 0, 0, false
	}
	r.Take(len(p) - len(last) + 1)
	return uint32(n), int64(m), cas, true
}

// lastNumber cuts off the last word of a line, a number, with the \r behind it.
func lastNumber(p []byte) (n uint64, rest []byte, ok bool) {
	const most = 20 // digits of the largest number
	end := bytes.IndexByte(p[:min(len(p), most+1)], '\r')
	if end < 0 {
		return 0, nil, false
	}
	n, ok = number(p[:end])
	return n, p[end+1:], ok
}

// line reads a line, and returns it without its end.
func (r *Reader) line(most int) ([]byte, error) {
	if err := r.Wait(); err != nil {
		return nil, err
	}
	for {
		end, err := cutLine(r.Unread(), most)
		if err != nil {
			return nil, err
		}
		if end >= 0 {
			line := r.Unread()[:end]
			r.Take(end + 2)
			return line, nil
		}
		if err := r.More(); err != nil {
			return nil, err
		}
	}
}

// Append reads the n bytes of a value and its end, and appends the value to dst,
// straight from the source if dst has room. The result is not nil.
func (r *Reader) Append(dst []byte, n int64) ([]byte, error) {
	out, err := r.Buffer.Append(dst, int(n))
	if err == nil {
		err = r.EndValue()
	}
	return out, err
}

// EndValue reads the CRLF after the last byte of a value.
func (r *Reader) EndValue() error {
	ok, err := r.CRLF()
	if err == nil && !ok {
		err = broken("value does not end in CRLF")
	}
	return err
}
