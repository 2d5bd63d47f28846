// Package keyname has the names that keys have in L2.
package keyname

import (
	"fmt"
	"reflect"
	"strconv"
	"unsafe"
)

// Names are the conversions between keys and their names in L2.
type Names[K comparable] struct {
	// Of returns the name of a key. Its error quotes no part of the key.
	Of func(K) (string, error)
	// Parse is the inverse of Of. It is nil if the program has given Of alone.
	Parse func(string) (K, error)
}

// Given returns the conversions of the program. parse may be nil.
func Given[K comparable](name func(K) string, parse func(string) (K, error)) Names[K] {
	return Names[K]{Of: func(k K) (string, error) { return name(k), nil }, Parse: parse}
}

// Default returns the conversions for keys of a string or integer type, and of
// other types that have a text. ok is false for the rest. Methods of string and
// integer types do not count: so different keys have different names, also if the
// methods give them one text. encoding/json does the same for the string keys of
// a map; of integer keys it takes the text.
func Default[K comparable]() (n Names[K], ok bool) {
	var zero K
	if _, plain := any(zero).(string); plain {
		n.Of = func(k K) (string, error) { return any(k).(string), nil }
		n.Parse = func(s string) (K, error) { return any(s).(K), nil }
		return n, true
	}
	t := reflect.TypeFor[K]()
	switch t.Kind() {
	case reflect.String:
		n.Of = func(k K) (string, error) { return reflect.ValueOf(k).String(), nil }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n.Of = func(k K) (string, error) { return strconv.FormatInt(reflect.ValueOf(k).Int(), 10), nil }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		n.Of = func(k K) (string, error) { return strconv.FormatUint(reflect.ValueOf(k).Uint(), 10), nil }
	default:
		return texts[K]()
	}
	n.Parse = func(s string) (K, error) { return parseKey[K](t, s) }
	return n, true
}

// parseKey is the inverse of the names that Default gives to keys of type t.
func parseKey[K comparable](t reflect.Type, s string) (key K, err error) {
	v := reflect.ValueOf(&key).Elem()
	switch {
	case v.Kind() == reflect.String:
		v.SetString(s)
	// A number outside of the range of the type is the key of another program, and an error here.
	case v.CanInt():
		var n int64
		if n, err = strconv.ParseInt(s, 10, t.Bits()); err == nil {
			v.SetInt(n)
		}
	case v.CanUint():
		var n uint64
		if n, err = strconv.ParseUint(s, 10, t.Bits()); err == nil {
			v.SetUint(n)
		}
	}
	if err != nil {
		return key, fmt.Errorf("strata: key of type %v: %w", t, err)
	}
	return key, nil
}

// IsString reports whether keys of type K are strings.
func IsString[K comparable]() bool { return reflect.TypeFor[K]().Kind() == reflect.String }

// Length is the number of bytes of a key of a type for which [IsString] is true.
func Length[K comparable](key K) int { return len(*(*string)(unsafe.Pointer(&key))) }
