package strata

import "reflect"

// checkKey returns ErrKeyTooLong for a string that is longer than a key may be.
// Keys of other types have a length by their names only; see nameOf.
func (c *Cache[K, V]) checkKey(key K) error {
	if c.tooLong(lenOf(key)) {
		return ErrKeyTooLong
	}
	return nil
}

// tooLong reports whether a key or the name of one has too many bytes.
func (c *Cache[K, V]) tooLong(n int) bool {
	most := c.o.Limits.MaxKeyBytes
	return most > 0 && n > most
}

// lenOf is the length of a key that is a string, zero of others.
func lenOf[K comparable](key K) int {
	if s, ok := any(key).(string); ok {
		return len(s)
	}
	if reflect.TypeFor[K]().Kind() == reflect.String {
		return reflect.ValueOf(key).Len()
	}
	return 0
}
