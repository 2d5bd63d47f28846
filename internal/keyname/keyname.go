// Package keyname has the names that keys of string and integer types have in
// L2 when the user gives no functions for that.
package keyname

import (
	"fmt"
	"reflect"
	"strconv"
	"unsafe"
)

// Default returns the conversion between keys of a string or integer type
// and their names in L2. ok is false for other types.
func Default[K comparable]() (name func(K) string, parse func(string) (K, error), ok bool) {
	var zero K
	if _, plain := any(zero).(string); plain {
		name = func(k K) string { return any(k).(string) }
		parse = func(s string) (K, error) { return any(s).(K), nil }
		return name, parse, true
	}
	t := reflect.TypeFor[K]()
	switch t.Kind() {
	case reflect.String:
		name = func(k K) string { return reflect.ValueOf(k).String() }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		name = func(k K) string { return strconv.FormatInt(reflect.ValueOf(k).Int(), 10) }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		name = func(k K) string { return strconv.FormatUint(reflect.ValueOf(k).Uint(), 10) }
	default:
		return nil, nil, false
	}
	return name, func(s string) (K, error) { return parseKey[K](t, s) }, true
}

// parseKey is the inverse of the names that Default gives to keys of type t.
func parseKey[K comparable](t reflect.Type, s string) (key K, err error) {
	v := reflect.ValueOf(&key).Elem()
	switch {
	case v.Kind() == reflect.String:
		v.SetString(s)
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

// Length is the number of bytes of a key, whose type [IsString].
func Length[K comparable](key K) int { return len(*(*string)(unsafe.Pointer(&key))) }
