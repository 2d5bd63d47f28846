// Package gob is a codec for Go types in the format of encoding/gob. It omits
// the description of the type, which is the largest part of a gob stream of one
// value.
//
// The codec computes the description once. An encoded value has four bytes of
// the type's fingerprint instead. If the type contains an interface, each value
// is a whole gob stream, because it must describe the concrete type in the
// interface. Such values are larger and slower than others, and the concrete
// types must be registered with encoding/gob in all programs.
//
// # Cost
//
// An encoder and a decoder of encoding/gob for each value take 7 and 12 times as long as
// one of each for a stream of values, because they describe the type again. This package
// keeps them, and takes about one and a half times as long as the stream. A value with an interface
// has the full cost, and its Append has the cost of an encoder and of a decoder. Package
// codec/compact encodes in a tenth of the time of this one and decodes in a third, and refuses
// interfaces. (The table is in bench/README.md.)
//
// # Limits of gob
//
// Gob does not encode unexported fields, channels and functions, nor the
// difference between an empty and a nil slice. A nil pointer as the value is an error.
//
// Append refuses values that other programs would read as other values, or not at all: a
// field that points to a zero number, text or list, which gob decodes as nil; an interface that
// holds a value of a type registered as a pointer, or the reverse; a map with keys that refer to
// other values; a type with methods GobEncode and GobDecode that do not undo each other; a time in a
// zone west of UTC with seconds, as of New York before 1883. Append
// decodes two kinds of values after it encodes them, to find such losses: values with an
// interface, and values of a type of which gob refuses the zero value.
//
// # Hostile input
//
// encoding/gob trusts its input: a claimed map length can exhaust the memory,
// and deep nesting the stack, which ends the process. Therefore this package
// scans each input before encoding/gob decodes it: it compares every length
// with the number of bytes present, limits nesting to [MaxDepth], and refuses
// extra bytes.
package gob
