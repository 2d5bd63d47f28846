// Receives the bytes of a connection for the reader of a protocol:
// a buffer, strings of announced length on their straight way to their
// destination, and frames collected as their bytes come. It knows no protocol.
//
// Memory is reserved in steps as bytes arrive. An announced length reserves
// nothing beyond 1 MiB until an eighth of its bytes have come.

package wire

import "io"

const (
	// BufferSize is the read buffer of a connection.
	BufferSize = 32 << 10
	// Room is the space that a fill has at least: the longest piece of a line
	// that may lie in the buffer between two fills.
	Room = 64
	// Direct is the size from which bytes are read to their destination instead
	// of through the buffer.
	Direct = 16 << 10
	// Tail is the number of last bytes of such a string that still go through
	// the buffer, so that the line end after them costs no extra read.
	Tail = 4 << 10
	// eagerMax is the longest string for which memory is reserved when its
	// length arrives. For a longer string it is reserved when a lazyShare-th of
	// the bytes have arrived.
	eagerMax  = 1 << 20
	lazyShare = 8
	// IdleReads is the number of allowed empty reads in a row.
	IdleReads = 100
	// WidenFrom is the size of a string, in bytes, from which a larger buffer is
	// used. The bytes of a larger buffer are moved to its beginning less often.
	WidenFrom = 4 << 10
)

// Buffer receives bytes from a source. After an error the position is undefined,
// except after errors of the source in [Buffer.Wait] and [Buffer.Fill]. It is not
// safe for concurrent use.
type Buffer struct {
	// Buf holds the received bytes that were not taken: Buf[Pos:End].
	Buf      []byte
	Pos, End int
	// Sink collects long values. Its Steps may be shared.
	Sink Sink

	src      io.Reader
	received uint64
	frame    progress
	narrow   []byte // the usual buffer while Buf is a larger one
}

// NewBuffer returns an empty buffer for src.
func NewBuffer(src io.Reader) Buffer { return Buffer{src: src, Buf: make([]byte, BufferSize)} }

// Share makes the buffer borrow memory from s, which several may share.
func (b *Buffer) Share(s *Steps) { b.Sink.Steps = s }

// Buffered returns the number of received bytes not returned yet.
func (b *Buffer) Buffered() int { return b.End - b.Pos + b.frame.collected }

// Received returns the number of bytes read from the source since the beginning.
func (b *Buffer) Received() uint64 { return b.received }

// Unread returns the received bytes that were not taken. They are valid until
// the next call of another method but Take.
func (b *Buffer) Unread() []byte { return b.Buf[b.Pos:b.End] }

// Take takes the next n bytes, which have been received.
func (b *Buffer) Take(n int) { b.Pos += n }

// Wait returns once at least one byte of the next reply has arrived. After an
// error of the source, such as a passed deadline, Wait can be called again.
func (b *Buffer) Wait() error {
	for b.Pos == b.End {
		if err := b.fill(); err != nil {
			return err
		}
	}
	return nil
}

// Body reads bytes of a string after its header. p must not be longer than the
// rest of the string.
func (b *Buffer) Body(p []byte) (int, error) {
	if b.Pos < b.End {
		n := copy(p, b.Buf[b.Pos:b.End])
		b.Pos += n
		return n, nil
	}
	if len(p) < Direct {
		if err := b.More(); err != nil {
			return 0, err
		}
		n := copy(p, b.Buf[b.Pos:b.End])
		b.Pos += n
		return n, nil
	}
	return b.receive(p)
}

// fillAll reads until p is full.
func (b *Buffer) fillAll(p []byte) error {
	for len(p) > 0 {
		part := p
		if len(p) >= Direct {
			part = p[:len(p)-Tail]
		}
		n, err := b.Body(part)
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// Append reads n bytes, straight into dst if it has room for them, and returns dst
// with them. The result is not nil.
func (b *Buffer) Append(dst []byte, n int) (out []byte, err error) {
	have := len(dst)
	switch {
	case dst == nil && n == 0:
		return []byte{}, nil
	case cap(dst)-have >= n:
		out = dst[:have+n]
		return out, b.fillAll(out[have:])
	}
	return b.large(dst, n)
}

// CRLF reads the line end after the last byte of a string, and reports whether it
// is one.
func (b *Buffer) CRLF() (ok bool, err error) {
	for b.End-b.Pos < 2 {
		if err := b.More(); err != nil {
			return false, err
		}
	}
	if b.Buf[b.Pos] != '\r' || b.Buf[b.Pos+1] != '\n' {
		return false, nil
	}
	b.Pos += 2
	return true, nil
}

// More is fill in the middle of a value.
func (b *Buffer) More() error {
	err := b.fill()
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fill reads at least one more byte into the buffer. The buffer is never full:
// the unused bytes between two calls are shorter than a header.
func (b *Buffer) fill() error {
	if b.Pos == b.End {
		b.Pos, b.End = 0, 0
	} else if len(b.Buf)-b.End < Room {
		b.shift()
	}
	n, err := b.read(b.Buf[b.End:])
	b.End += n
	return err
}

// receive is read in the middle of a value.
func (b *Buffer) receive(p []byte) (int, error) {
	n, err := b.read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// read returns at least one byte or an error, never both. A source that returns
// both will return the error again.
func (b *Buffer) read(p []byte) (int, error) {
	for range IdleReads {
		n, err := b.src.Read(p)
		if n > 0 {
			b.received += uint64(n)
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}

// large reads n bytes and appends them to dst, in new memory. Beyond eagerMax
// it reserves that memory only after part of the bytes have arrived.
func (b *Buffer) large(dst []byte, n int) ([]byte, error) {
	ahead := 0
	if n > eagerMax {
		ahead = n / lazyShare
	}
	for left := ahead; left > 0; {
		space := b.Sink.Space(left)
		if err := b.fillAll(space); err != nil {
			b.Sink.Drop()
			return nil, err
		}
		b.Sink.Advance(len(space))
		left -= len(space)
	}
	have := len(dst)
	out := make([]byte, have+n)
	copy(out, dst)
	b.Sink.copyTo(out[have:])
	if err := b.fillAll(out[have+ahead:]); err != nil {
		return nil, err
	}
	return out, nil
}

// Some returns the next 1 to n bytes of a string after its header. They are
// valid until the next call of a method. Call Release after the last of them.
func (b *Buffer) Some(n int64) ([]byte, error) {
	if b.Pos == b.End {
		if b.narrow == nil && n >= WidenFrom {
			b.widen()
		}
		if err := b.More(); err != nil {
			return nil, err
		}
	}
	p := b.Buf[b.Pos:b.End]
	p = p[:min(int64(len(p)), n)]
	b.Pos += len(p)
	return p, nil
}

// Narrow reports whether the usual buffer is in use.
func (b *Buffer) Narrow() bool { return b.narrow == nil }

// Release gives back the larger buffer of Borrow and Some.
func (b *Buffer) Release() {
	if b.narrow == nil || b.End-b.Pos > len(b.narrow) {
		return
	}
	wide := b.Buf
	b.End = copy(b.narrow, wide[b.Pos:b.End])
	b.Pos, b.Buf, b.narrow = 0, b.narrow, nil
	b.Sink.Steps.Put(wide)
}

// Borrow reads n bytes. They are valid until the next call of a method, and need
// no allocation if they fit the larger buffer with a line end. Call Release after
// the last of them.
func (b *Buffer) Borrow(n int) ([]byte, error) {
	if n >= WidenFrom && b.narrow == nil && b.End-b.Pos < n+2 {
		b.widen()
	}
	if n+2 > len(b.Buf) {
		return b.large(nil, n)
	}
	if err := b.gather(n + 2); err != nil {
		return nil, err
	}
	p := b.Buf[b.Pos : b.Pos+n : b.Pos+n]
	b.Pos += n
	return p, nil
}

// widen uses a larger buffer of one step.
func (b *Buffer) widen() {
	wide := b.Sink.Steps.Get()[:BufferStep]
	b.End = copy(wide, b.Buf[b.Pos:b.End])
	b.Pos, b.Buf, b.narrow = 0, wide, b.Buf
}

// gather reads until the next n bytes are in the buffer, which has room for
// them.
func (b *Buffer) gather(n int) error {
	if b.Pos+n > len(b.Buf) {
		b.shift()
	}
	for b.End-b.Pos < n {
		if err := b.More(); err != nil {
			return err
		}
	}
	return nil
}

// shift moves the unused bytes to the beginning of the buffer.
func (b *Buffer) shift() {
	b.End = copy(b.Buf, b.Buf[b.Pos:b.End])
	b.Pos = 0
}
