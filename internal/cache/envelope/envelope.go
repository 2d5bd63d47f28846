// Package envelope has the form of an entry in L2: the [Names] of keys, and the envelope that
// seals an encoded value. Opening bytes from a tier gives either exactly the value stored under
// the same key for the same schema, or an error.
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
// Key and schema are part of the checksum but are not stored. So a value moved
// to another key, or written for another type, cannot be opened. The tier keeps
// times beside the envelope, so that a life can be changed without sending the
// payload again.
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

// Flags describe the payload.
type Flags uint8

const (
	// NotFound marks a negative entry. Its payload is empty.
	NotFound Flags = 1
	// Tagged marks an entry with tags before its payload.
	Tagged Flags = 2
	// Lived marks an entry with lives of its own before its payload, behind its tags.
	Lived Flags = 4

	// known is the set of flags that this format defines.
	known = NotFound | Tagged | Lived
)

// Errors of Open. After each of them the caller treats the entry as absent.
var (
	// ErrForeign is returned for data that this package has not written, or has
	// written in another format.
	ErrForeign = errors.New("envelope: not an envelope of this format")
	// ErrChecksum is returned for damaged data, and for data sealed for another
	// key or schema.
	ErrChecksum = errors.New("envelope: checksum mismatch")
)

// castagnoli is read-only.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Begin appends an unsealed header to dst. The caller appends the payload and
// then calls [Seal].
func Begin(dst []byte) []byte {
	return append(dst, magic, format, 0, 0, 0, 0, 0, 0)
}

// Seal completes the envelope b, which Begin has started and which holds the
// whole payload.
func Seal(b []byte, key string, schema uint64, f Flags) {
	b[2] = byte(f)
	binary.LittleEndian.PutUint32(b[4:], sum(b, key, schema))
}

// Open returns the payload of the envelope b; the payload shares the memory of
// b. It returns ErrForeign or ErrChecksum if b was not sealed for this key and
// schema.
func Open(b []byte, key string, schema uint64) (payload []byte, f Flags, err error) {
	if len(b) < Overhead || b[0] != magic || b[1] != format || b[3] != 0 || Flags(b[2])&^known != 0 {
		return nil, 0, ErrForeign
	}
	if binary.LittleEndian.Uint32(b[4:]) != sum(b, key, schema) {
		return nil, 0, ErrChecksum
	}
	return b[Overhead:], Flags(b[2]), nil
}

// Payload returns the payload of b, which Seal has completed: without the tags, and not checked.
func Payload(b []byte) []byte {
	payload := b[Overhead:]
	if Flags(b[2])&Tagged != 0 {
		_, _, payload, _ = CutTags(payload)
	}
	return payload
}

// sum is the checksum of a value. A hash of schema and key length is its initial
// state, so that another schema gives another sum. The length marks the border
// between key and payload.
func sum(b []byte, key string, schema uint64) uint32 {
	h := (schema ^ uint64(len(key))) * 0x9e3779b97f4a7c15
	c := crc32.Update(uint32(h>>32), castagnoli, unsafe.Slice(unsafe.StringData(key), len(key)))
	c = crc32.Update(c, castagnoli, b[:4])
	return crc32.Update(c, castagnoli, b[Overhead:])
}
