package codec

import "encoding/binary"

// Int is any integer type.
type Int interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// Integer returns the codec for an integer type: 1 to 10 bytes, fewer for
// numbers near zero. Every number has exactly one encoding. Decode returns
// [ErrRange] for a number that V cannot hold, for instance on a machine with
// 32-bit int.
func Integer[V Int]() Codec[V] { return integer[V]{} }

type integer[V Int] struct{}

const integerName = "varint"

func (integer[V]) Name() string { return integerName }

func (integer[V]) Append(dst []byte, v V) ([]byte, error) {
	if signed[V]() {
		return binary.AppendVarint(dst, int64(v)), nil
	}
	return binary.AppendUvarint(dst, uint64(v)), nil
}

func (integer[V]) Decode(data []byte) (V, error) {
	u, n := binary.Uvarint(data)
	switch {
	case n == 0:
		return 0, fail[V](integerName, "decode", "", ErrShort)
	case n < 0:
		return 0, fail[V](integerName, "decode", "", ErrRange)
	case n < len(data):
		return 0, fail[V](integerName, "decode", "", ErrLong)
	case n > 1 && data[n-1] == 0: // a number with leading zeros
		return 0, fail[V](integerName, "decode", "", ErrMalformed)
	}
	if !signed[V]() {
		if v := V(u); uint64(v) == u {
			return v, nil
		}
		return 0, fail[V](integerName, "decode", "", ErrRange)
	}
	i := int64(u>>1) ^ -int64(u&1)
	if v := V(i); int64(v) == i {
		return v, nil
	}
	return 0, fail[V](integerName, "decode", "", ErrRange)
}

func signed[V Int]() bool { return ^V(0) < 0 }
