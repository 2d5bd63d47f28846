package codec

import "unsafe"

// Bytes returns the codec for byte slices. Decode returns a copy: the caller owns the
// slice, and it does not alias the input. No input is refused. A nil slice is decoded
// as an empty one.
func Bytes() Codec[[]byte] { return bytesCodec{} }

type bytesCodec struct{}

func (bytesCodec) Name() string { return "bytes" }

func (bytesCodec) Append(dst []byte, v []byte) ([]byte, error) { return append(dst, v...), nil }

func (bytesCodec) Decode(data []byte) ([]byte, error) {
	v := make([]byte, len(data))
	copy(v, data)
	return v, nil
}

// DecodeAlias implements [Aliaser].
func (bytesCodec) DecodeAlias(data []byte) ([]byte, error) {
	if data == nil {
		return []byte{}, nil
	}
	return data[:len(data):len(data)], nil
}

// String returns the codec for strings. No input is refused, valid UTF-8 or
// not.
func String() Codec[string] { return stringCodec{} }

type stringCodec struct{}

func (stringCodec) Name() string { return "string" }

func (stringCodec) Append(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }

func (stringCodec) Decode(data []byte) (string, error) { return string(data), nil }

// DecodeAlias implements [Aliaser].
func (stringCodec) DecodeAlias(data []byte) (string, error) {
	return unsafe.String(unsafe.SliceData(data), len(data)), nil
}
