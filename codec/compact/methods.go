package compact

import (
	"encoding"
	"errors"
	"reflect"
	"unsafe"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/cache/lossy"
)

// binaryMethods are the methods of a type that encodes itself.
type binaryMethods interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// gobMethods are the methods for encoding/gob. This package does not import it, so that programs
// need not link it.
type gobMethods interface {
	GobEncode() ([]byte, error)
	GobDecode(data []byte) error
}

// methods are the methods by which a type encodes itself.
type methods struct {
	all    reflect.Type // an interface
	put    func(v any) ([]byte, error)
	get    func(v any, data []byte) error
	called [2]string // for errors
}

// methodsOf returns the methods by which a type encodes itself, or nil. A struct that embeds a type
// with such methods has them, too, but they know nothing of its other fields. So this struct is
// encoded by its fields, and the result is nil.
func methodsOf(t reflect.Type) *methods {
	ways := [...]methods{{
		all:    reflect.TypeFor[binaryMethods](),
		put:    func(v any) ([]byte, error) { return v.(binaryMethods).MarshalBinary() },
		get:    func(v any, data []byte) error { return v.(binaryMethods).UnmarshalBinary(data) },
		called: [...]string{"MarshalBinary", "UnmarshalBinary"},
	}, {
		all:    reflect.TypeFor[gobMethods](),
		put:    func(v any) ([]byte, error) { return v.(gobMethods).GobEncode() },
		get:    func(v any, data []byte) error { return v.(gobMethods).GobDecode(data) },
		called: [...]string{"GobEncode", "GobDecode"},
	}}
	for i := range ways {
		if ways[i].are(t) && !ways[i].embedded(t) {
			return &ways[i]
		}
	}
	return nil
}

// are reports whether t has the methods. t is neither a pointer nor an interface.
func (m *methods) are(t reflect.Type) bool {
	return t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(m.all)
}

// embedded reports whether a struct may have the methods from a field.
func (m *methods) embedded(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for f := range t.Fields() {
		if f.Anonymous && (f.Type.Implements(m.all) || reflect.PointerTo(f.Type).Implements(m.all)) {
			return true
		}
	}
	return false
}

// build makes n the node of a type with the methods. Its form is a length, and the bytes that the
// method returns.
func (m *methods) build(n *node, t reflect.Type) {
	n.least, n.methods = 1, true
	survives := m.survives(t)
	n.unlike = survives != nil
	n.encode = func(e *encoder, b []byte, p unsafe.Pointer) []byte {
		v := reflect.NewAt(t, p)
		if survives != nil {
			if c := survives.Bound(v.Elem()); c != nil {
				e.refuse(c.Error(), c.Unwrap())
				return b
			}
		}
		data, err := m.put(v.Interface())
		if err != nil {
			e.refuse("refused by "+m.called[0]+" of "+t.String(), err)
			return b
		}
		b = append(appendUint(b, uint64(len(data))), data...)
		if survives == nil {
			return b
		}
		// A method may lose a part of the value without an error. Readers of other instances would
		// get another value than the caller of the load.
		if c := survives.Back(v.Elem(), data); c != nil {
			e.refuse(c.Error(), c.Unwrap())
		}
		return b
	}
	n.decode = func(d *decoder, p unsafe.Pointer) {
		data := d.bytes(d.uint())
		if d.err != nil {
			return
		}
		if err := m.get(reflect.NewAt(t, p).Interface(), data); err != nil {
			d.refuse("refused by "+m.called[1]+" of "+t.String(), errors.Join(codec.ErrMalformed, err))
		}
	}
}

// survives checks that values of t come back from the bytes of their methods; nil if they are
// known to.
func (m *methods) survives(t reflect.Type) *lossy.Values {
	s := lossy.NewValues(t, lossy.Rules{
		Format:   lossy.Format{Self: []reflect.Type{m.all}},
		Encode:   func(v reflect.Value) ([]byte, error) { return m.put(v.Addr().Interface()) },
		Decode:   func(data []byte, to reflect.Value) error { return m.get(to.Interface(), data) },
		Decodes:  []reflect.Type{m.all},
		MaxDepth: MaxDepth,
	})
	if !s.Self {
		return nil
	}
	return s
}
