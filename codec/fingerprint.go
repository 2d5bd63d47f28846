package codec

import (
	"encoding"
	"encoding/json"
	"hash/fnv"
	"reflect"
	"strconv"
	"strings"
)

// Fingerprint returns a number computed from the name of c and the shape of V.
// It is the same in every process, on every architecture and in every build of
// the same types. It is never zero.
//
// The shape is, recursively: kind, type name without its package, and for
// structs the fields in their order with name, type and tag. So the fingerprint
// changes when a field is added, removed, renamed, moved or retyped; int and
// int64 differ, and so do T and *T. It does not change when a type moves to
// another package. Unexported fields do not count, because no codec of this
// package encodes them. With [JSON] only the tags with the key json count, and
// fields tagged "-" do not count.
//
// For a type that marshals itself the encoding is not visible in its shape: its
// package and its exported fields count. When such an encoding changes, use
// [WithName].
func Fingerprint[V any](c Codec[V]) uint64 {
	h := fnv.New64a()
	h.Write([]byte(strconv.Quote(c.Name())))
	d := describer{seen: make(map[reflect.Type]int)}
	if t, ok := c.(tagged); ok {
		d.tag = t.tagKey()
	}
	d.describe(reflect.TypeFor[V]())
	h.Write([]byte(d.b.String()))
	return max(h.Sum64(), 1)
}

// tagged is a codec that reads one key of struct tags. For other codecs, and
// for an empty key, every tag counts.
type tagged interface{ tagKey() string }

// describer writes the shape of a type as text. Each named or struct type is
// described once and then referred to by a number, so that the text is finite
// for recursive types and short for wide ones.
type describer struct {
	b    strings.Builder
	tag  string
	seen map[reflect.Type]int
}

func (d *describer) describe(t reflect.Type) {
	if t.Name() != "" || t.Kind() == reflect.Struct {
		if n, ok := d.seen[t]; ok {
			d.write("^" + strconv.Itoa(n))
			return
		}
		d.seen[t] = len(d.seen)
	}
	if t.Name() != "" && t.PkgPath() != "" {
		d.write(shortName(t.Name()) + "=")
		if by := marshalsBy(t); by != "" {
			d.write(by + strconv.Quote(t.PkgPath()))
		}
	}
	d.write(t.Kind().String())
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		d.inner(t.Elem())
	case reflect.Array:
		d.write(strconv.Itoa(t.Len()))
		d.inner(t.Elem())
	case reflect.Map:
		d.inner(t.Key())
		d.inner(t.Elem())
	case reflect.Struct:
		d.fields(t)
	case reflect.Interface:
		if t.Name() == "" {
			d.write(strconv.Quote(t.String())) // its methods
		}
	}
}

func (d *describer) inner(t reflect.Type) {
	d.write("(")
	d.describe(t)
	d.write(")")
}

func (d *describer) fields(t reflect.Type) {
	d.write("{")
	for f := range t.Fields() {
		tag := string(f.Tag)
		if d.tag != "" {
			tag = f.Tag.Get(d.tag)
		}
		// Exported fields of an unexported embedded struct are promoted.
		if !f.IsExported() && !f.Anonymous || d.tag != "" && tag == "-" {
			continue
		}
		d.write(f.Name)
		if f.Anonymous {
			d.write("!")
		}
		d.inner(f.Type)
		if tag != "" {
			d.write(strconv.Quote(tag))
		}
		d.write(";")
	}
	d.write("}")
}

func (d *describer) write(s string) { d.b.WriteString(s) }

// marshalsBy returns one letter for each interface by which t encodes itself.
// It tests for interfaces, not for method names: a test by name would make the
// linker keep every method of the program.
func marshalsBy(t reflect.Type) string {
	ways := []struct {
		letter string
		method reflect.Type
	}{
		{"j", reflect.TypeFor[json.Marshaler]()},
		{"t", reflect.TypeFor[encoding.TextMarshaler]()},
		{"b", reflect.TypeFor[encoding.BinaryMarshaler]()},
		{"g", reflect.TypeFor[interface{ GobEncode() ([]byte, error) }]()},
	}
	p, by := reflect.PointerTo(t), ""
	for _, w := range ways {
		if p.Implements(w.method) {
			by += w.letter
		}
	}
	return by
}

// shortName removes the package paths from the type arguments in a name:
// "Box[example.org/a/b.T]" becomes "Box[T]".
func shortName(name string) string {
	var out strings.Builder
	for len(name) > 0 {
		end := strings.IndexAny(name, "[]{}()*,; ")
		if end < 0 {
			end = len(name)
		}
		word := name[:end]
		out.WriteString(word[strings.LastIndexByte(word, '.')+1:])
		if end == len(name) {
			break
		}
		out.WriteByte(name[end])
		name = name[end+1:]
	}
	return out.String()
}

func typeName[V any]() string { return reflect.TypeFor[V]().String() }
