// Package resp is the wire format of Redis, versions 2 and 3, in both
// directions: a client appends commands and reads replies; a server reads
// commands and appends replies.
//
// It has no sockets. A [Reader] reads from any io.Reader; all output is
// appended to a []byte.
//
// # Limits
//
// A Reader bounds the memory that a peer can make it reserve. Lengths are
// checked against [Limits] before memory is reserved. Memory for a string of up
// to 1 MiB is reserved when its length arrives; for a longer string it is
// reserved when an eighth of the bytes have arrived. For all other values
// memory is reserved in steps as bytes arrive: an incomplete reply holds at
// most the bytes received plus 64 KiB, for any announced length. Arrays have
// the same bound, because a reply is kept as the bytes of the wire and its
// elements are parsed only on access.
package resp

import (
	"iter"
	"math"
	"strconv"

	"github.com/strata-cache/strata/internal/wire"
)

// Limits bound one reply. A zero field means its default.
type Limits struct {
	// Bulk is the largest string, in bytes. Default 512 MiB, the limit of
	// Redis.
	Bulk int
	// Reply is the largest reply, in bytes. For a string its own bytes count,
	// for other values the bytes on the wire. Default 1 GiB.
	Reply int
	// Depth is the largest nesting depth of aggregates. Default 32.
	Depth int
	// Elements is the largest total number of elements in a reply; a pair of a
	// map counts as two. Default 1 Mi.
	Elements int
	// Line is the longest line, in bytes, of a status, an error or a big
	// number. Default 64 KiB.
	Line int
}

func (l Limits) withDefaults() Limits {
	set := func(field *int, def int) {
		if *field <= 0 {
			*field = def
		}
		*field = min(*field, math.MaxInt/2) // so that a sum of two does not overflow
	}
	set(&l.Bulk, 512<<20)
	set(&l.Reply, 1<<30)
	set(&l.Depth, 32)
	set(&l.Elements, 1<<20)
	set(&l.Line, 64<<10)
	return l
}

// ProtocolError is returned when the peer has violated the format or a limit.
type ProtocolError = wire.ProtocolError

func broken(reason string) error { return &ProtocolError{Reason: reason} }

// Kind is the type of a value.
type Kind uint8

// The kinds of values. Null bulk strings and null arrays are Null; blob errors
// are Error.
const (
	Null Kind = iota
	Status
	Error
	Int
	Bulk
	Array
	Map
	Set
	Push
	Bool
	Double
	BigNumber
	Verbatim
)

// String returns the name of the kind as in error texts.
func (k Kind) String() string {
	names := [...]string{
		"null", "status", "error", "integer", "string", "array", "map",
		"set", "push", "boolean", "double", "big number", "verbatim string",
	}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Value is one complete reply, or one element of it. The zero Value is null.
// Values are small and passed by value. They share the bytes of their reply.
type Value struct {
	kind Kind
	// n is the integer, the truth of a boolean, the bits of a double, or the
	// number of elements. A status with n 1 is OK and has no body.
	n int64
	// body is the text, or the elements as on the wire.
	body []byte
}

// IntOf returns the value of an integer.
func IntOf(n int64) Value { return Value{kind: Int, n: n} }

// ArrayOf returns the value of an array of n elements. body is their encoding,
// for instance by AppendBulk and AppendNull; it must not be changed.
func ArrayOf(n int, body []byte) Value { return Value{kind: Array, n: int64(n), body: body} }

// Kind returns the type of the value.
func (v Value) Kind() Kind { return v.kind }

// Bytes returns the text of a status, error, string, big number or verbatim
// string (without its format), and nil for other kinds. The slice belongs to
// the owner of the reply.
func (v Value) Bytes() []byte {
	switch v.kind {
	case Status:
		if v.n == 1 {
			return []byte("OK")
		}
		return v.body
	case Error, Bulk, BigNumber, Verbatim:
		return v.body
	}
	return nil
}

// OK reports whether the value is the status OK.
func (v Value) OK() bool { return v.kind == Status && v.n == 1 }

// Int returns an integer, or 1 and 0 for a boolean; zero for other kinds.
func (v Value) Int() int64 {
	if v.kind == Int || v.kind == Bool {
		return v.n
	}
	return 0
}

// Float returns a double, and zero for other kinds.
func (v Value) Float() float64 {
	if v.kind == Double {
		return math.Float64frombits(uint64(v.n))
	}
	return 0
}

// AppendNumber appends an integer, a boolean or a double as servers write them in
// RESP2; other kinds add nothing.
func (v Value) AppendNumber(dst []byte) []byte {
	switch v.kind {
	case Int, Bool:
		return strconv.AppendInt(dst, v.n, 10)
	case Double:
		return appendFloat(dst, v.Float(), 64)
	}
	return dst
}

// Size returns the number of bytes that the value holds.
func (v Value) Size() int { return len(v.body) }

// Clone returns a copy that shares no bytes.
func (v Value) Clone() Value {
	if v.body != nil {
		v.body = append(make([]byte, 0, len(v.body)), v.body...)
	}
	return v
}

// Len returns the number of elements of an aggregate, two for each pair of a
// map. It is zero for other kinds.
func (v Value) Len() int {
	switch v.kind {
	case Array, Map, Set, Push:
		return int(v.n)
	}
	return 0
}

// Elems yields the elements of an aggregate in order: key, value, key, value
// for a map. Attributes are left out.
func (v Value) Elems() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		rest := v.body
		for range v.Len() {
			var e Value
			e, rest = parse(rest)
			if !yield(e) {
				return
			}
		}
	}
}
