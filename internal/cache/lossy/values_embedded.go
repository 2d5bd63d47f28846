package lossy

import "reflect"

// A decoder of JSON makes an embedded struct behind a pointer for its first field in the text. So the pointer becomes nil if
// all fields of the struct are left out, or have the names of others.

// fieldsOf returns the fields of a struct.
func fieldsOf(t reflect.Type) []reflect.StructField {
	all := make([]reflect.StructField, t.NumField())
	for i := range all {
		all[i] = t.Field(i)
	}
	return all
}

// isFlatPointer reports whether the fields of a struct behind a pointer are written as fields of the struct around it.
func isFlatPointer(f reflect.StructField) bool {
	return isFlat(&f) && f.Type.Kind() == reflect.Pointer && f.Tag.Get("json") != "-"
}

// keepsEmbedded reports whether all embedded pointers of v come back. It encodes and decodes all of v once: by parts, a list would
// take a time in proportion to its length squared.
func (s *Values) keepsEmbedded(v reflect.Value) bool {
	back, err := s.again(v)
	return err == nil && s.sameEmbedded(v, back)
}

// sameEmbedded reports whether the same embedded pointers are nil in two values. It looks at nothing else.
func (s *Values) sameEmbedded(a, b reflect.Value) bool {
	switch t := a.Type(); t.Kind() {
	case reflect.Pointer:
		return a.IsNil() || b.IsNil() || s.sameEmbedded(a.Elem(), b.Elem())
	case reflect.Slice, reflect.Array:
		for i := 0; !isFlatKind(t.Elem().Kind()) && i < min(a.Len(), b.Len()); i++ {
			if !s.sameEmbedded(a.Index(i), b.Index(i)) {
				return false
			}
		}
	case reflect.Map:
		for i := a.MapRange(); !isFlatKind(t.Elem().Kind()) && i.Next(); {
			if other := b.MapIndex(i.Key()); other.IsValid() && !s.sameEmbedded(i.Value(), other) {
				return false
			}
		}
	case reflect.Struct:
		return s.encodesItself(t) || s.sameEmbeddedFields(a, b) // a method was checked by itself
	}
	return true
}

// sameEmbeddedFields is sameEmbedded for structs that are encoded by their fields, whether or not they have methods.
func (s *Values) sameEmbeddedFields(a, b reflect.Value) bool {
	for i := range a.NumField() {
		f, x, y := a.Type().Field(i), a.Field(i), b.Field(i)
		same := s.sameEmbedded
		if isFlat(&f) {
			same = s.sameEmbeddedFields
		}
		if isFlatPointer(f) {
			if x.IsNil() != y.IsNil() {
				return false
			}
			x, y = x.Elem(), y.Elem() // no value if it is nil
		}
		if x.IsValid() && !s.leavesOut(&f) && !same(x, y) {
			return false
		}
	}
	return true
}
