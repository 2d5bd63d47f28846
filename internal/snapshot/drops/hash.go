package drops

import (
	"math/bits"
	"reflect"
	"unsafe"
)

// Hasher returns a function that returns the hash of a key, the same in all processes; zero for a
// key without a name. The function of returns the name of a key that is neither a string nor an
// integer.
func Hasher[K comparable](of func(K) (string, error)) func(K) uint64 {
	// K may be a defined type, which no type switch finds, so its memory is read as a value of its
	// kind. A name would cost an allocation for each key.
	switch kind := reflect.TypeFor[K]().Kind(); {
	case kind == reflect.String:
		return func(k K) uint64 { return hash(*(*string)(unsafe.Pointer(&k)), 0) }
	case kind >= reflect.Int && kind <= reflect.Uintptr:
		return func(k K) uint64 {
			switch p := unsafe.Pointer(&k); unsafe.Sizeof(k) {
			case 8:
				return number(*(*uint64)(p))
			case 4:
				return number(uint64(*(*uint32)(p)))
			case 2:
				return number(uint64(*(*uint16)(p)))
			default:
				return number(uint64(*(*uint8)(p)))
			}
		}
	}
	return func(k K) uint64 {
		name, err := of(k)
		if err != nil {
			return 0
		}
		return hash(name, 0)
	}
}

// Zero stands for a key without a name, here and below.
func number(n uint64) uint64 { return max(1, mix(n^0x8ebc6af09c88c6e3, 0x9e3779b97f4a7c15)) }

// Tag returns the hash of a tag.
func Tag(tag string) uint64 { return hash(tag, 0xa0761d6478bd642f) }

// hash is a hash of multiplications of 64 by 64 bits, as in wyhash.
func hash(s string, seed uint64) uint64 {
	h := mix(seed^0x9e3779b97f4a7c15, uint64(len(s))^0xe7037ed1a0b428db)
	for ; len(s) >= 8; s = s[8:] {
		h = mix(h^0x8ebc6af09c88c6e3, h^(uint64(s[0])|uint64(s[1])<<8|uint64(s[2])<<16|uint64(s[3])<<24|uint64(s[4])<<32|uint64(s[5])<<40|uint64(s[6])<<48|uint64(s[7])<<56)^0x589965cc75374cc3)
	}
	var last uint64
	for i := len(s) - 1; i >= 0; i-- {
		last = last<<8 | uint64(s[i])
	}
	h = mix(h^last, 0x1d8e4e27c47d124f)
	return max(1, h^h>>29)
}

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
