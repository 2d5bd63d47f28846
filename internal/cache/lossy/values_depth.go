package lossy

import "reflect"

// Bound returns a *Change if v, a value of the type, is nested in itself or too deep for its own methods.
//
// A method often encodes its value as one of another type without the method. An encoder that meets the type again within
// it calls the method, which begins a new encoder: none of them counts the levels, and a value nested in itself
// ends the program.
func (s *Values) Bound(v reflect.Value) *Change {
	if !s.nests {
		return nil
	}
	return s.bound(&walk{most: s.MaxDepth}, v)
}

// bound counts the parts of v that an encoder writes, whether or not they encode themselves.
func (r *Rules) bound(w *walk, v reflect.Value) (c *Change) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		if c = w.follow(1); c == nil {
			c = r.bound(w, v.Elem())
		}
		_ = w.follow(-1)
	case reflect.Struct:
		c = w.enter()
		for i := 0; i < v.NumField() && c == nil; i++ {
			if f := v.Type().Field(i); !r.leavesOut(&f) {
				c = r.bound(w, v.Field(i))
			}
		}
		w.leave()
	case reflect.Slice, reflect.Array:
		if isFlatKind(v.Type().Elem().Kind()) {
			return nil
		}
		c = w.enter()
		for i := 0; i < v.Len() && c == nil; i++ {
			c = r.bound(w, v.Index(i))
		}
		w.leave()
	case reflect.Map:
		if isFlatKind(v.Type().Elem().Kind()) {
			return nil
		}
		c = w.enter()
		for i := v.MapRange(); c == nil && i.Next(); {
			c = r.bound(w, i.Value())
		}
		w.leave()
	}
	return c
}

// isFlatKind reports whether values of a kind have no parts.
func isFlatKind(k reflect.Kind) bool {
	return k < reflect.Array || k == reflect.String
}

// endless reports whether a value of t may have parts without end: t contains itself or an interface, in the parts that an encoder
// writes. within has the types around t, and false for those that were looked at.
func (r *Rules) endless(t reflect.Type, within map[reflect.Type]bool) bool {
	if around, known := within[t]; known {
		return around
	}
	within[t] = true
	defer func() { within[t] = false }()
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return r.endless(t.Elem(), within)
	case reflect.Struct:
		for f := range t.Fields() {
			if !r.leavesOut(&f) && r.endless(f.Type, within) {
				return true
			}
		}
	}
	return false
}
