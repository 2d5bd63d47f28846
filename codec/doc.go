// Package codec encodes values as bytes and decodes them, for a shared tier or
// a snapshot.
//
// [JSON] is for almost any type, and other programs can read it. [Bytes] and [String]
// store the bytes of a value unchanged, [Integer] is for numbers. Package codec/compact
// is for Go types without interfaces: the fastest, with the fewest bytes. Package
// codec/gob is for Go types with interfaces. It is a separate package because it links
// encoding/gob.
//
// [Compressed] makes a codec that compresses large values, in a format such as the one
// in package codec/flate.
//
// # Fingerprints
//
// Bytes in a shared tier may have been written by another version of the
// program. [Fingerprint] computes a number from the codec and the shape of the
// Go type. Values with different fingerprints are stored side by side, and no
// instance decodes a value with another fingerprint than its own. Therefore a
// codec may refuse foreign input; it need not read it.
//
// So a change of a type empties L2 for the new version of a program. [Versioned]
// makes a codec that also names older fingerprints, and how a value of this version is
// made of the bytes under each.
//
// # Values that do not survive
//
// Append refuses a value that Decode would return as another one, or not at all: such a
// value is served, and every instance loads it. The documentation of each codec says which
// values these are. It accepts two kinds of changes: the loss of fields that the type
// announces (see [Lossy]), and a nil slice or map that becomes an empty one, or the
// reverse. A type that encodes itself is compared by its method Equal or Cmp, or by its
// fields.
//
// # Input is not trusted
//
// Decode returns a value or an error for any input. It does not panic. It
// allocates memory in proportion to the length of the input, not to lengths
// that the input claims; compressed input may hold the hundredfold of its length, or 64
// KiB. Methods of the value type, such as UnmarshalJSON or
// GobDecode, are code of the caller: a panic in one is returned as a
// [PanicError], and their allocations are not bounded.
package codec
