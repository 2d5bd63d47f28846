package lossy

import (
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// step is a field of a struct to check.
type step struct {
	*node
	at   int
	name string
	// omits says how JSON leaves the field out, and skips that gob does so if the field
	// points to zero.
	omits omission
	skips bool
	// unset says that a decoder cannot make the value behind the field, null that it cannot
	// read a nil either, and usual that omits, skips and unset are all empty.
	unset, null, usual bool
}

// structure checks the fields of structs.
func (b *planner) structure(at place) func(*walk, reflect.Value) *Change {
	var steps []step
	t := at.of
	for i := range t.NumField() {
		f := t.Field(i)
		if b.leavesOut(&f) {
			continue
		}
		_, options, _ := strings.Cut(f.Tag.Get(b.Tag), ",")
		embedded := b.JSON && isFlat(&f)
		s := step{
			node: b.node(place{f.Type, at.addressed, embedded}), at: i, name: "." + f.Name,
			omits: b.omission(&f, options),
			skips: b.SkipsZero && f.Type.Kind() == reflect.Pointer && !b.selfMade(f.Type),
			unset: b.JSON && f.Anonymous && !f.IsExported() && f.Type.Kind() == reflect.Pointer,
			null:  !embedded,
		}
		if b.JSON && deref(f.Type).Kind() == reflect.String && has(options, "string") && s.plain() {
			s.node = &node{check: checkText, done: true} // replaced bytes are escaped twice
		}
		if b.JSON && has(options, "string") && b.quotesMethods(f.Type) {
			s.node = &node{check: b.quoted(&f, at.addressed), done: true}
		}
		s.usual = s.omits == omission{} && !s.skips && !s.unset
		if !s.plain() || s.skips || s.unset || s.omits.byMethod {
			steps = append(steps, s)
		}
	}
	b.embeds = b.embeds || b.JSON && slices.ContainsFunc(fieldsOf(t), isFlatPointer)
	if len(steps) == 0 {
		return nil
	}
	return func(w *walk, v reflect.Value) (c *Change) {
		if !at.embedded { // else its fields are at the level of the struct around it
			c = w.enter()
			defer w.leave()
		}
		for i := 0; i < len(steps) && c == nil; i++ {
			s := &steps[i]
			if f := v.Field(s.at); s.usual {
				c = s.check(w, f)
			} else {
				c = b.look(s, w, f)
			}
			if c != nil {
				_ = c.in(s.name)
			}
		}
		return c
	}
}

// quotesMethods reports whether the option string of JSON is about values of t, and these have methods: an encoder ignores the
// option then, and a decoder does not.
func (b *planner) quotesMethods(t reflect.Type) bool {
	return isFlatKind(deref(t).Kind()) && b.selfMade(deref(t))
}

// quoted checks the values of a field with the option string by a struct of this field alone, since the option is a part of
// the tag.
func (b *planner) quoted(f *reflect.StructField, addressed bool) func(*walk, reflect.Value) *Change {
	alone := reflect.StructOf([]reflect.StructField{{Name: f.Name, Type: f.Type, Tag: f.Tag}})
	return func(_ *walk, v reflect.Value) *Change {
		whole := reflect.New(alone).Elem()
		whole.Field(0).Set(v)
		if !addressed {
			whole = reflect.ValueOf(whole.Interface())
		}
		if back, err := b.again(whole); err != nil || !b.Same(whole, back) {
			return changed("a " + f.Type.String() + " with methods and the option string would be decoded as another value, or not at all")
		}
		return nil
	}
}

// omission says when JSON leaves a field out: if it is empty, zero, or says that it is zero.
type omission struct{ empty, zero, byMethod bool }

// zeroer are the types with a method that decides about the option omitzero.
var zeroer = reflect.TypeFor[interface{ IsZero() bool }]() // read-only

func (b *planner) omission(f *reflect.StructField, options string) omission {
	if b.JSON && isFlat(f) {
		return omission{} // JSON ignores the options of an embedded struct, and writes its fields into the struct around it
	}
	zero, method := b.JSON && has(options, "omitzero"), implements(f.Type, []reflect.Type{zeroer})
	return omission{
		empty:    b.JSON && has(options, "omitempty") && f.Type.Kind() != reflect.Struct,
		zero:     zero && !method,
		byMethod: zero && method,
	}
}

// look checks the value of a field.
func (b *planner) look(s *step, w *walk, v reflect.Value) *Change {
	switch {
	case s.omits.empty && isEmpty(v), s.omits.zero && v.IsZero():
		return nil
	case s.omits.byMethod && (isNilable(v.Kind()) && v.IsNil() || saysZero(v)):
		if !b.Same(v, reflect.Zero(v.Type())) {
			return changed("a " + v.Type().String() + " that is left out would be decoded as another value")
		}
		return nil
	case s.unset && (s.null || !v.IsNil()):
		return changed("a pointer to an embedded struct that is not exported cannot be decoded again")
	case s.skips && b.pointsToZero(v):
		return changed("a pointer to a zero " + v.Type().Elem().String() + " would be decoded as nil")
	case s.plain():
		return nil
	}
	return s.check(w, v)
}

// saysZero calls the method IsZero of v, or of a pointer to it.
func saysZero(v reflect.Value) bool {
	z, ok := v.Interface().(interface{ IsZero() bool })
	if !ok {
		z = pointerTo(v).Interface().(interface{ IsZero() bool })
	}
	return z.IsZero()
}

// isEmpty reports whether v is empty to the option omitempty.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.Array, reflect.String:
		return v.Len() == 0
	}
	return v.IsZero()
}

func checkNumber(_ *walk, v reflect.Value) *Change {
	if v.Len() == 0 {
		return changed("an empty json.Number would be decoded as 0")
	}
	return nil
}

func checkText(_ *walk, v reflect.Value) *Change {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.IsValid() && !utf8.ValidString(v.String()) {
		return changed("a string is no UTF-8")
	}
	return nil
}

// pointsToZero reports whether v leads by pointers to a value that encoding/gob does not
// write in a field. It writes each value by its method.
func (b *planner) pointsToZero(v reflect.Value) bool {
	if v.IsNil() {
		return false
	}
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return true
		}
		if b.encodesItself(v.Type()) {
			return false
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Array:
		return false
	case reflect.Slice:
		return v.Len() == 0
	}
	return v.IsZero()
}

// has reports whether options, separated by commas, have one.
func has(options, one string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if o == one {
			return true
		}
	}
	return false
}
