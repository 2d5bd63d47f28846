package wire

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
