package codec

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// Compressor is a format of compressed bytes. Its methods are safe for concurrent use.
// Package codec/flate has one of the standard library, the module contrib/zstd another.
type Compressor interface {
	// Name identifies the format, for example "flate". It is constant.
	Name() string

	// Compress appends the compressed form of src to dst and returns the longer slice.
	// It keeps neither.
	Compress(dst, src []byte) ([]byte, error)

	// Decompress is the inverse of Compress: it appends to dst the bytes of which src
	// is the compressed form. It writes to the memory of dst only: if its capacity is
	// too small, the error is [io.ErrShortBuffer]. The error of input in another form
	// wraps [ErrShort], [ErrLong] or [ErrMalformed].
	Decompress(dst, src []byte) ([]byte, error)
}

// Bounds of the input that Decode accepts, and therefore of the values that Append compresses.
const (
	// maxExpanded is the largest length of an encoding, in bytes, that Append compresses.
	maxExpanded = 64 << 20
	// maxRatio is the largest ratio of the length of an encoding to the length of its
	// compressed form. It bounds the memory that hostile input can claim. An encoding
	// of up to freeExpanded bytes may have any ratio.
	maxRatio     = 100
	freeExpanded = 64 << 10
	// keepExpanded is the largest capacity, in bytes, of a buffer kept for the next value.
	keepExpanded = 1 << 20
)

// The first byte of an encoded value. After asCompressed come the length of the
// encoding as uvarint and its compressed form, after asEncoded the encoding itself.
const (
	asEncoded byte = iota
	asCompressed
)

// Compressed returns a codec that compresses the encodings of c. It compresses an
// encoding of at least min bytes, if that makes it shorter. Other values are stored as c
// encodes them, after one byte that says so. min may be changed at any time: all values
// stay readable. Stats.Compressed of a cache counts the values that became shorter,
// Stats.StoredRaw the others.
//
// The name of the codec joins the names of c and of the format, such as "json+flate".
// So values that c has stored are not read; see [Versioned] for a way to read them.
//
// Decode allocates memory for the bytes that really come. It refuses with [ErrTooLarge]
// input that claims more than 64 MiB, or more than 64 KiB and the hundredfold of its
// own length. Append stores such values without compression, so that all it has written
// can be read. There is no checksum: a cache stores one with each value.
func Compressed[V any](c Codec[V], min int, format Compressor) Codec[V] {
	return &compressed[V]{wrapped: wrapped[V]{c}, format: format, min: min, name: c.Name() + "+" + format.Name()}
}

type compressed[V any] struct {
	wrapped[V]
	format  Compressor
	min     int
	name    string
	buffers sync.Pool // of *[]byte
	// shortened and raw count encoded values.
	shortened, raw atomic.Uint64
}

// Counts returns how many values were compressed, and how many are stored as they are, because
// they are small, do not become shorter or are outside the bounds.
func (c *compressed[V]) Counts() (shortened, raw uint64) { return c.shortened.Load(), c.raw.Load() }

func (c *compressed[V]) Name() string { return c.name }

func (c *compressed[V]) Append(dst []byte, v V) ([]byte, error) {
	b, err := c.Codec.Append(append(dst, asEncoded), v)
	if err != nil {
		return dst, err
	}
	body := b[len(dst)+1:]
	if len(body) < c.min || len(body) > maxExpanded {
		c.raw.Add(1)
		return b, nil
	}
	short := c.buffer()
	defer c.keep(short)
	*short = binary.AppendUvarint((*short)[:0], uint64(len(body)))
	if *short, err = c.format.Compress(*short, body); err != nil {
		return dst, fail[V](c.name, "encode", "", err)
	}
	if n := len(*short); n < len(body) && len(body) <= mostOf(n) {
		c.shortened.Add(1)
		return append(append(b[:len(dst)], asCompressed), *short...), nil
	}
	c.raw.Add(1)
	return b, nil
}

// mostOf returns the length of the longest encoding for which a compressed form of n
// bytes is accepted, together with the length in front of it. The result is the same
// where int has 32 bits.
func mostOf(n int) int {
	return int(min(maxExpanded, max(freeExpanded, maxRatio*int64(n))))
}

func (c *compressed[V]) Decode(data []byte) (v V, err error) {
	if len(data) > 0 && data[0] == asEncoded {
		return c.Codec.Decode(data[1:])
	}
	b := c.buffer()
	defer c.keep(b)
	if err := c.expand(b, data); err != nil {
		return v, err
	}
	return c.Codec.Decode(*b)
}

// DecodeAlias implements [Aliaser]. A compressed value refers to new memory, which
// holds its whole encoding.
func (c *compressed[V]) DecodeAlias(data []byte) (v V, err error) {
	if len(data) > 0 && data[0] == asEncoded {
		return c.wrapped.DecodeAlias(data[1:])
	}
	a, ok := c.Codec.(Aliaser[V])
	if !ok {
		return c.Decode(data)
	}
	var b []byte
	if err := c.expand(&b, data); err != nil {
		return v, err
	}
	return a.DecodeAlias(b)
}

// expand sets b to the encoding of which data holds the compressed form.
func (c *compressed[V]) expand(b *[]byte, data []byte) error {
	n, src, err := cutLength(data)
	if err == nil {
		err = c.decompress(b, src, n)
	}
	if err != nil {
		return fail[V](c.name, "decode", "", err)
	}
	return nil
}

// cutLength splits an encoded value into the length of its encoding, which is within
// the bounds, and the compressed form.
func cutLength(data []byte) (n int, src []byte, err error) {
	if len(data) == 0 {
		return 0, nil, ErrShort
	}
	length, size := binary.Uvarint(data[1:])
	switch own := len(data) - 1; {
	case data[0] != asCompressed:
		return 0, nil, ErrMalformed
	case size == 0:
		return 0, nil, ErrShort
	case size < 0 || size > 1 && data[size] == 0: // more than 64 bits, or leading zeros
		return 0, nil, ErrMalformed
	case length > uint64(mostOf(own)):
		return 0, nil, ErrTooLarge
	case length <= uint64(own): // not made shorter
		return 0, nil, ErrMalformed
	}
	return int(length), data[1+size:], nil
}

// decompress sets b to the n bytes of which src is the compressed form. If src claims
// more than usual, memory for n bytes is allocated only after a smaller one is full.
func (c *compressed[V]) decompress(b *[]byte, src []byte, n int) error {
	const usual = 8 // times the length of the input
	for room := min(n, max(cap(*b), freeExpanded, usual*len(src))); ; room = n {
		if cap(*b) < room {
			*b = make([]byte, 0, room)
		}
		out, err := c.format.Decompress((*b)[:0:room], src)
		full := errors.Is(err, io.ErrShortBuffer)
		switch {
		case full && room < n:
			continue
		case full:
			return ErrLong
		case err != nil:
			return err
		case len(out) < n:
			return ErrShort
		}
		*b = out
		return nil
	}
}

// buffer returns a buffer, which keep takes back.
func (c *compressed[V]) buffer() *[]byte {
	if b, ok := c.buffers.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

func (c *compressed[V]) keep(b *[]byte) {
	if cap(*b) <= keepExpanded {
		c.buffers.Put(b)
	}
}
