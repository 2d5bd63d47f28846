package gob

import (
	"encoding/gob"
	"errors"
	"io"

	"github.com/strata-cache/strata/codec"
)

// encoder is a gob encoder after the description of its type, so that each further
// value is one message.
type encoder struct {
	enc *gob.Encoder
	w   sink
}

func newEncoder() *encoder {
	e := &encoder{}
	e.enc = gob.NewEncoder(&e.w)
	return e
}

// sink is an io.Writer that appends to b.
type sink struct {
	b []byte
	// strip leaves out the length and the type id at the head of a message.
	strip bool
	wrote bool
}

// errTwice is returned if gob writes a second message for one value.
var errTwice = errors.New("more than one message")

// Write appends p, which is one message.
func (w *sink) Write(p []byte) (int, error) {
	body := p
	if w.strip {
		if w.wrote {
			return 0, errTwice
		}
		// gob calls Write once for each message, so its head is at the beginning of p.
		s := scanner{rest: p}
		s.receive()
		s.int()
		if s.err != nil {
			return 0, s.err
		}
		body = s.msg
	}
	w.wrote = true
	w.b = append(w.b, body...)
	return len(p), nil
}

// decoder is a gob decoder after it has read the description of its type.
type decoder struct {
	dec  *gob.Decoder
	r    feed
	head [32]byte
}

func newDecoder() *decoder {
	d := &decoder{}
	d.dec = gob.NewDecoder(&d.r)
	return d
}

// feed reads head, then body. It is an io.ByteReader, so that gob adds no
// buffer and reads no further than it must.
type feed struct{ head, body []byte }

// Read implements io.Reader.
func (f *feed) Read(p []byte) (int, error) {
	if len(f.head) == 0 {
		f.head, f.body = f.body, nil
	}
	if len(f.head) == 0 {
		return 0, io.EOF
	}
	n := copy(p, f.head)
	f.head = f.head[n:]
	return n, nil
}

// ReadByte implements io.ByteReader.
func (f *feed) ReadByte() (byte, error) {
	var b [1]byte
	_, err := f.Read(b[:])
	return b[0], err
}

// appendUint appends n in the encoding of gob: one byte below 128, else the
// negated number of bytes and the bytes, most significant first.
func appendUint(dst []byte, n uint64) []byte {
	if n < 128 {
		return append(dst, byte(n))
	}
	size := 8
	for size > 1 && n>>(8*(size-1)) == 0 {
		size--
	}
	dst = append(dst, byte(-size))
	for i := size - 1; i >= 0; i-- {
		dst = append(dst, byte(n>>(8*i)))
	}
	return dst
}

// appendInt appends i in the encoding of gob, with the sign in the lowest bit.
func appendInt(dst []byte, i int64) []byte {
	return appendUint(dst, uint64(i<<1)^uint64(i>>63))
}

var _ codec.Checker = (*gobCodec[int])(nil)
