package codec

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Reasons for refused input. Use errors.Is to test for them.
var (
	// ErrShort is returned when the input ends before the value does.
	ErrShort = errors.New("input too short")
	// ErrLong is returned when bytes are left over after the value.
	ErrLong = errors.New("input too long")
	// ErrRange is returned when a number does not fit its type.
	ErrRange = errors.New("number out of range")
	// ErrMalformed is returned when the input is not an encoded value.
	ErrMalformed = errors.New("malformed input")
	// ErrForeign is returned when the value was written for another type or by
	// another codec.
	ErrForeign = errors.New("written for another type")
	// ErrTooLarge is returned when compressed input claims to hold more bytes than
	// are accepted for its length.
	ErrTooLarge = errors.New("too large when decompressed")
)

// Error is the type of the errors of Append and Decode. Its text contains no
// part of the value. The wrapped error may contain one, if a method of the
// value type has made it.
type Error struct {
	// Codec is the codec's name, Op is "encode" or "decode", Type is the Go
	// type of the value.
	Codec, Op, Type string
	// Reason is a description of the problem. It may be empty.
	Reason string
	// Err is the cause. It may be nil.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	s := "codec: " + e.Codec + ": " + e.Op + " " + e.Type
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// PanicError is the cause of an [Error] if a method of the value type panicked
// during encoding or decoding.
type PanicError struct {
	// Value is the value passed to panic.
	Value any
	// Stack is the stack of the goroutine at the panic.
	Stack []byte
}

// Error implements error. The text omits Value, which may quote data.
func (e *PanicError) Error() string {
	return fmt.Sprintf("panic (%T) in a method of the value type", e.Value)
}

func fail[V any](codec, op, reason string, cause error) error {
	if reason == "" && cause != nil {
		reason = cause.Error()
	}
	return &Error{Codec: codec, Op: op, Type: typeName[V](), Reason: reason, Err: cause}
}

// rescue converts a panic to an error. It must be deferred directly.
func rescue[V any](codec, op string, err *error) {
	if r := recover(); r != nil {
		p := &PanicError{Value: r, Stack: debug.Stack()}
		*err = fail[V](codec, op, "", p)
	}
}
