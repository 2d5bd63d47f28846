package roster

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
)

// jump returns the bucket, of n, that hash belongs to (Lamping and Veach 2014,
// figure 1).
func jump(hash uint64, n int) int {
	bucket, next := int64(-1), int64(0)
	for next < int64(n) {
		bucket = next
		hash = hash*2862933555777941757 + 1
		next = int64(float64(bucket+1) * (float64(int64(1)<<31) / float64(hash>>33+1)))
	}
	return int(bucket)
}

// natural compares addresses chunk by chunk: runs of digits as numbers, the
// texts between them as texts.
func natural(a, b string) int {
	whole := strings.Compare(a, b)
	for a != "" && b != "" {
		var x, y string
		x, a = chunk(a)
		y, b = chunk(b)
		if c := compareChunks(x, y); c != 0 {
			return c
		}
	}
	// Equal chunks may differ as texts, such as 2 and 02: the whole text decides, so that all
	// clients have one order.
	return cmp.Or(cmp.Compare(len(a), len(b)), whole)
}

// chunk returns the longest beginning of s with only digits or with none, and the rest.
func chunk(s string) (head, rest string) {
	digits := isDigit(s[0])
	for i := range len(s) {
		if isDigit(s[i]) != digits {
			return s[:i], s[i:]
		}
	}
	return s, ""
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// compareChunks compares x and y as numbers if both are and fit in an int, else as
// texts.
func compareChunks(x, y string) int {
	m, errX := strconv.Atoi(x)
	n, errY := strconv.Atoi(y)
	if errX == nil && errY == nil {
		return cmp.Compare(m, n)
	}
	return strings.Compare(x, y)
}

// The primes of xxHash.
const (
	prime1 uint64 = 0x9E3779B185EBCA87
	prime2 uint64 = 0xC2B2AE3D27D4EB4F
	prime3 uint64 = 0x165667B19E3779F9
	prime4 uint64 = 0x85EBCA77C2B2AE63
	prime5 uint64 = 0x27D4EB2F165667C5
)

// xxhash64 is XXH64 with seed 0 (Yann Collet, xxHash fast digest algorithm).
func xxhash64(s string) uint64 {
	var buf [256]byte
	b := append(buf[:0], s...)
	h := prime5
	if len(b) >= 32 {
		h, b = stripes(b)
	}
	h += uint64(len(s))
	for ; len(b) >= 8; b = b[8:] {
		h ^= lane(0, binary.LittleEndian.Uint64(b))
		h = bits.RotateLeft64(h, 27)*prime1 + prime4
	}
	if len(b) >= 4 {
		h ^= uint64(binary.LittleEndian.Uint32(b)) * prime1
		h = bits.RotateLeft64(h, 23)*prime2 + prime3
		b = b[4:]
	}
	for _, c := range b {
		h ^= uint64(c) * prime5
		h = bits.RotateLeft64(h, 11) * prime1
	}
	h = (h ^ h>>33) * prime2
	h = (h ^ h>>29) * prime3
	return h ^ h>>32
}

// stripes mixes all whole stripes of 32 bytes of b, and returns the rest of b.
func stripes(b []byte) (h uint64, rest []byte) {
	p1, p2 := prime1, prime2 // variables, since their sum may overflow
	v := [4]uint64{p1 + p2, p2, 0, -p1}
	for ; len(b) >= 32; b = b[32:] {
		for i := range v {
			v[i] = lane(v[i], binary.LittleEndian.Uint64(b[8*i:]))
		}
	}
	h = bits.RotateLeft64(v[0], 1) + bits.RotateLeft64(v[1], 7) + bits.RotateLeft64(v[2], 12) + bits.RotateLeft64(v[3], 18)
	for _, x := range v {
		h = (h^lane(0, x))*prime1 + prime4
	}
	return h, b
}

// lane mixes a word into an accumulator.
func lane(acc, word uint64) uint64 {
	return bits.RotateLeft64(acc+word*prime2, 31) * prime1
}
