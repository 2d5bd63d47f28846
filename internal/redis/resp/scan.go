package resp

import (
	"bytes"
	"math"
	"strconv"
)

// headerMax is the longest header line: a type byte, a number, CRLF. Doubles
// are the longest numbers.
const headerMax = 64

// header is a parsed header line.
type header struct {
	kind Kind
	// n is as in Value, or the length of a string.
	n int64
	// size is the length of the line with its CRLF. Zero means that more bytes
	// are needed.
	size int
	// text: the value is the line itself, of any length. bulk: n bytes and CRLF
	// follow. attr: n elements of an attribute follow, then its value.
	text, bulk, attr bool
}

// parseHeader parses the header at the start of p. The result depends on the
// bytes alone, not on their division into reads.
func parseHeader(p []byte) (h header, err error) {
	if len(p) == 0 {
		return h, nil
	}
	switch p[0] {
	case '$', '*':
		// The usual case; this takes a third of the time.
		if n, size := shortLength(p); size > 0 {
			h = header{kind: Bulk, n: n, size: size, bulk: true}
			if p[0] == '*' {
				h.kind, h.bulk = Array, false
			}
			return h, nil
		}
	case '+':
		return header{kind: Status, size: 1, text: true}, nil
	case '-':
		return header{kind: Error, size: 1, text: true}, nil
	case '(':
		return header{kind: BigNumber, size: 1, text: true}, nil
	case ':', '%', '~', '>', '|', '=', '!', '#', '_', ',':
	default:
		return h, broken("unknown type")
	}
	// Only a limited part is searched for the end, so that a peer that never ends its line gets an
	// error instead of ever more memory.
	head := p[:min(len(p), headerMax)]
	end := bytes.IndexByte(head, '\n')
	switch {
	case end < 0 && len(head) == headerMax:
		return h, broken("header too long")
	case end < 0:
		return h, nil
	case end < 2 || p[end-1] != '\r':
		return h, broken("line does not end in CRLF")
	}
	h, err = parseLine(p[0], p[1:end-1])
	h.size = end + 1
	return h, err
}

// parseLine parses the header line of the given type.
func parseLine(typ byte, line []byte) (h header, err error) {
	switch typ {
	case ':':
		h.kind = Int
		h.n, err = parseInt(line)
	// The null of RESP3 has nothing behind its type byte.
	case '_':
		if len(line) != 0 {
			err = broken("bad null")
		}
	case '#':
		h.kind = Bool
		if len(line) != 1 || line[0] != 't' && line[0] != 'f' {
			return h, broken("bad boolean")
		}
		if line[0] == 't' {
			h.n = 1
		}
	case ',':
		h.kind = Double
		h.n, err = parseDouble(line)
	default:
		return parseLength(typ, line)
	}
	return h, err
}

// parseLength parses the header line of a type with a length.
func parseLength(typ byte, line []byte) (h header, err error) {
	// The null of RESP2 has the form of a string or of an array. No other negative length exists.
	if string(line) == "-1" && (typ == '$' || typ == '*') {
		return header{kind: Null}, nil
	}
	// parseInt would take a sign, too.
	for _, c := range line {
		if c < '0' || c > '9' {
			return h, broken("bad length")
		}
	}
	if h.n, err = parseInt(line); err != nil {
		return h, broken("bad length")
	}
	switch typ {
	case '$':
		h.kind, h.bulk = Bulk, true
	case '!':
		h.kind, h.bulk = Error, true
	case '=':
		h.kind, h.bulk = Verbatim, true
		// The format of a verbatim string, three letters and a colon, counts as a part of its
		// length.
		if h.n < 4 {
			return h, broken("bad verbatim string")
		}
	case '*':
		h.kind = Array
	case '~':
		h.kind = Set
	case '>':
		h.kind = Push
	default: // map, attribute
		h.kind, h.attr = Map, typ == '|'
		if h.n > math.MaxInt64/2 {
			return h, broken("bad length")
		}
		// From here on, a map is a row of keys and values, so that parse and skip need no case for
		// it.
		h.n *= 2
	}
	return h, nil
}

// shortLength parses the usual header of a string or an array: a type and a
// length of up to nine digits. For any other beginning of p, size is zero.
func shortLength(p []byte) (n int64, size int) {
	for i := 1; i < len(p) && i <= 10; i++ {
		if c := p[i] - '0'; c <= 9 {
			n = n*10 + int64(c)
			continue
		}
		if i > 1 && p[i] == '\r' && i+1 < len(p) && p[i+1] == '\n' {
			return n, i + 2
		}
		break
	}
	return 0, 0
}

func parseInt(line []byte) (int64, error) {
	n, err := strconv.ParseInt(string(line), 10, 64)
	if err != nil {
		return 0, broken("bad integer")
	}
	return n, nil
}

// parseDouble returns the bits of a double. It refuses forms that Go accepts
// and Redis never writes (hexadecimal, digit separators).
func parseDouble(line []byte) (int64, error) {
	switch string(line) {
	case "inf", "+inf", "-inf", "nan", "-nan":
	default:
		for _, c := range line {
			if (c < '0' || c > '9') && c != '+' && c != '-' && c != '.' && c != 'e' && c != 'E' {
				return 0, broken("bad double")
			}
		}
	}
	s := string(line)
	if s == "-nan" {
		s = "nan"
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, broken("bad double")
	}
	return int64(math.Float64bits(f)), nil
}

// scanner finds the end of one value in a stream that arrives in pieces, and
// checks the format and the limits of all bytes before it. It keeps no bytes.
type scanner struct {
	lim *Limits
	// open are the incomplete aggregates, outermost first. The first one stands
	// for the value itself.
	open []frame
	mode mode
	// rest is the number of missing bytes of a string, without its CRLF.
	rest int64
	// line is the length so far of a text line. number is true if the line is a
	// big number, and sign if that begins with a sign.
	line   int
	number bool
	sign   bool
	// elems counts all announced elements, and size all scanned bytes.
	elems int64
	size  int64
}

// Plain implements [wire.Scanner].
func (s *scanner) Plain() int64 {
	if s.mode != inBulk {
		return 0
	}
	return s.rest
}

// Skip implements [wire.Scanner].
func (s *scanner) Skip(n int64) {
	s.rest -= n
	s.size += n
}

// frame is an aggregate in which values are missing: left of them. attr says that it is an
// attribute, after which its value follows.
type frame struct {
	left int64
	attr bool
}

// mode is the kind of bytes that a scanner expects next.
type mode uint8

const (
	atHeader mode = iota
	inText
	inBulk
)

func (s *scanner) reset(lim *Limits) {
	*s = scanner{lim: lim, open: append(s.open[:0], frame{left: 1})}
}

func (s *scanner) Done() bool { return len(s.open) == 0 }

// Feed consumes the bytes of p that belong to the value, and returns their
// number. If the value is not done, the caller passes the rest again, with more
// bytes after it.
func (s *scanner) Feed(p []byte) (n int, err error) {
	for !s.Done() {
		var used int
		switch s.mode {
		case atHeader:
			used, err = s.header(p[n:])
		case inText:
			used, err = s.text(p[n:])
		case inBulk:
			used, err = s.bulk(p[n:])
		}
		if err != nil {
			return n, err
		}
		n += used
		s.size += int64(used)
		if s.size > int64(s.lim.Reply) {
			return n, broken("reply over the limit")
		}
		// Without progress, more bytes are needed.
		if used == 0 {
			break
		}
	}
	return n, nil
}

// header consumes the header at the start of p and sets the mode for the bytes
// after it.
func (s *scanner) header(p []byte) (int, error) {
	h, err := parseHeader(p)
	if err != nil || h.size == 0 {
		return 0, err
	}
	switch {
	case h.text:
		s.mode, s.line, s.number, s.sign = inText, 0, h.kind == BigNumber, false
	case h.bulk:
		// The announced length is refused before its bytes arrive: the limits hold for what a peer
		// announces, not only for what it sends.
		if h.n > int64(s.lim.Bulk) {
			return 0, broken("string over the limit")
		}
		if s.size+h.n > int64(s.lim.Reply) {
			return 0, broken("reply over the limit")
		}
		s.mode, s.rest = inBulk, h.n
		if len(s.open) == 1 { // if the reply is one string, only the bytes of the string count
			s.size -= int64(h.size) + 2
		}
	case h.kind == Array, h.kind == Map, h.kind == Set, h.kind == Push:
		return h.size, s.aggregate(h)
	default:
		s.complete()
	}
	return h.size, nil
}

func (s *scanner) aggregate(h header) error {
	if h.kind == Push && len(s.open) > 1 {
		return broken("push inside a reply")
	}
	s.elems += h.n
	if h.attr {
		s.elems++ // so that a row of empty attributes is bounded
	}
	if h.n > int64(s.lim.Elements) || s.elems > int64(s.lim.Elements) {
		return broken("too many elements")
	}
	if len(s.open) > s.lim.Depth {
		return broken("nested too deep")
	}
	// An empty aggregate is complete with its header. An empty attribute is not a value, so that
	// nothing is complete yet.
	switch {
	case h.n > 0:
		s.open = append(s.open, frame{left: h.n, attr: h.attr})
	case !h.attr:
		s.complete()
	}
	return nil
}

// complete records the end of a value, and of the aggregates that end with it.
func (s *scanner) complete() {
	s.mode = atHeader
	for len(s.open) > 0 {
		top := &s.open[len(s.open)-1]
		top.left--
		if top.left > 0 {
			return
		}
		attr := top.attr
		s.open = s.open[:len(s.open)-1]
		if attr {
			return // the value of the attribute follows
		}
	}
}

func (s *scanner) text(p []byte) (int, error) {
	seg, ended := p, false
	if i := bytes.IndexByte(p, '\r'); i >= 0 {
		seg, ended = p[:i], true
	}
	lone := bytes.IndexByte(seg, '\n')
	if lone >= 0 {
		seg = seg[:lone]
	}
	// Errors are found in the order of the bytes, so that the result does not
	// depend on their division into reads.
	room := s.lim.Line - s.line
	if s.number {
		if err := s.digits(seg[:min(len(seg), room)]); err != nil {
			return 0, err
		}
	}
	if len(seg) > room {
		return 0, broken("line over the limit")
	}
	if lone >= 0 {
		return 0, broken("line does not end in CRLF")
	}
	s.line += len(seg)
	// A CR at the end of the bytes stays there until the byte after it is known.
	if !ended || len(p) == len(seg)+1 {
		return len(seg), nil
	}
	if p[len(seg)+1] != '\n' {
		return 0, broken("line does not end in CRLF")
	}
	if s.number && (s.line == 0 || s.sign && s.line == 1) {
		return 0, broken("bad big number")
	}
	s.complete()
	return len(seg) + 2, nil
}

func (s *scanner) digits(seg []byte) error {
	for i, c := range seg {
		if s.line+i == 0 && (c == '-' || c == '+') {
			s.sign = true
			continue
		}
		if c < '0' || c > '9' {
			return broken("bad big number")
		}
	}
	return nil
}

func (s *scanner) bulk(p []byte) (int, error) {
	take := int(min(int64(len(p)), s.rest))
	s.rest -= int64(take)
	if s.rest > 0 || len(p) < take+2 {
		return take, nil
	}
	// Both bytes of the CRLF are taken together, so that no mode between them is needed.
	if p[take] != '\r' || p[take+1] != '\n' {
		return 0, broken("string does not end in CRLF")
	}
	s.complete()
	return take + 2, nil
}

// parse returns the value at the start of raw, which a scanner has checked, and
// the bytes after it.
func parse(raw []byte) (Value, []byte) {
	h, _ := parseHeader(raw)
	// Nothing asks for attributes: the value behind them is the result.
	for h.attr {
		raw = skip(raw[h.size:], h.n)
		h, _ = parseHeader(raw)
	}
	rest := raw[h.size:]
	switch {
	case h.text:
		end := bytes.IndexByte(rest, '\r')
		// The capacity ends with the value here and below: a caller that appends to it must not
		// write into the bytes behind it.
		v := Value{kind: h.kind, body: rest[:end:end]}
		// The usual reply to a write is a Value without a reference to raw, which Reader.whole
		// therefore need not copy.
		if h.kind == Status && string(v.body) == "OK" {
			v = Value{kind: Status, n: 1}
		}
		return v, rest[end+2:]
	case h.bulk:
		body := rest[:h.n:h.n]
		// Callers want the text without its format.
		if h.kind == Verbatim && body[3] == ':' {
			body = body[4:]
		}
		return Value{kind: h.kind, body: body}, rest[h.n+2:]
	case h.kind == Array, h.kind == Map, h.kind == Set, h.kind == Push:
		after := skip(rest, h.n)
		size := len(rest) - len(after)
		return Value{kind: h.kind, n: h.n, body: rest[:size:size]}, after
	}
	return Value{kind: h.kind, n: h.n}, rest
}

// skip returns the bytes after the first n values of raw, which a scanner has
// checked. It does not recurse: it adds the elements of an aggregate to n.
func skip(raw []byte, n int64) []byte {
	for ; n > 0; n-- {
		h, _ := parseHeader(raw)
		raw = raw[h.size:]
		switch {
		case h.text:
			raw = raw[bytes.IndexByte(raw, '\r')+2:]
		case h.bulk:
			raw = raw[h.n+2:]
		case h.kind == Array, h.kind == Map, h.kind == Set, h.kind == Push:
			n += h.n
			if h.attr {
				n++
			}
		}
	}
	return raw
}
