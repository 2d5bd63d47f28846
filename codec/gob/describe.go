package gob

import "github.com/strata-cache/strata/codec"

// describe reads the description of type id. In encoding/gob it is a wireType:
// a struct with one field for each sort of type, of which one is set.
func (s *scanner) describe(id int64) {
	if s.types == nil {
		s.types = make(map[int64]*node)
	}
	n := s.ref(id)
	if id < firstUser || n == nil || n.kind != unknown {
		s.fail(codec.ErrMalformed)
		return
	}
	s.fields(7, func(sort int) {
		if n.kind != unknown { // two sorts at once
			s.fail(codec.ErrMalformed)
		}
		switch sort {
		case 0: // array: common, element, length
			n.kind = list
			s.parts(3, func(i int) {
				if id := s.int(); i == 1 {
					n.elem = s.ref(id)
				}
			})
		case 1: // slice: common, element
			n.kind = list
			s.parts(2, func(int) { n.elem = s.ref(s.int()) })
		case 2: // struct: common, fields
			n.kind = record
			s.parts(2, func(int) { s.members(n) })
		case 3: // map: common, key, element
			n.kind = table
			s.parts(3, func(i int) {
				if t := s.ref(s.int()); i == 1 {
					n.key = t
				} else {
					n.elem = t
				}
			})
		default: // types that encode themselves: common
			n.kind = blob
			s.parts(1, nil)
		}
	})
	// A shape with a hole would let bytes pass that the decoder reads in another way.
	missing := n.kind == list && n.elem == nil || n.kind == table && (n.key == nil || n.elem == nil)
	if n.kind == unknown || missing {
		s.fail(codec.ErrMalformed)
	}
}

// parts scans a description of n parts and calls f for all but the first. The
// first part is common to all sorts, a name and an id; it is not needed.
func (s *scanner) parts(n int, f func(i int)) {
	s.fields(n, func(i int) {
		if i > 0 {
			f(i)
			return
		}
		s.nameAndType(func(int64) {})
	})
}

// members reads the fields of a struct: each a name and a type.
func (s *scanner) members(n *node) {
	for i := s.count(1); i > 0 && s.err == nil; i-- {
		var t *node
		s.nameAndType(func(id int64) { t = s.ref(id) })
		if t == nil {
			s.fail(codec.ErrMalformed)
			return
		}
		n.fields = append(n.fields, t)
	}
}

func (s *scanner) nameAndType(f func(id int64)) {
	s.fields(2, func(i int) {
		if i == 0 {
			s.blob()
			return
		}
		f(s.int())
	})
}

// ref returns the shape of type id, which may be described later. It returns
// nil if there is no such type.
func (s *scanner) ref(id int64) *node {
	if id < firstUser {
		s.iface = s.iface || id == ifaceID
		return builtin(id)
	}
	// A description may refer to a type that is described later. Outside of one there is nothing to
	// refer to.
	n := s.types[id]
	if n == nil && s.types != nil {
		n = &node{}
		s.types[id] = n
	}
	return n
}
