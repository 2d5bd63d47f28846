// Package gob is the codec that carries Go types in the format of
// encoding/gob, without the description of the type that a gob stream of one
// value consists of for the most part.
//
// Both sides know the type already: the description is worked out once per
// codec, and a value carries four bytes of its fingerprint instead. A value
// whose type reaches an interface must describe what is behind it; such values
// are whole gob streams, larger and slower than others, and what stands behind
// the interface has to be registered with encoding/gob in all programs.
//
// # What gob does not carry
//
// Unexported fields, channels and functions; the difference between an empty
// and a nil slice; pointers to zero values within structs, which come back as
// nil. A nil pointer where a value is expected is an error.
//
// # Hostile input
//
// encoding/gob trusts its input: a claimed map length alone can exhaust
// memory, and deep nesting the stack, which ends the process. So each input is
// walked before it is handed over: every length is held against the bytes that
// are there, nesting is limited to [MaxDepth], and nothing may be left over.
package gob
