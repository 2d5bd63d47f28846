package keyname

import "reflect"

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
