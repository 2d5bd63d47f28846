package lossy

import (
	"reflect"
	"unicode/utf8"
)

// Same reports whether two values of a type are equal as far as the type says: by its
// method Equal or Cmp, or else by their parts. Parts that the encoding leaves out do not
// count, and an empty slice or map is equal to nil. The unexported fields of a type
// that encodes itself must be equal, or encoded alike if it refers to other values.
func (s *Values) Same(a, b reflect.Value) bool { return s.same(a, b, 0) }

// alike reports whether the two become equal after one more time.
func (s *Values) alike(a, b reflect.Value) bool {
	x, err := s.Encode(a)
	if err != nil {
		return false
	}
	y, err := s.Encode(b)
	return err == nil && string(x) == string(y)
}

// mostNested bounds the recursion of a comparison.
const mostNested = 20_000

func (s *Values) same(a, b reflect.Value, depth int) bool {
	if a.Type() != b.Type() || depth > mostNested {
		return false
	}
	// The type knows best: a time, for example, is equal to itself in another zone.
	if equal, ok := byMethod(a, b); ok {
		return equal
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() && b.IsNil()
		}
		return s.same(a.Elem(), b.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		return s.sameElements(a, b, depth)
	case reflect.Map:
		return s.sameEntries(a, b, depth)
	case reflect.Struct:
		return s.sameFields(a, b, depth)
	// No encoding keeps these, so that only nil comes back.
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return a.IsNil() && b.IsNil()
	case reflect.Float32, reflect.Float64:
		// NaN is not equal to itself, and yet comes back as what it was.
		return a.Float() == b.Float() || a.Float() != a.Float() && b.Float() != b.Float()
	}
	return a.Equal(b)
}

// sameElements compares slices or arrays. An empty slice is equal to nil.
func (s *Values) sameElements(a, b reflect.Value, depth int) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if !s.same(a.Index(i), b.Index(i), depth+1) {
			return false
		}
	}
	return true
}

func (s *Values) sameEntries(a, b reflect.Value, depth int) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := a.MapRange(); i.Next(); {
		other := b.MapIndex(i.Key())
		if !other.IsValid() || !s.same(i.Value(), other, depth+1) {
			return false
		}
	}
	return true
}

func (s *Values) sameFields(a, b reflect.Value, depth int) bool {
	hidden := false
	for i := range a.NumField() {
		f := a.Type().Field(i)
		switch {
		case !f.IsExported() && !f.Anonymous:
			hidden = true
		case s.leavesOut(&f):
		case !s.same(a.Field(i), b.Field(i), depth+1):
			return false
		}
	}
	switch {
	case !hidden || !s.encodesItself(a.Type()):
		return true
	case a.Comparable() && !refers(a.Type()):
		return a.Equal(b)
	}
	return s.alike(a, b)
}

// byMethod compares by a method of the type, or reports that there is none.
func byMethod(a, b reflect.Value) (equal, ok bool) {
	if k := a.Kind(); k == reflect.Interface || k == reflect.Pointer || !a.CanInterface() || !b.CanInterface() || a.Type().Name() == "" {
		return false, false
	}
	// A method of the pointer is as good as one of the value, and every value can get a pointer.
	to, other := pointerTo(a), pointerTo(b)
	if m := to.MethodByName("Equal"); m.IsValid() {
		if arg, ok := argument(m, other, reflect.Bool); ok {
			return m.Call([]reflect.Value{arg})[0].Bool(), true
		}
	}
	if m := to.MethodByName("Cmp"); m.IsValid() {
		if arg, ok := argument(m, other, reflect.Int); ok {
			return m.Call([]reflect.Value{arg})[0].Int() == 0, true
		}
	}
	return false, false
}

// argument returns p, or the value behind p, if m takes that and m returns a result
// of a kind.
func argument(m, p reflect.Value, result reflect.Kind) (arg reflect.Value, ok bool) {
	t := m.Type()
	if t.NumIn() != 1 || t.NumOut() != 1 || t.Out(0).Kind() != result || t.IsVariadic() {
		return arg, false
	}
	switch t.In(0) {
	case p.Type():
		return p, true
	case p.Type().Elem():
		return p.Elem(), true
	}
	return arg, false
}

// pointerTo returns a pointer to v, or to a copy.
func pointerTo(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v.Addr()
	}
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p
}

// Garbled reports whether a text in v, an encoded value, or a key of a map in it is invalid
// UTF-8. Check has looked at the parts that encode themselves.
func (s *Values) Garbled(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && s.Garbled(v.Elem())
	case reflect.Slice, reflect.Array:
		return s.garbledElement(v)
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			if s.Garbled(i.Key()) || s.Garbled(i.Value()) {
				return true
			}
		}
	case reflect.Struct:
		return !s.encodesItself(v.Type()) && s.garbledField(v)
	}
	return false
}

func (s *Values) garbledElement(v reflect.Value) bool {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return false
	}
	for i := range v.Len() {
		if s.Garbled(v.Index(i)) {
			return true
		}
	}
	return false
}

func (s *Values) garbledField(v reflect.Value) bool {
	for i := range v.NumField() {
		if f := v.Type().Field(i); !s.leavesOut(&f) && s.Garbled(v.Field(i)) {
			return true
		}
	}
	return false
}
