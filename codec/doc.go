// Package codec turns values into bytes and back for everything that outlives
// a process: a shared tier, a snapshot.
//
// [JSON] carries almost any type and can be read by others, [Bytes] and
// [String] carry what is bytes already, [Integer] carries numbers. Package
// codec/gob carries Go types in fewer bytes than JSON; it stands apart because
// it links encoding/gob.
//
// # Which value is this?
//
// Bytes in a shared tier may have been written by another version of the
// program. [Fingerprint] condenses the codec and the shape of the Go type into
// one number; values with different numbers live side by side and are never
// decoded into each other. That is why a codec need not tolerate foreign
// input, only survive it.
//
// # Input is not trusted
//
// Decode answers any input with a value or an error. It does not panic, and it
// allocates in proportion to the length of the input: at most that many
// elements, however large the lengths which the input claims. Methods of the
// value type that take part (UnmarshalJSON, GobDecode ...) are the caller's
// code: a panic in one is returned as a [PanicError], their memory is their
// own affair.
package codec
