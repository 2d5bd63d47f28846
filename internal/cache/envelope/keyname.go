package envelope

import (
	"encoding"
	"fmt"
	"hash/maphash"
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

// texts returns the conversions by the methods MarshalText of K and UnmarshalText of
// its pointer. ok is false if either is missing.
func texts[K comparable]() (n Names[K], ok bool) {
	var zero K
	_, marshals := any(zero).(encoding.TextMarshaler)
	_, parses := any(&zero).(encoding.TextUnmarshaler)
	if !marshals || !parses {
		return n, false
	}
	return Names[K]{Of: textOf[K], Parse: parseText[K]}, true
}

// textOf returns the text of a key, if it is the text of this key alone: it is
// parsed again. So two keys never share a name, and an instance that reads the
// name in a message finds the key.
func textOf[K comparable](key K) (string, error) {
	text, err := any(key).(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return "", textError[K]("MarshalText failed", err)
	}
	name := string(text)
	switch back, err := parseText[K](name); {
	case err != nil:
		return "", err
	case back != key:
		return "", textError[K]("the text of a key is that of another key, too", nil)
	}
	return name, nil
}

// parseText returns the key with a text.
func parseText[K comparable](s string) (key K, err error) {
	if err := any(&key).(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
		return *new(K), textError[K]("UnmarshalText failed", err)
	}
	return key, nil
}

// TextError is the error of a key without a text, or with a text shared with another
// key. The text of the error quotes no part of the key; Err may quote one.
type TextError struct {
	Type, Reason string
	Err          error
}

// Error implements error.
func (e *TextError) Error() string { return "strata: key of type " + e.Type + ": " + e.Reason }

// Unwrap returns the cause. It may be nil.
func (e *TextError) Unwrap() error { return e.Err }

func textError[K comparable](reason string, cause error) error {
	return &TextError{Type: reflect.TypeFor[K]().String(), Reason: reason, Err: cause}
}

// IsBytes reports whether a key of type K can be kept as bytes: its text if it is a string, or else its
// memory, which has no pointer, and is the same for equal keys.
func IsBytes[K comparable]() bool { return IsString[K]() || isBytes(reflect.TypeFor[K]()) }

func isBytes(t reflect.Type) bool {
	switch k := t.Kind(); {
	case k >= reflect.Bool && k <= reflect.Uintptr:
		return true
	case k == reflect.Array:
		return isBytes(t.Elem())
	case k == reflect.Struct:
		var size uintptr // without padding, which may be anything
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Name == "_" || !isBytes(f.Type) {
				return false
			}
			size += f.Type.Size()
		}
		return size == t.Size()
	}
	return false
}

// Distinct returns keys without repetitions, and without keys unequal to themselves,
// such as NaN. If it leaves out none it returns keys itself.
func Distinct[K comparable](keys []K) []K {
	if len(keys) <= maxFew && fewDistinct(keys) {
		return keys
	}
	seen := make(map[K]struct{}, len(keys))
	all := make([]K, 0, len(keys))
	for _, k := range keys {
		if _, again := seen[k]; !again && k == k { // a NaN cannot be found again
			seen[k] = struct{}{}
			all = append(all, k)
		}
	}
	return all
}

// maxFew is the largest number of keys that fewDistinct can compare.
const maxFew = 128

var fewSeed = maphash.MakeSeed() // read-only

// fewDistinct reports whether few keys are all different, and equal to themselves. It
// does so without an allocation, in a hash table of their positions.
func fewDistinct[K comparable](keys []K) bool {
	var table [2 * maxFew]uint8 // zero: free, else the position and one
	for i, k := range keys {
		if k != k {
			return false
		}
		// The table is at most half full, so that a free place is near, and the place wraps around
		// with its type.
		at := uint8(maphash.Comparable(fewSeed, k))
		for ; table[at] != 0; at++ {
			if keys[table[at]-1] == k {
				return false
			}
		}
		table[at] = uint8(i + 1)
	}
	return true
}
