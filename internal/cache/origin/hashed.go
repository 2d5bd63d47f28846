package origin

import (
	"reflect"
	"strings"

	"github.com/strata-cache/strata/codec"
)

// Hashed returns a codec that encodes equal values alike: c, or JSON for values that may hold maps. JSON sorts the
// keys; other codecs may write one map in another order each time.
func Hashed[V any](c codec.Codec[V]) codec.Codec[V] {
	inner, _, _ := strings.Cut(c.Name(), "+")
	if asJSON := codec.JSON[V](); inner != asJSON.Name() && mayHoldMap(reflect.TypeFor[V](), map[reflect.Type]bool{}) {
		return asJSON
	}
	return c
}

// mayHoldMap reports whether a value of type t may hold a map. seen are the types that were looked at.
func mayHoldMap(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Map, reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return mayHoldMap(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if mayHoldMap(f.Type, seen) {
				return true
			}
		}
	}
	return false
}
