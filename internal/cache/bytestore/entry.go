package bytestore

import "encoding/binary"

// An entry in a chunk is: a varint with twice the length of the key, plus one if there is a
// deadline; a varint with the length of the value; the deadline in 6 bytes; the key; the value; and
// zeros up to a multiple of align.

// align is the granularity of places. It makes room for chunks of 64 KiB in places of 32 bits.
const align = 4

// deadlineBytes is the length of a deadline: milliseconds since the start of the store.
const deadlineBytes = 6

// entry is a view of an entry in a chunk. It is valid while the lock of the shard is held.
type entry struct {
	key, value []byte
	deadline   int64 // zero for none
	size       int   // in the chunk
}

// sizeOf returns the size of an entry.
func sizeOf(key, value []byte, deadline int64) int {
	n := varintLen(uint64(len(key))<<1) + varintLen(uint64(len(value))) + len(key) + len(value)
	if deadline != 0 {
		n += deadlineBytes
	}
	return (n + align - 1) &^ (align - 1)
}

func varintLen(x uint64) (n int) {
	for n = 1; x >= 0x80; n++ {
		x >>= 7
	}
	return n
}

// write writes an entry at the beginning of dst, which has room for it.
func write(dst, key, value []byte, deadline int64) {
	head := uint64(len(key)) << 1
	if deadline != 0 {
		head |= 1
	}
	n := binary.PutUvarint(dst, head)
	n += binary.PutUvarint(dst[n:], uint64(len(value)))
	if deadline != 0 {
		var d [8]byte
		binary.LittleEndian.PutUint64(d[:], uint64(deadline))
		n += copy(dst[n:], d[:deadlineBytes])
	}
	n += copy(dst[n:], key)
	n += copy(dst[n:], value)
	clear(dst[n : (n+align-1)&^(align-1)])
}

// read returns the entry at the beginning of src.
func read(src []byte) (e entry) {
	head, n := uvarint(src)
	length, m := uvarint(src[n:])
	n += m
	if head&1 != 0 {
		var d [8]byte
		copy(d[:deadlineBytes], src[n:])
		e.deadline = int64(binary.LittleEndian.Uint64(d[:]))
		n += deadlineBytes
	}
	end := n + int(head>>1)
	e.key, e.value = src[n:end:end], src[end:end+int(length):end+int(length)]
	e.size = (end + int(length) + align - 1) &^ (align - 1)
	return e
}

// uvarint is binary.Uvarint with a short way for one byte, as most lengths are.
func uvarint(src []byte) (uint64, int) {
	if x := src[0]; x < 0x80 {
		return uint64(x), 1
	}
	return binary.Uvarint(src)
}
