// Counts the loads that bring another value than the cache had of the key, and the loads that bring
// an equal one.
//
// How values are compared depends on their type, and is decided once for each cache:
//
//   - a type with a method Equal for its own values: by that
//   - numbers, strings and booleans, arrays and structs of these: with ==
//   - slices of bytes: byte by byte
//   - others, with an L2: by their encoded bytes, of which L2 has the old ones and gets the new ones
//   - others, without an L2: by their encoded bytes, one load in [EveryChange], if there is a codec
//     for them
//
// Pointers are not compared with ==, since a load returns a new one each time. If an encoding
// differs for equal values, because it writes maps in any order, they count as changed.
//
// Invariant: a load of a key without a previous value costs nothing, and no load of a cache with an
// L2 encodes a value that it would not have encoded anyway.

package origin

import (
	"bytes"
	"hash/maphash"
	"reflect"
	"sync/atomic"

	"github.com/strata-cache/strata/internal/cache/envelope"
)

// EveryChange: if a comparison has to encode values, one in this number of loads is compared, and
// counted as so many.
const EveryChange = 16

// Changes counts the loads of one cache. Create it with [NewChanges]. It is safe for concurrent use.
type Changes[V any] struct {
	equal  func(a, b *V) bool                    // nil: values are compared by their encoded bytes
	sums   bool                                  // values are compared by the Sums of the bytes in L2
	encode func(dst []byte, v V) ([]byte, error) // without an L2; nil: not at all
	seed   maphash.Seed                          // of sums

	turns              atomic.Uint64
	changed, unchanged atomic.Uint64
}

// NewChanges returns a Changes. l2 says that there is an L2. encodes says that encode may encode
// values if there is none.
func NewChanges[V any](l2, encodes bool, encode func(dst []byte, v V) ([]byte, error)) *Changes[V] {
	c := &Changes[V]{equal: equalOf[V](), seed: maphash.MakeSeed()}
	switch {
	case c.equal != nil:
	case l2:
		c.sums = true
	case encodes:
		c.encode = encode
	}
	return c
}

// Sum is a hash of the encoded bytes of a value; 0 if none is needed.
func (c *Changes[V]) Sum(encoded []byte) uint64 {
	if !c.sums {
		return 0
	}
	return maphash.Bytes(c.seed, encoded) | 1
}

// Loaded counts a load that has brought now instead of old. sum is the Sum of the old value in L2,
// 0 if it is unknown. sealed is the envelope of the new one, nil if it was not encoded. A method of
// the values or a codec may panic.
func (c *Changes[V]) Loaded(old, now *V, sum uint64, sealed []byte) {
	switch {
	case c.equal != nil:
		c.count(c.equal(old, now), 1)
	case c.sums:
		if sum != 0 && sealed != nil {
			c.count(c.Sum(envelope.Payload(sealed)) == sum, 1)
		}
	case c.encode != nil && c.turn():
		a, err1 := c.encode(nil, *old)
		b, err2 := c.encode(nil, *now)
		if err1 == nil && err2 == nil {
			c.count(bytes.Equal(a, b), EveryChange)
		}
	}
}

// turn reports whether the next load is compared: one of each EveryChange, at a varying place, so
// that it is not always the same key of a batch.
func (c *Changes[V]) turn() bool {
	n := c.turns.Add(1) - 1
	return n%EveryChange == n/EveryChange*0x9e3779b97f4a7c15>>60
}

func (c *Changes[V]) count(equal bool, n uint64) {
	if equal {
		c.unchanged.Add(n)
	} else {
		c.changed.Add(n)
	}
}

// Read returns the number of loads that have brought another value, and of loads that have brought
// an equal one.
func (c *Changes[V]) Read() (changed, unchanged uint64) { return c.changed.Load(), c.unchanged.Load() }

// equalOf returns the function that compares two values; nil if their encoded bytes have to be.
func equalOf[V any]() func(a, b *V) bool {
	t := reflect.TypeFor[V]()
	if _, ok := any(*new(V)).(interface{ Equal(V) bool }); ok {
		return func(a, b *V) bool {
			if t.Kind() == reflect.Pointer && (any(*a) == any(*new(V)) || any(*b) == any(*new(V))) {
				return any(*a) == any(*b) // most methods need a value
			}
			return any(*a).(interface{ Equal(V) bool }).Equal(*b)
		}
	}
	switch {
	case isPlain(t):
		return func(a, b *V) bool { return any(*a) == any(*b) }
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return func(a, b *V) bool { return bytes.Equal(reflect.ValueOf(*a).Bytes(), reflect.ValueOf(*b).Bytes()) }
	}
	return nil
}

// isPlain reports whether values of t with equal contents are ==. With an interface in them they may
// be of any type, and == may panic.
func isPlain(t reflect.Type) bool {
	switch k := t.Kind(); k {
	case reflect.Array:
		return isPlain(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !isPlain(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return k >= reflect.Bool && k <= reflect.Complex128 || k == reflect.String
	}
}
