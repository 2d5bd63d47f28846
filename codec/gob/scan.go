package gob

import (
	"errors"

	"github.com/strata-cache/strata/codec"
)

// errDeep is returned when a value is nested more than MaxDepth times.
var errDeep = errors.New("nested too deeply")

// kind is the layout of a value in the bytes.
type kind uint8

const (
	unknown kind = iota // referred to, and not described yet
	scalar              // one number
	pair                // two numbers
	blob                // a length and the bytes
	list                // a count and the elements
	table               // a count, and the keys and elements
	record              // field number differences and fields, then 0
	iface               // a type name, its description if new, the value
)

// node is the shape of one type in a gob stream.
type node struct {
	kind      kind
	key, elem *node
	fields    []*node
}

// Type numbers with one meaning in every stream of encoding/gob: the number of interfaces, and the
// first number of the types that a stream describes.
const (
	ifaceID   = 8
	firstUser = 64
)

// builtin returns the shape of a type that needs no description, or nil.
func builtin(id int64) *node {
	switch id {
	case 1, 2, 3, 4: // bool, int, uint, float
		return &node{kind: scalar}
	case 5, 6: // bytes, string
		return &node{kind: blob}
	case 7: // complex
		return &node{kind: pair}
	case ifaceID:
		return &node{kind: iface}
	}
	return nil
}

// scanner checks gob data without building values. At each position it reads
// the same item as a gob decoder, so that the decoder cannot interpret accepted
// bytes in another way. It keeps the first error.
type scanner struct {
	msg   []byte // rest of the current message
	rest  []byte // messages after it
	types map[int64]*node
	iface bool // a description refers to an interface
	depth int
	err   error
}

// stream scans a whole stream of one value and returns the value's type.
func (s *scanner) stream() (int64, error) {
	id := s.sequence(false)
	s.concrete(s.ref(id))
	if s.err == nil && len(s.rest) > 0 {
		s.err = codec.ErrLong
	}
	return id, s.end()
}

// single scans one value of a known type that fills the message.
func (s *scanner) single(n *node) error {
	s.concrete(n)
	return s.end()
}

func (s *scanner) end() error {
	if s.err == nil && len(s.msg) > 0 {
		s.err = codec.ErrLong
	}
	return s.err
}

func (s *scanner) fail(err error) {
	if s.err == nil {
		s.err = err
	}
	s.msg, s.rest = nil, nil // all later reads fail too
}

// receive makes the next message the current message.
func (s *scanner) receive() {
	s.msg, s.rest = s.rest, nil
	n := s.uint()
	if n > uint64(len(s.msg)) {
		s.fail(codec.ErrShort)
		return
	}
	s.msg, s.rest = s.msg[:n], s.msg[n:]
}

func (s *scanner) uint() uint64 {
	if len(s.msg) == 0 {
		s.fail(codec.ErrShort)
		return 0
	}
	b := s.msg[0]
	if b < 128 {
		s.msg = s.msg[1:]
		return uint64(b)
	}
	size := -int(int8(b))
	if size > 8 {
		s.fail(codec.ErrMalformed)
		return 0
	}
	// The length byte is followed by size bytes, all of which must be there.
	if len(s.msg) <= size {
		s.fail(codec.ErrShort)
		return 0
	}
	var n uint64
	for _, b := range s.msg[1 : size+1] {
		n = n<<8 | uint64(b)
	}
	s.msg = s.msg[size+1:]
	return n
}

func (s *scanner) int() int64 {
	n := s.uint()
	return int64(n>>1) ^ -int64(n&1)
}

func (s *scanner) blob() {
	n := s.uint()
	if n > uint64(len(s.msg)) {
		s.fail(codec.ErrShort)
		return
	}
	s.msg = s.msg[n:]
}

// count reads a number of elements that take at least size bytes each.
func (s *scanner) count(size int) int {
	// Elements with interfaces may go on in later messages, so these count as well.
	n := s.uint()
	if n > uint64((len(s.msg)+len(s.rest))/size) {
		s.fail(codec.ErrShort)
		return 0
	}
	return int(n)
}

// concrete scans a value at the top or in an interface. There, every value but
// a struct has a zero before it.
func (s *scanner) concrete(n *node) {
	if n == nil || n.kind == unknown || n.kind != record && s.uint() != 0 {
		s.fail(codec.ErrMalformed)
		return
	}
	s.value(n)
}

func (s *scanner) value(n *node) {
	if s.depth++; s.depth > MaxDepth {
		s.fail(errDeep)
	}
	switch n.kind {
	case scalar:
		s.uint()
	case pair:
		s.uint()
		s.uint()
	case blob:
		s.blob()
	case list:
		for i := s.count(1); i > 0 && s.err == nil; i-- {
			s.value(n.elem)
		}
	case table:
		for i := s.count(2); i > 0 && s.err == nil; i-- {
			s.value(n.key)
			s.value(n.elem)
		}
	case record:
		s.fields(len(n.fields), func(i int) { s.value(n.fields[i]) })
	case iface:
		s.behind()
	case unknown:
		s.fail(codec.ErrMalformed)
	}
	s.depth--
}

// fields scans a struct of n fields and calls f for each field in the input. Gob leaves out fields
// with a zero value.
func (s *scanner) fields(n int, f func(i int)) {
	for i := -1; s.err == nil; {
		d := s.uint()
		if d == 0 {
			return
		}
		if d >= uint64(n-i) {
			s.fail(codec.ErrMalformed)
			return
		}
		i += int(d)
		f(i)
	}
}

// behind scans the value in an interface.
func (s *scanner) behind() {
	name := len(s.msg)
	if s.blob(); name-len(s.msg) == 1 { // an empty name: nil
		return
	}
	id := s.sequence(true)
	s.uint() // the value's length, which decoders ignore as well
	s.concrete(s.ref(id))
}

// sequence reads descriptions of types up to the type of a value.
func (s *scanner) sequence(inside bool) int64 {
	for s.err == nil {
		if len(s.msg) == 0 {
			s.receive()
		}
		id := s.int()
		if id >= 0 {
			return id
		}
		s.describe(-id)
		if len(s.msg) == 0 {
			continue
		}
		if !inside {
			s.fail(codec.ErrMalformed)
		}
		s.uint() // the next message's length
	}
	return 0
}
