// Package lossy finds the parts of values that an encoding does not keep: [Fields] by the
// type alone, and [Values] in single values.
package lossy

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Format is the part of an encoding that decides which fields are left out. Unexported
// fields always are.
type Format struct {
	// Self are the interfaces of types that encode themselves, which lose nothing.
	Self []reflect.Type
	// Tag is the key of a struct tag by which "-" leaves a field out. Empty means none.
	Tag string
	// Kinds are the kinds of fields left out or refused.
	Kinds []reflect.Kind
	// Behind says that fields with pointers to values of these kinds are left out, too.
	Behind bool
	// Promotes says that the fields of an unexported embedded struct are encoded, too.
	Promotes bool
}

// Fields returns the paths from t of the fields that an encoding leaves out, in the order of
// the declarations. Fields of a type that t refers to several times are named once.
// Mutexes are passed over: they hold no data. An interface is named if the encoding refuses
// some values in it, with a note behind its path.
func Fields(t reflect.Type, r *Rules) []string {
	s := search{Rules: r, seen: map[reflect.Type]bool{}, within: map[reflect.Type]bool{}}
	s.visit(t, "")
	return s.lost
}

type search struct {
	*Rules
	seen map[reflect.Type]bool // structs
	// within has the pointers, lists and maps around the type: one may consist of itself, as
	// map[string]T in type T map[string]T.
	within map[reflect.Type]bool
	lost   []string
}

func (s *search) lose(path string) {
	if !slices.Contains(s.lost, path) {
		s.lost = append(s.lost, path)
	}
}

// visit looks at the type of the values at path.
func (s *search) visit(t reflect.Type, path string) {
	switch {
	case t.Kind() == reflect.Interface:
		s.dynamic(t, path)
		return
	case t.Kind() == reflect.Pointer:
		s.inside(t, path)
		return
	case s.encodesItself(t):
		s.borrowed(t, path)
		return
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		s.inside(t, path+"[]")
	case reflect.Struct:
		if !s.seen[t] {
			s.seen[t] = true
			s.fields(t, path)
		}
	}
}

// inside looks at the elements of values of t, unless they contain such values again.
func (s *search) inside(t reflect.Type, path string) {
	if !s.within[t] {
		s.within[t] = true
		s.visit(t.Elem(), path)
		delete(s.within, t)
	}
}

// dynamic looks at an interface.
func (s *search) dynamic(t reflect.Type, path string) {
	if path == "" {
		path = "value"
	}
	switch {
	case !s.JSON:
	case t.NumMethod() > 0:
		s.lose(path + " (only nil)")
	default:
		s.lose(path + " (only nil, bool, float64, string, []any and map[string]any)")
	}
}

// borrowed looks at a struct that encodes itself by the method of an embedded type, which
// knows no other fields.
func (s *search) borrowed(t reflect.Type, path string) {
	if t.Kind() != reflect.Struct || t == timeType {
		return
	}
	for f := range t.Fields() {
		if f.Anonymous && s.encodesItself(f.Type) && s.alikeWhenZero(t, f.Type) {
			for other := range t.Fields() {
				if other.Name != f.Name && other.Name != "_" {
					s.lose(below(path) + other.Name)
				}
			}
			return
		}
	}
}

// alikeWhenZero reports whether zero values of two types are encoded alike. A method may
// panic for one.
func (s *search) alikeWhenZero(a, b reflect.Type) (alike bool) {
	defer func() {
		if recover() != nil {
			alike = false
		}
	}()
	x, err := s.Encode(reflect.New(a).Elem())
	if err != nil {
		return false
	}
	y, err := s.Encode(reflect.New(b).Elem())
	return err == nil && string(x) == string(y)
}

// below returns the beginning of the paths of the fields of a struct at path.
func below(path string) string {
	if path == "" {
		return ""
	}
	return path + "."
}

func (s *search) fields(t reflect.Type, path string) {
	for f := range t.Fields() {
		switch at := below(path) + f.Name; {
		case f.Name == "_", deref(f.Type).PkgPath() == "sync" && !isSyncMap(deref(f.Type)):
		// With the method of an embedded time the struct would encode itself: another one hides it.
		case s.leavesOut(&f), isSyncMap(deref(f.Type)), s.JSON && isFlat(&f) && deref(f.Type) == timeType:
			s.lose(at)
		// A struct whose fields count as those around it is looked at even if it has methods: JSON
		// does not call them.
		case s.JSON && isFlat(&f):
			s.fieldsOnce(deref(f.Type), at)
		default:
			s.visit(f.Type, at)
		}
	}
	if s.JSON {
		s.shadowed(t, path)
	}
}

// isSyncMap reports whether t is the type of package sync that holds data of programs.
func isSyncMap(t reflect.Type) bool { return t == reflect.TypeFor[sync.Map]() }

// fieldsOnce is fields for a struct with fields encoded as fields of the struct around
// it. It visits a type once, since a struct may embed itself by a pointer.
func (s *search) fieldsOnce(t reflect.Type, path string) {
	if !s.seen[t] {
		s.seen[t] = true
		s.fields(t, path)
	}
}

// isFlat reports whether JSON encodes the fields of an embedded struct as fields of the
// struct around it, also if the embedded one has methods of its own.
func isFlat(f *reflect.StructField) bool {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return f.Anonymous && name == "" && deref(f.Type).Kind() == reflect.Struct
}

// shadow is a field of a struct, or of a struct embedded in it, with its name in JSON.
type shadow struct {
	path   string
	depth  int
	tagged bool
}

// shadowed marks fields of embedded structs as lost whose name in JSON belongs to another field:
// the least deeply embedded field wins; among several of one depth, the one with a tag; among
// several with tags, none.
func (s *search) shadowed(t reflect.Type, path string) {
	named := map[string][]shadow{}
	var names []string
	within := map[reflect.Type]bool{} // a struct may embed itself by a pointer
	var collect func(t reflect.Type, path string, depth int)
	collect = func(t reflect.Type, path string, depth int) {
		if within[t] {
			return
		}
		// Only the types on the way down count: a struct embedded in two places has its fields in
		// both.
		within[t] = true
		defer delete(within, t)
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch at := below(path) + f.Name; {
			case s.leavesOut(&f):
			case isFlat(&f):
				collect(deref(f.Type), at, depth+1)
			case f.IsExported():
				tagged := name != ""
				if !tagged {
					name = f.Name
				}
				if named[name] == nil {
					names = append(names, name)
				}
				named[name] = append(named[name], shadow{at, depth, tagged})
			}
		}
	}
	collect(t, path, 0)
	for _, name := range names {
		s.loseShadowed(named[name])
	}
}

// loseShadowed loses all fields of a name but the winner.
func (s *search) loseShadowed(all []shadow) {
	before := func(a, b shadow) int {
		if a.depth == b.depth && a.tagged != b.tagged {
			if a.tagged {
				return -1
			}
			return 1
		}
		return a.depth - b.depth
	}
	slices.SortStableFunc(all, before)
	won := len(all) == 1 || before(all[0], all[1]) != 0
	for i, f := range all {
		if i > 0 || !won {
			s.lose(f.path)
		}
	}
}

// leavesOut reports whether no part of a field is encoded.
func (r *Format) leavesOut(f *reflect.StructField) bool {
	of := f.Type
	for i := 0; r.Behind && of.Kind() == reflect.Pointer && i < 100; i++ { // a bound for type T *T
		of = of.Elem()
	}
	promoted := r.Promotes && f.Anonymous && deref(f.Type).Kind() == reflect.Struct
	return !f.IsExported() && !promoted || r.Tag != "" && f.Tag.Get(r.Tag) == "-" || slices.Contains(r.Kinds, of.Kind())
}

// encodesItself reports whether t, or a pointer to it, has a method that encodes it.
func (r *Format) encodesItself(t reflect.Type) bool { return implements(t, r.Self) }

// implements reports whether t, or a pointer to it, has the methods of one of some
// interfaces.
func implements(t reflect.Type, any []reflect.Type) bool {
	return slices.ContainsFunc(any, func(method reflect.Type) bool {
		return t.Implements(method) || reflect.PointerTo(t).Implements(method)
	})
}

func deref(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// Text names the first of the paths, for a sentence.
func Text(paths []string) string {
	const most = 5
	if len(paths) > most {
		return strings.Join(paths[:most], ", ") + ", and others"
	}
	return strings.Join(paths, ", ")
}

// Advice returns a sentence about the parts of values of type t that a codec leaves out; none if it keeps
// all.
func Advice(c any, t reflect.Type) []string {
	l, ok := c.(interface {
		Name() string
		Lost() []string
	})
	if !ok || len(l.Lost()) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Remote.Codec: %s does not keep all of %v: %s: values that come from L2, or from an encoded L1, lack these parts, and "+
		"values that have others than those in parentheses are not stored there", l.Name(), t, Text(l.Lost()))}
}
