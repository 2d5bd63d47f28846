// Receives the bytes of a connection for the reader of a protocol:
// a buffer, strings of announced length on their straight way to their
// destination, and frames collected as their bytes come. It knows no protocol.
//
// Memory is reserved in steps as bytes arrive. An announced length reserves
// nothing beyond 1 MiB until an eighth of its bytes have come.

package wire

import (
	"io"
)

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

// A frame is a piece of the stream that its protocol calls one reply. A Scanner
// finds its end. Next takes whole frames from the received bytes and never waits;
// Rest waits for the end of a frame.

// collectFrom is the number of received bytes of one frame from which Next
// collects the frame in steps, instead of growing the buffer.
const collectFrom = BufferSize / 2

// Scanner finds the end of a frame.
type Scanner interface {
	// Feed scans the next bytes, and returns the number of those that belong to
	// the frame. An error ends the stream.
	Feed(p []byte) (n int, err error)
	// Done reports whether the frame is complete.
	Done() bool
	// Plain is the number of bytes that come next and need not be scanned, Skip
	// notes that n of them have come.
	Plain() int64
	Skip(n int64)
}

// progress is the state of a frame for Next: scanned is the number of its scanned
// bytes in the buffer, collected the number of its bytes in the sink.
type progress struct{ scanned, collected int }

// Fill reads from the source once. It may be called only after Next has returned
// nil, with the same Scanner. After an error of the source, such as a passed
// deadline, Fill can be called again. The memory grows with the received bytes
// that Next has not returned.
func (b *Buffer) Fill(s Scanner) error {
	if b.frame.collected > 0 && b.Pos == b.End && s.Plain() >= Direct {
		n, err := b.collect(s)
		b.frame.collected += n
		return err
	}
	return b.fill()
}

// Next takes the next frame from the received bytes, and returns nil if it is
// not complete. The returned bytes are valid until the next call of Fill. After
// Next has returned nil, only Fill, Buffered and Received may be called until Next
// returns a frame. s is at the beginning of a frame, or in the state in which the
// call before left it.
func (b *Buffer) Next(s Scanner) (raw []byte, err error) {
	f := &b.frame
	n, err := s.Feed(b.Buf[b.Pos+f.scanned : b.End])
	f.scanned += n
	done := s.Done()
	switch {
	case err != nil:
		b.Sink.Drop()
		b.frame = progress{}
		return nil, err
	case f.collected > 0 || !done && f.scanned >= collectFrom:
		b.Sink.Write(b.Buf[b.Pos : b.Pos+f.scanned])
		f.collected += f.scanned
		b.Pos, f.scanned = b.Pos+f.scanned, 0
		if done {
			raw = b.Sink.Take(nil)
			f.collected = 0
		}
		return raw, nil
	case !done:
		return nil, nil
	}
	raw = b.Buf[b.Pos : b.Pos+f.scanned : b.Pos+f.scanned]
	b.Pos += f.scanned
	f.scanned = 0
	return raw, nil
}

// Rest reads the rest of an incomplete frame and returns all of it, in memory of
// its own; its first n bytes in the buffer were scanned.
func (b *Buffer) Rest(s Scanner, n int) (raw []byte, err error) {
	for {
		b.Sink.Write(b.Buf[b.Pos : b.Pos+n])
		b.Pos += n
		if s.Done() {
			return b.Sink.Take(nil), nil
		}
		if b.Pos == b.End && s.Plain() >= Direct {
			_, err = b.collect(s)
		} else {
			err = b.More()
		}
		if err != nil {
			break
		}
		if n, err = s.Feed(b.Buf[b.Pos:b.End]); err != nil {
			break
		}
	}
	b.Sink.Drop()
	return nil, err
}

// collect reads plain bytes of a frame directly into the sink.
func (b *Buffer) collect(s Scanner) (int, error) {
	space := b.Sink.Space(int(s.Plain() - Tail))
	n, err := b.receive(space)
	b.Sink.Advance(n)
	s.Skip(int64(n))
	return n, err
}
