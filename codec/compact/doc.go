// Package compact is a codec for Go types in a short binary form. It looks at the type
// once, when the codec is made, and encodes several times as fast as a stream of
// encoding/gob. No code is generated.
//
// # Types
//
// Numbers, strings, slices, arrays, maps, structs, pointers and time.Time, and types
// with the methods MarshalBinary and UnmarshalBinary or else GobEncode and GobDecode,
// which encode themselves. Nil and empty slices and maps are kept apart.
//
// The exported fields of a struct are encoded, also the exported fields of an
// unexported embedded struct. Mutexes and the like of package sync are left out. A
// struct is encoded by its fields even if it embeds a type that encodes itself: the
// promoted methods know nothing of its other fields.
//
// Interfaces, functions, channels, map keys with pointers, and structs without an
// exported field are refused: Check returns an error that names the field, and so does
// every other method. Package codec/gob can encode interfaces.
//
// # Losses and refusals
//
// A pointer to the same value from two places becomes two pointers to copies. A value nested more
// than [MaxDepth] times in itself is refused. So is a value that refers to itself, or that has
// parts of such a type in very many places. A value of a type that encodes itself is refused if its
// methods do not return it, and so is a map with a key that does not come back as one equal to it by ==:
// a time with a monotonic reading, or in another zone than UTC and time.Local, or a struct with data in
// fields that are left out. A time.Time keeps its instant and its offset from UTC: a time in UTC
// stays in UTC. Another one gets time.Local if time.Local has the same offset at this instant, and
// else a zone without a name. Its monotonic reading is lost.
//
// # Form
//
// The bytes do not describe the type: they are only of use together with
// [codec.Fingerprint], as in a shared tier. Fields and elements follow each other in
// their order, the entries of a map in any order, so that two encodings of a value may
// differ if it has maps.
//
//   - bool, int8, uint8: one byte. Other integers: 7 bits a byte, low ones first, and
//     signed ones with the sign in the lowest bit.
//   - float32, float64: 4 and 8 bytes, little endian. Complex numbers: two of them.
//   - string: its length and its bytes.
//   - slice, map: its length plus one, and its elements; 0 for nil. An element without
//     bytes, such as struct{}, is a zero byte, and so is such an entry.
//   - pointer: 0 for nil, or 1 and the value.
//   - time.Time: seconds since 1970, twice the nanoseconds, plus 1 if a zone follows, as
//     seconds east of UTC.
//   - a type that encodes itself: the length of the bytes that its method returns, and the bytes.
//
// # Input is not trusted
//
// Decode allocates memory in proportion to the length of its input, with a factor that
// depends on the type, and refuses all forms of a value but one, except for the order of
// maps. A call of UnmarshalBinary or GobDecode gets a part of the input, which it must
// neither keep nor change.
//
// # Strings
//
// Decode copies strings and byte slices below 128 bytes into a block of memory of up to
// 512 bytes that they share, so that one such string keeps its neighbours in memory.
// DecodeAlias copies nothing (see [codec.Aliaser]).
package compact
