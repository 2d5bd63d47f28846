package meta

import "bytes"

// lineEnd returns the index of the CRLF that ends the first line of p, and -1 if
// there is none.
func lineEnd(p []byte) int {
	i := bytes.IndexByte(p, '\n')
	if i < 1 || p[i-1] != '\r' {
		return -1
	}
	return i - 1
}

// cutLine is lineEnd for a line that may not be complete yet. The error is about a
// line of more than most bytes, or one that does not end in CRLF.
func cutLine(p []byte, most int) (end int, err error) {
	i := bytes.IndexByte(p[:min(len(p), most+2)], '\n')
	switch {
	case i < 0 && len(p) >= most+2:
		return -1, broken("line too long")
	case i < 0:
		return -1, nil
	case i == 0 || p[i-1] != '\r':
		return -1, broken("line does not end in CRLF")
	}
	return i - 1, nil
}

// scanner finds the end of a reply: of one line and its value, or of the values or
// statistics up to END. It implements wire.Scanner.
type scanner struct {
	lim *Limits
	// rest is the number of missing bytes of a value, and of its CRLF.
	rest int64
	// series is the kind of the lines that follow, up to END. Zero means that none follow.
	series Kind
	size   int64
	done   bool
}

func (s *scanner) reset(lim *Limits) { *s = scanner{lim: lim} }

// Done reports whether the reply is complete.
func (s *scanner) Done() bool { return s.done }

// Plain is the number of bytes of the value still to come.
func (s *scanner) Plain() int64 { return max(s.rest-2, 0) }

// Skip notes that n bytes of the value have come.
func (s *scanner) Skip(n int64) {
	s.rest -= n
	s.size += n
}

// Feed scans the next bytes. It takes a line only when it is complete.
func (s *scanner) Feed(p []byte) (n int, err error) {
	for n < len(p) && !s.done {
		if s.rest > 0 {
			m, err := s.value(p[n:])
			if n += m; err != nil {
				return n, err
			}
			continue
		}
		end, err := cutLine(p[n:], s.lim.Line)
		if err != nil || end < 0 {
			return n, err
		}
		if err := s.line(p[n : n+end]); err != nil {
			return n, err
		}
		n += end + 2
	}
	return n, nil
}

// value scans bytes of a value and of its end.
func (s *scanner) value(p []byte) (n int, err error) {
	if plain := s.Plain(); plain > 0 {
		n = int(min(plain, int64(len(p))))
		s.Skip(int64(n))
	}
	for ; n < len(p) && s.rest > 0; n++ {
		// Two bytes are missing before the CR, and one before the LF.
		if p[n] != "\n\r"[s.rest-1] {
			return n, broken("value does not end in CRLF")
		}
		s.Skip(1)
	}
	s.done = s.rest == 0 && s.series == 0
	return n, nil
}

// line scans a line.
func (s *scanner) line(line []byte) error {
	r, err := parseLine(line)
	if err != nil {
		return err
	}
	s.size += int64(len(line)) + 2
	// An error may take the place of any line, and ends the reply.
	switch {
	case s.series != 0 && r.Kind != s.series && r.Kind != End && r.Kind != Error:
		return broken("reply in the middle of another")
	case r.Size > int64(s.lim.Value):
		return broken("value over the limit")
	case s.size+max(r.Size, 0) > int64(s.lim.Reply):
		return broken("reply over the limit")
	}
	switch r.Kind {
	case Item, Stat:
		s.series = r.Kind
	// This reply ends with its value.
	case VA:
	default:
		s.series, s.done = 0, true
	}
	if r.Size >= 0 {
		s.rest = r.Size + 2
	}
	return nil
}
