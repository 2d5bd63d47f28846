package format

import (
	"encoding/binary"
	"math"
	"time"
)

// Flags of an entry. The two highest bits are its uses.
const (
	flagNotFound = 1 << iota
	flagExpired
	flagTags
	flagID
	flagWeight
	flagAge
	usesShift = 6
)

// Flags of a drop.
const (
	flagExpire = 1 << iota
	flagAll
)

// valueLength is the number of bytes of the length of a value.
const valueLength = 3

// maxMillis is the longest time in a snapshot: 292 years.
const maxMillis = math.MaxInt64 / int64(time.Millisecond)

// maxCreated is the last millisecond of the year 9999.
const maxCreated = 253402300799999

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendHeader(b []byte, h *Header) []byte {
	b = binary.AppendUvarint(b, Version)
	b = binary.AppendUvarint(b, uint64(h.Created.UnixMilli()))
	b = binary.AppendUvarint(b, uint64(h.Stream))
	b = binary.AppendUvarint(b, uint64(h.Streams))
	b = append(b, byte(h.Mode))
	return append(b, h.ID[:]...)
}

func appendSection(b []byte, index int, s *Section) []byte {
	b = binary.AppendUvarint(b, uint64(index))
	b = appendText(b, s.Name)
	b = appendText(b, s.Space)
	b = appendText(b, s.Codec)
	b = binary.LittleEndian.AppendUint64(b, s.Fingerprint)
	return binary.AppendUvarint(b, uint64(len(s.Position)))
}

// appendEntry appends all of an entry but its value and the length of that.
func appendEntry(b []byte, e *Entry) []byte {
	flags := flagsOf(e)
	b = append(b, flags)
	b = appendText(b, e.Key)
	b = appendLife(b, e.Fresh, e.Left)
	if flags&flagID != 0 {
		b = binary.LittleEndian.AppendUint64(b, e.ID)
	}
	if flags&flagWeight != 0 {
		b = binary.AppendUvarint(b, uint64(e.Weight))
	}
	// An age is rounded up: an entry must not seem younger than it is.
	if flags&flagAge != 0 {
		b = binary.AppendUvarint(b, uint64(min(-floorMillis(-e.Age), maxMillis)))
	}
	if flags&flagTags != 0 {
		b = binary.AppendUvarint(b, uint64(len(e.Tags)))
		for _, t := range e.Tags {
			b = appendText(b, t)
		}
	}
	return b
}

func flagsOf(e *Entry) byte {
	f := byte(min(max(e.Uses, 0), 3)) << usesShift
	f |= flag(flagNotFound, e.NotFound) | flag(flagExpired, e.Expired)
	f |= flag(flagTags, len(e.Tags) > 0) | flag(flagID, e.ID != 0)
	return f | flag(flagWeight, e.Weight != 1) | flag(flagAge, e.Age >= 0)
}

func flag(f byte, set bool) byte {
	if set {
		return f
	}
	return 0
}

// appendLife appends fresh and, if fresh ends, left. Zero stands for no end. Otherwise fresh is
// written as one more than the zigzag form of its milliseconds, and left as one more than the
// milliseconds by which it is longer than fresh.
func appendLife(b []byte, fresh, left time.Duration) []byte {
	fresh = min(fresh, left)
	if fresh == Forever {
		return append(b, 0)
	}
	// Lives are rounded down, so that none is longer here than it was there.
	f := floorMillis(fresh)
	b = binary.AppendUvarint(b, zigzag(f)+1)
	if left == Forever {
		return append(b, 0)
	}
	return binary.AppendUvarint(b, uint64(floorMillis(left)-f)+1)
}

// floorMillis returns the milliseconds of d, rounded down unless the result is out of
// the format's range.
func floorMillis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d < time.Duration(ms)*time.Millisecond {
		ms--
	}
	return max(ms, -maxMillis)
}

func zigzag(n int64) uint64 { return uint64(n)<<1 ^ uint64(n>>63) }

func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

func appendDrop(b []byte, name string, expire, all bool) []byte {
	b = append(b, flag(flagExpire, expire)|flag(flagAll, all))
	if all {
		return b
	}
	return appendText(b, name)
}

func appendCounts(b []byte, c Counts) []byte {
	for _, n := range [...]uint64{c.Entries, c.Bytes, c.Drops, c.Skipped} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}
