package lossy

import (
	"fmt"
	"reflect"
)

// dynamic checks the value in an interface: in JSON that it is of a type that a decoder
// chooses, and else as a value of its type.
func (b *planner) dynamic(t reflect.Type) func(*walk, reflect.Value) *Change {
	b.Open = true
	if !b.JSON {
		return b.inside
	}
	return func(w *walk, v reflect.Value) *Change {
		switch {
		case v.IsNil():
			return nil
		case t.NumMethod() > 0:
			return changed(v.Elem().Type().String() + " in a " + t.String() + " cannot be decoded again")
		}
		return w.native(v.Interface())
	}
}

// inside checks the value in an interface.
func (b *planner) inside(w *walk, v reflect.Value) *Change {
	if v.IsNil() {
		return nil
	}
	v = v.Elem()
	// The parts of a type are looked at once, and the result is kept: interfaces hold few different
	// types.
	s, ok := b.known.Load(v.Type())
	if !ok {
		s, _ = b.known.LoadOrStore(v.Type(), newValues(v.Type(), b.Rules, b.known))
	}
	c := w.enter()
	if n := s.(*Values).root; c == nil && !n.plain() {
		c = n.check(w, v)
	}
	w.leave()
	return c
}

// The types of which a decoder of JSON makes objects and lists.
var nativeMap, nativeList = reflect.TypeFor[map[string]any](), reflect.TypeFor[[]any]() // read-only

// checkNative checks a map or list of these types, without reflection.
func checkNative(w *walk, v reflect.Value) *Change {
	if v.IsNil() {
		return nil
	}
	return w.native(v.Interface())
}

// native checks that v is of the types that a decoder of JSON chooses.
func (w *walk) native(v any) (c *Change) {
	switch x := v.(type) {
	case nil, bool, float64, string:
		return nil
	case []any:
		if x == nil {
			return changed("a nil []any in an interface would be decoded as nil")
		}
		c = w.enter()
		for i := 0; i < len(x) && c == nil; i++ {
			if !isNative(x[i]) {
				c = w.native(x[i]).in("[]")
			}
		}
	case map[string]any:
		if x == nil {
			return changed("a nil map[string]any in an interface would be decoded as nil")
		}
		c = w.enter()
		for _, e := range x {
			if isNative(e) {
				continue
			}
			if c != nil {
				break
			}
			c = w.native(e).in("[]")
		}
	default:
		return changed(fmt.Sprintf("%T in an interface would be decoded as another type", v))
	}
	w.leave()
	return c
}

// isNative reports whether v has no parts and is of a type that a decoder chooses.
func isNative(v any) bool {
	switch v.(type) {
	case nil, bool, float64, string:
		return true
	}
	return false
}
