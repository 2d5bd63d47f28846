package format

import (
	"encoding/binary"
	"hash/crc32"
)

// magic begins a snapshot. Its line end shows a stream changed like a text.
const magic = "STRATA\r\n"

// Kinds of frames.
const (
	frameHeader   = 1
	frameSection  = 2
	framePosition = 3
	frameEntries  = 4
	framePart     = 5
	frameDrops    = 6
	frameEnd      = 7
	frameTrailer  = 8
	frameAbort    = 9
	// frameSkipped is the lowest kind that readers skip if they do not know it.
	frameSkipped = 128
	// frameLog is a piece of the drops that the cache of a section knows.
	frameLog = 129
	// frameLeft has the numbers of missing entries of a section.
	frameLeft = 130
	// frameLives has lives of the entry that begins the next frame of the section.
	frameLives = 131
)

// The parts of a frame in memory, in this order: 4 bytes of seed and 8 of the frame's
// number, which are in the checksum only; then as in the stream a byte of kind, 3 of
// length, 4 of checksum, and the payload.
const (
	atNumber  = 4
	atKind    = 12
	atLength  = 13
	atSum     = 16
	atPayload = 20
	headBytes = atPayload - atKind
)

// reusable is the largest memory of a long entry, in bytes, kept for the next one.
const reusable = 1 << 20

// castagnoli is read-only.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum returns the checksum of a frame. head has its parts before the payload.
func sum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, head[:atSum]), castagnoli, payload)
}

// place sets the parts of b that the stream does not have. seed is the checksum of
// the header, zero in the header itself.
func place(b []byte, seed uint32, number uint64) {
	binary.LittleEndian.PutUint32(b, seed)
	binary.LittleEndian.PutUint64(b[atNumber:], number)
}

// seal completes the frame b, which has its payload, and returns its checksum.
func seal(b []byte, seed uint32, number uint64, kind byte) uint32 {
	place(b, seed, number)
	b[atKind] = kind
	putLength(b[atLength:], len(b)-atPayload)
	s := sum(b, b[atPayload:])
	binary.LittleEndian.PutUint32(b[atSum:], s)
	return s
}

func putLength(b []byte, n int) { b[0], b[1], b[2] = byte(n), byte(n>>8), byte(n>>16) }

func length(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
