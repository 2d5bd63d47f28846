package resp

import (
	"bytes"
	"math"
	"strconv"
)

// headerMax is the longest header line: a type byte, a number, CRLF. Doubles
// are the longest numbers.
const headerMax = 64

// header is a header line taken apart.
type header struct {
	kind Kind
	// n is as in Value; for strings it is the length.
	n int64
	// size is the length of the line with its CRLF, zero if more bytes are
	// needed.
	size int
	// text: the line itself is the value, of any length. bulk: n bytes and
	// CRLF follow. attr: n elements follow, then the value they are about.
	text, bulk, attr bool
}

// parseHeader reads the header at the start of p. Its verdict depends on the
// bytes alone, never on how they were cut into pieces.
func parseHeader(p []byte) (h header, err error) {
	if len(p) == 0 {
		return h, nil
	}
	switch p[0] {
	case '$', '*':
		// The usual case, at a third of the time.
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

// parseLine judges the header line of the given type.
func parseLine(typ byte, line []byte) (h header, err error) {
	switch typ {
	case ':':
		h.kind = Int
		h.n, err = parseInt(line)
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

// parseLength judges the line of a type that announces how much follows.
func parseLength(typ byte, line []byte) (h header, err error) {
	if string(line) == "-1" && (typ == '$' || typ == '*') {
		return header{kind: Null}, nil
	}
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
		h.n *= 2
	}
	return h, nil
}

// shortLength reads the usual header of a string or an array: a type and a
// length of up to nine digits. size is zero if p begins with anything else.
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

// parseDouble returns the bits of a double. Go reads more than Redis writes
// (hexadecimal, digit separators); that is refused.
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

// scanner finds the end of one value in bytes that come in pieces, and checks
// everything on the way. It keeps no bytes.
type scanner struct {
	lim *Limits
	// open are the aggregates that are not complete, outermost first; the
	// first stands for the value itself.
	open []frame
	mode mode
	// rest is what is missing of a string, without its CRLF.
	rest int64
	// line is the length so far of a text line, sign whether it is a number
	// that began with one.
	line   int
	number bool
	sign   bool
	// elems and size count what was announced and seen in all.
	elems int64
	size  int64
}

type frame struct {
	left int64
	attr bool
}

type mode uint8

const (
	atHeader mode = iota
	inText
	inBulk
)

func (s *scanner) reset(lim *Limits) {
	*s = scanner{lim: lim, open: append(s.open[:0], frame{left: 1})}
}

func (s *scanner) done() bool { return len(s.open) == 0 }

// feed consumes as much of p as belongs to the value. What it leaves is
// needed again, with more bytes behind it, unless the value is done.
func (s *scanner) feed(p []byte) (n int, err error) {
	for !s.done() {
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
		if used == 0 {
			break
		}
	}
	return n, nil
}

// header takes the header at the start of p and moves on to what it
// announces.
func (s *scanner) header(p []byte) (int, error) {
	h, err := parseHeader(p)
	if err != nil || h.size == 0 {
		return 0, err
	}
	switch {
	case h.text:
		s.mode, s.line, s.number, s.sign = inText, 0, h.kind == BigNumber, false
	case h.bulk:
		if h.n > int64(s.lim.Bulk) {
			return 0, broken("string over the limit")
		}
		if s.size+h.n > int64(s.lim.Reply) {
			return 0, broken("reply over the limit")
		}
		s.mode, s.rest = inBulk, h.n
		if len(s.open) == 1 { // of a string that is the whole reply, its bytes alone count
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
		s.elems++ // so that empty attributes in a row come to an end
	}
	if h.n > int64(s.lim.Elements) || s.elems > int64(s.lim.Elements) {
		return broken("too many elements")
	}
	if len(s.open) > s.lim.Depth {
		return broken("nested too deep")
	}
	switch {
	case h.n > 0:
		s.open = append(s.open, frame{left: h.n, attr: h.attr})
	case !h.attr:
		s.complete()
	}
	return nil
}

// complete notes that a value has ended, and with it perhaps the aggregates
// around it.
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
			return // the value it is about follows
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
	// In the order of the bytes, so that the verdict depends on nothing else.
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
	if p[take] != '\r' || p[take+1] != '\n' {
		return 0, broken("string does not end in CRLF")
	}
	s.complete()
	return take + 2, nil
}

// parse takes the value at the start of raw, which a scanner has found to be
// sound, and returns what follows it.
func parse(raw []byte) (Value, []byte) {
	h, _ := parseHeader(raw)
	for h.attr {
		raw = skip(raw[h.size:], h.n)
		h, _ = parseHeader(raw)
	}
	rest := raw[h.size:]
	switch {
	case h.text:
		end := bytes.IndexByte(rest, '\r')
		v := Value{kind: h.kind, body: rest[:end:end]}
		if h.kind == Status && string(v.body) == "OK" {
			v = Value{kind: Status, n: 1}
		}
		return v, rest[end+2:]
	case h.bulk:
		body := rest[:h.n:h.n]
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

// skip returns what follows n sound values. It does not recurse: the elements
// of an aggregate are simply added to what is to be skipped.
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
