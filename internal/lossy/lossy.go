// Package lossy finds the fields of a type that an encoding leaves out.
package lossy

import (
	"reflect"
	"slices"
	"strings"
)

// Format is the part of an encoding that decides which fields are left out. Unexported
// fields always are.
type Format struct {
	// Self are the interfaces of types that encode themselves, which lose nothing.
	Self []reflect.Type
	// Tag is the key of a struct tag by which "-" leaves a field out. Empty means none.
	Tag string
	// Kinds are those of fields that are left out or refused.
	Kinds []reflect.Kind
	// Promotes says that fields of an unexported embedded struct are encoded.
	Promotes bool
}

// Fields returns the paths from t of the fields that f leaves out, in the order of
// the declarations. Fields of a type that t refers to several times are named once.
// Values in interfaces are not looked at, nor are mutexes: they are no data.
func Fields(t reflect.Type, f Format) []string {
	s := search{Format: f, seen: map[reflect.Type]bool{}}
	s.visit(t, "")
	return s.lost
}

type search struct {
	Format
	seen map[reflect.Type]bool
	lost []string
}

// visit looks at the type of the values at path.
func (s *search) visit(t reflect.Type, path string) {
	if s.encodesItself(t) {
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		s.visit(t.Elem(), path)
	case reflect.Slice, reflect.Array, reflect.Map:
		s.visit(t.Elem(), path+"[]")
	case reflect.Struct:
		if !s.seen[t] {
			s.seen[t] = true
			s.fields(t, path)
		}
	}
}

func (s *search) fields(t reflect.Type, path string) {
	if path != "" {
		path += "."
	}
	for f := range t.Fields() {
		switch at := path + f.Name; {
		case f.Name == "_", deref(f.Type).PkgPath() == "sync":
		case s.leavesOut(&f):
			s.lost = append(s.lost, at)
		default:
			s.visit(f.Type, at)
		}
	}
}

// leavesOut reports whether no part of a field is encoded.
func (s *search) leavesOut(f *reflect.StructField) bool {
	promoted := s.Promotes && f.Anonymous && deref(f.Type).Kind() == reflect.Struct
	return !f.IsExported() && !promoted || s.Tag != "" && f.Tag.Get(s.Tag) == "-" || slices.Contains(s.Kinds, f.Type.Kind())
}

// encodesItself reports whether t, or a pointer to it, has a method that encodes it.
func (s *search) encodesItself(t reflect.Type) bool {
	return slices.ContainsFunc(s.Self, func(method reflect.Type) bool {
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
