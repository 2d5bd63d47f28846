package compact

import (
	"encoding/binary"
	"errors"
)

// errDeep is the reason for refusing a value with too deep nesting, or one nested in itself.
var errDeep = errors.New("nested too deep, or in itself")

// problem is the reason for a refusal: a text without parts of the value, and the
// cause for errors.Is.
type problem struct {
	text  string
	cause error
}

func (p *problem) Error() string { return p.text }
func (p *problem) Unwrap() error { return p.cause }

// encoder has the state of one Append on its way through a value: bounds against endless values,
// and the first error.
type encoder struct {
	depth int
	parts int // of types that contain themselves
	err   error
}

// refuse keeps the first error.
func (e *encoder) refuse(text string, cause error) {
	if e.err == nil {
		e.err = &problem{text, cause}
	}
}

// appendUint appends u in 7 bits a byte, the low ones first.
func appendUint(b []byte, u uint64) []byte {
	if u < 1<<7 {
		return append(b, byte(u))
	}
	return appendLong(b, u)
}

// appendLong appends 2 bytes and more.
func appendLong(b []byte, u uint64) []byte {
	switch {
	case u < 1<<14:
		return append(b, byte(u|0x80), byte(u>>7))
	case u < 1<<21:
		return append(b, byte(u|0x80), byte(u>>7|0x80), byte(u>>14))
	case u < 1<<28:
		return append(b, byte(u|0x80), byte(u>>7|0x80), byte(u>>14|0x80), byte(u>>21))
	}
	b = append(b, byte(u|0x80), byte(u>>7|0x80), byte(u>>14|0x80), byte(u>>21|0x80))
	return binary.AppendUvarint(b, u>>28)
}

// appendInt appends i with the sign in the lowest bit.
func appendInt(b []byte, i int64) []byte { return appendUint(b, uint64(i<<1)^uint64(i>>63)) }

func appendString(b []byte, s string) []byte { return append(appendUint(b, uint64(len(s))), s...) }
