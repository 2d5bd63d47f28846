package compact

import (
	"encoding/binary"
	"math"
	"reflect"
	"unsafe"

	"github.com/strata-cache/strata/codec"
)

type signed interface{ int | int16 | int32 | int64 }

type unsigned interface {
	uint | uint16 | uint32 | uint64 | uintptr
}

// scalar makes n the node of a kind without parts. It reports false for other kinds.
func (n *node) scalar(k reflect.Kind) bool {
	switch k {
	case reflect.Bool:
		n.set(1, encodeBool, decodeBool)
	case reflect.Int8, reflect.Uint8:
		n.set(1, encodeByte, decodeByte)
	case reflect.Int:
		n.set(1, encodeInt[int], decodeInt[int])
	case reflect.Int16:
		n.set(1, encodeInt[int16], decodeInt[int16])
	case reflect.Int32:
		n.set(1, encodeInt[int32], decodeInt[int32])
	case reflect.Int64:
		n.set(1, encodeInt[int64], decodeInt[int64])
	case reflect.Uint:
		n.set(1, encodeUint[uint], decodeUint[uint])
	case reflect.Uint16:
		n.set(1, encodeUint[uint16], decodeUint[uint16])
	case reflect.Uint32:
		n.set(1, encodeUint[uint32], decodeUint[uint32])
	case reflect.Uint64:
		n.set(1, encodeUint[uint64], decodeUint[uint64])
	case reflect.Uintptr:
		n.set(1, encodeUint[uintptr], decodeUint[uintptr])
	case reflect.Float32:
		n.set(4, encodeFloat32, decodeFloat32)
	case reflect.Float64:
		n.set(8, encodeFloat64, decodeFloat64)
	case reflect.Complex64:
		n.set(8, encodeComplex64, decodeComplex64)
	case reflect.Complex128:
		n.set(16, encodeComplex128, decodeComplex128)
	case reflect.String:
		n.set(1, encodeString, decodeString)
	default:
		return false
	}
	return true
}

func (n *node) set(least int, encode func(*encoder, []byte, unsafe.Pointer) []byte, decode func(*decoder, unsafe.Pointer)) {
	n.least, n.encode, n.decode = least, encode, decode
}

func encodeBool(_ *encoder, b []byte, p unsafe.Pointer) []byte { return putBool(b, *(*bool)(p)) }

func decodeBool(d *decoder, p unsafe.Pointer) { *(*bool)(p) = d.bool() }

func (d *decoder) bool() bool {
	c := d.byte()
	// One value has one form: damage must not pass for another value.
	if c > 1 {
		d.fail(codec.ErrMalformed)
	}
	return c == 1
}

func encodeByte(_ *encoder, b []byte, p unsafe.Pointer) []byte { return append(b, *(*byte)(p)) }
func decodeByte(d *decoder, p unsafe.Pointer)                  { *(*byte)(p) = d.byte() }

func encodeInt[T signed](_ *encoder, b []byte, p unsafe.Pointer) []byte {
	return appendInt(b, int64(*(*T)(p)))
}

func decodeInt[T signed](d *decoder, p unsafe.Pointer) { *(*T)(p) = narrowInt[T](d, d.int()) }

func narrowInt[T signed](d *decoder, i int64) T {
	// The program that has written the value may have a wider type. Its number must not become
	// another one here.
	v := T(i)
	if int64(v) != i {
		d.fail(codec.ErrRange)
	}
	return v
}

func encodeUint[T unsigned](_ *encoder, b []byte, p unsafe.Pointer) []byte {
	return appendUint(b, uint64(*(*T)(p)))
}

func decodeUint[T unsigned](d *decoder, p unsafe.Pointer) { *(*T)(p) = narrowUint[T](d, d.uint()) }

func narrowUint[T unsigned](d *decoder, u uint64) T {
	v := T(u)
	if uint64(v) != u {
		d.fail(codec.ErrRange)
	}
	return v
}

func appendFloat32(b []byte, f float32) []byte {
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
}

func appendFloat64(b []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
}

func (d *decoder) float32() float32 {
	if b := d.bytes(4); len(b) == 4 {
		return math.Float32frombits(binary.LittleEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) float64() float64 {
	if b := d.bytes(8); len(b) == 8 {
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	return 0
}

func encodeFloat32(_ *encoder, b []byte, p unsafe.Pointer) []byte {
	return appendFloat32(b, *(*float32)(p))
}
func decodeFloat32(d *decoder, p unsafe.Pointer) { *(*float32)(p) = d.float32() }

func encodeFloat64(_ *encoder, b []byte, p unsafe.Pointer) []byte {
	return appendFloat64(b, *(*float64)(p))
}
func decodeFloat64(d *decoder, p unsafe.Pointer) { *(*float64)(p) = d.float64() }

func encodeComplex64(_ *encoder, b []byte, p unsafe.Pointer) []byte {
	c := *(*complex64)(p)
	return appendFloat32(appendFloat32(b, real(c)), imag(c))
}

func decodeComplex64(d *decoder, p unsafe.Pointer) {
	re := d.float32()
	*(*complex64)(p) = complex(re, d.float32())
}

func encodeComplex128(_ *encoder, b []byte, p unsafe.Pointer) []byte {
	c := *(*complex128)(p)
	return appendFloat64(appendFloat64(b, real(c)), imag(c))
}

func decodeComplex128(d *decoder, p unsafe.Pointer) {
	re := d.float64()
	*(*complex128)(p) = complex(re, d.float64())
}

func encodeString(_ *encoder, b []byte, p unsafe.Pointer) []byte {
	return appendString(b, *(*string)(p))
}
func decodeString(d *decoder, p unsafe.Pointer) { *(*string)(p) = d.string() }
