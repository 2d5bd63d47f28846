package wire

import (
	"bytes"
	"sync"
)

// BufferStep is the amount of memory, in bytes, reserved ahead of the arriving bytes.
const BufferStep = 64 << 10

// Steps lends memory for large values to any number of Readers. The zero Steps
// is ready to use.
type Steps struct {
	pool sync.Pool // of *[BufferStep]byte
}

// Get lends a slice of length zero with room for 64 KiB.
func (s *Steps) Get() []byte {
	if s != nil {
		if p, ok := s.pool.Get().(*[BufferStep]byte); ok {
			return p[:0]
		}
	}
	return make([]byte, 0, BufferStep)
}

// Put takes back memory that Get has lent.
func (s *Steps) Put(b []byte) {
	if s != nil && cap(b) == BufferStep {
		s.pool.Put((*[BufferStep]byte)(b[:BufferStep]))
	}
}

// Sink collects the bytes of a value in steps, if its length is unknown or too
// large to be reserved at once.
type Sink struct {
	Steps *Steps
	full  [][]byte
	cur   []byte
}

// Reserved returns the memory held, in bytes.
func (s *Sink) Reserved() int { return len(s.full)*BufferStep + cap(s.cur) }

// Space returns memory for up to n bytes. The caller reports with Advance how
// many it has written.
func (s *Sink) Space(n int) []byte {
	if len(s.cur) == cap(s.cur) {
		if s.cur != nil {
			s.full = append(s.full, s.cur)
		}
		s.cur = s.Steps.Get()
	}
	return s.cur[len(s.cur):min(cap(s.cur), len(s.cur)+n)]
}

// Advance notes that n bytes of the space were written.
func (s *Sink) Advance(n int) { s.cur = s.cur[:len(s.cur)+n] }

// Write adds a copy of p.
func (s *Sink) Write(p []byte) {
	for len(p) > 0 {
		n := copy(s.Space(len(p)), p)
		s.Advance(n)
		p = p[n:]
	}
}

// copyTo copies all bytes to p and empties the sink.
func (s *Sink) copyTo(p []byte) {
	for _, b := range append(s.full, s.cur) {
		p = p[copy(p, b):]
	}
	s.Drop()
}

// Take returns dst with all bytes appended, in memory of the exact size, and
// empties the sink.
func (s *Sink) Take(dst []byte) []byte {
	pieces := make([][]byte, 0, len(s.full)+2)
	pieces = append(append(append(pieces, dst), s.full...), s.cur)
	out := bytes.Join(pieces, nil) // Join does not clear the memory first
	s.Drop()
	return out
}

// Drop empties the sink.
func (s *Sink) Drop() {
	for _, p := range s.full {
		s.Steps.Put(p)
	}
	s.Steps.Put(s.cur)
	*s = Sink{Steps: s.Steps}
}
