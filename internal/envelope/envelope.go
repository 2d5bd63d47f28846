// Package envelope seals an encoded value so that whatever comes back from a
// tier is either exactly what was stored under that key for that schema, or an
// error.
//
// An envelope is an 8-byte header and the payload:
//
//	byte 0     magic 0xC5
//	byte 1     format, 1
//	byte 2     flags
//	byte 3     zero
//	byte 4-7   CRC-32C, little endian, over key, bytes 0-3 and payload,
//	           begun with a hash of schema and length of the key
//
// Key and schema are part of the checksum but are not stored: a value that was
// moved to another key, or written for another type, does not open. Times are
// not in the envelope: the tier keeps them beside it, so that a life can be
// changed without sending the payload again.
package envelope

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"unsafe"
)

// Overhead is the length of the header in bytes.
const Overhead = 8

const (
	magic  = 0xC5
	format = 1
)

// Flags say what the payload is.
type Flags uint8

const (
	// NotFound marks an entry that remembers that the origin has no such key.
	// Its payload is empty.
	NotFound Flags = 1
	// Tagged marks an entry that has tags before its payload.
	Tagged Flags = 2

	// known is the set of flags that this format defines.
	known = NotFound | Tagged
)

// Errors of Open. All of them mean "treat it as absent".
var (
	// ErrForeign is returned for data that this package did not write, or
	// wrote in another format.
	ErrForeign = errors.New("envelope: not an envelope of this format")
	// ErrChecksum is returned for data that was damaged, or sealed for another
	// key or schema.
	ErrChecksum = errors.New("envelope: checksum mismatch")
)

// castagnoli is read-only.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Begin appends the room for a header to dst. The caller appends the payload
// and then calls [Seal].
func Begin(dst []byte) []byte {
	return append(dst, magic, format, 0, 0, 0, 0, 0, 0)
}

// Seal completes the envelope b, which Begin started and which holds the whole
// payload by now.
func Seal(b []byte, key string, schema uint64, f Flags) {
	b[2] = byte(f)
	binary.LittleEndian.PutUint32(b[4:], sum(b, key, schema))
}

// Open returns the payload of the envelope b, which it shares memory with. It
// returns ErrForeign or ErrChecksum if b is not what was sealed for this key
// and schema.
func Open(b []byte, key string, schema uint64) (payload []byte, f Flags, err error) {
	if len(b) < Overhead || b[0] != magic || b[1] != format || b[3] != 0 || Flags(b[2])&^known != 0 {
		return nil, 0, ErrForeign
	}
	if binary.LittleEndian.Uint32(b[4:]) != sum(b, key, schema) {
		return nil, 0, ErrChecksum
	}
	return b[Overhead:], Flags(b[2]), nil
}

func sum(b []byte, key string, schema uint64) uint32 {
	// Schema and the length of the key, which keeps key and payload apart, are
	// the state that the checksum begins with: another state, another sum.
	h := (schema ^ uint64(len(key))) * 0x9e3779b97f4a7c15
	c := crc32.Update(uint32(h>>32), castagnoli, unsafe.Slice(unsafe.StringData(key), len(key)))
	c = crc32.Update(c, castagnoli, b[:4])
	return crc32.Update(c, castagnoli, b[Overhead:])
}
