package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// frames reads the frames of a stream, and checks the length and the checksum of each.
type frames struct {
	r io.Reader
	// keep asks for memory of its own for each frame.
	keep bool
	// number and offset belong to the frame read last, next and end are the number
	// and the offset of the frame behind it.
	number, next uint64
	offset, end  int64
	seed         uint32
	// head has the parts of a frame before its payload. ready is the number of bytes
	// of the next frame in it, which were read together with the last one.
	head  [atPayload]byte
	ready int
	buf   []byte
}

// magic reads the first bytes of the stream.
func (f *frames) magic() error {
	b := f.head[:len(magic)]
	n, err := io.ReadFull(f.r, b)
	if !bytes.Equal(b[:n], []byte(magic)[:n]) {
		return ErrFormat
	}
	f.end = int64(len(magic))
	return early(err)
}

// early makes the end of the stream the error that it is inside a snapshot.
func early(err error) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return err
}

// read returns the next frame. The payload is valid until the next call, unless keep
// is set.
func (f *frames) read() (kind byte, payload []byte, err error) {
	f.number, f.offset = f.next, f.end
	if _, err := io.ReadFull(f.r, f.head[atKind+f.ready:]); err != nil {
		return 0, nil, early(err)
	}
	f.ready = 0
	kind, n := f.head[atKind], length(f.head[atLength:])
	if n > MaxPayload {
		return 0, nil, corrupt(fmt.Sprintf("frame of %d bytes", n))
	}
	if payload, err = f.payload(n); err != nil {
		return 0, nil, err
	}
	f.next++
	f.end += int64(headBytes + n)
	return kind, payload, nil
}

// payload reads n bytes, and the bytes of the next frame's head as far as they are
// there already: a reader of a file or socket is called once for each frame.
func (f *frames) payload(n int) ([]byte, error) {
	b := f.memory(n + headBytes)
	m, err := io.ReadAtLeast(f.r, b, n)
	if m < n {
		return nil, early(err)
	}
	place(f.head[:], f.seed, f.number)
	want := binary.LittleEndian.Uint32(f.head[atSum:])
	if sum(f.head[:], b[:n]) != want {
		return nil, corrupt("wrong checksum")
	}
	if f.number == 0 {
		f.seed = want
	}
	f.ready = copy(f.head[atKind:], b[n:m])
	return b[:n:n], nil
}

// memory returns n bytes for a payload and the head behind it.
func (f *frames) memory(n int) []byte {
	if f.keep {
		return make([]byte, n)
	}
	if cap(f.buf) < n {
		f.buf = make([]byte, max(n, min(2*cap(f.buf), MaxPayload+headBytes)))
	}
	return f.buf[:n]
}

// finish returns io.EOF if the stream ends here.
func (f *frames) finish() error {
	if f.ready == 0 {
		if _, err := io.ReadFull(f.r, f.head[:1]); err != nil {
			return err
		}
	}
	return corrupt("bytes behind the trailer")
}
