package compact

import (
	"reflect"
	"sync"
	"unsafe"
)

// field is an encoded field of a struct, with its offset in bytes.
type field struct {
	*node
	offset uintptr
}

func (b *builder) structure(n *node, t reflect.Type, path string) {
	fields, left := b.fields(t, path)
	n.flat, n.unlike = true, left
	for _, f := range fields {
		n.flat = n.flat && f.flat
		// The leaves of a struct inside become leaves of this one, so that one loop encodes all of
		// them.
		for _, l := range f.leaves {
			l.offset += f.offset
			n.leaves = append(n.leaves, l)
		}
		n.least += f.least
		n.methods = n.methods || f.methods
		n.pointers = n.pointers || f.pointers
		n.unlike = n.unlike || f.unlike
	}
	n.opaque = left && len(fields) == 0
	n.encode = func(e *encoder, b []byte, p unsafe.Pointer) []byte {
		for i := range fields {
			b = fields[i].encode(e, b, unsafe.Add(p, fields[i].offset))
		}
		return b
	}
	n.decode = func(d *decoder, p unsafe.Pointer) {
		for i := range fields {
			fields[i].decode(d, unsafe.Add(p, fields[i].offset))
		}
	}
}

// fields returns the encoded fields of a struct, and whether other fields are left out.
// Mutexes and fields without a name hold no data, and do not count as left out.
func (b *builder) fields(t reflect.Type, path string) (fields []field, left bool) {
	if path != "" {
		path += "."
	}
	for f := range t.Fields() {
		at, of := path+f.Name, f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		switch {
		case of == reflect.TypeFor[sync.Map]():
			left = true
			b.lost = append(b.lost, at)
		case f.Name == "_", of.PkgPath() == "sync":
		case f.IsExported():
			fields = append(fields, field{b.whole(f.Type, at), f.Offset})
		case f.Anonymous && of.Kind() == reflect.Struct:
			fields = append(fields, field{b.node(f.Type, at), f.Offset})
		default:
			left = true
			b.lost = append(b.lost, at)
		}
	}
	return fields, left
}
