// Package recent has the record of the latest drops of tags, for package castier.
//
// The clock of tags says how many drops there were, and not of which tags. The item of a tag may
// be missing because the tag was never used, or because it was lost after a drop. The
// record, an item beside the clock, tells the two apart. Each of its drops says between which
// numbers of the clock it was. A drop that is not recorded, such as one by an earlier version,
// leaves numbers that belong to no drop: those count as drops of all tags. So nothing depends on
// the time at which a drop is recorded, or on whether it is.
package recent

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"hash/fnv"
	"slices"
)

// mark names the kind of the item and the version of its format.
const mark = "st\xe3\x01"

// MaxTags is the most tags in a record, which take about 2 KiB.
const MaxTags = 128

// Span is the part of the tag clock that one drop has taken: the numbers behind From, up to To.
// The zero Span is unknown.
type Span struct{ From, To uint64 }

// Drop is a drop of tags. No tags stand for any.
type Drop struct {
	Span
	tags []uint32 // hashes
}

// New returns the drop that has taken a part of the clock.
func New(took Span, tags []string) Drop {
	d := Drop{Span: took}
	for _, name := range tags {
		d.tags = append(d.tags, hashOf(name))
	}
	return d
}

func hashOf(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()
}

// Has reports whether a drop has taken the clock to a number.
func Has(all []Drop, to uint64) bool {
	return slices.ContainsFunc(all, func(d Drop) bool { return d.To == to })
}

// Spares reports whether no drop with a number behind since, up to clock, was one of the tag. all
// must have each of these numbers. The last drop looked at begins at a number that the clock is
// known to have had, so that no damage to the clock has hidden a drop.
func Spares(all []Drop, name string, since, clock uint64) bool {
	hash, at := hashOf(name), clock
	for at > since {
		i := slices.IndexFunc(all, func(d Drop) bool { return d.To == at })
		if i < 0 || len(all[i].tags) == 0 || slices.Contains(all[i].tags, hash) {
			return false
		}
		at = all[i].From
	}
	return at == since || since < clock && Has(all, at)
}

// With returns all with one more drop, the latest first, and without the earliest ones if there
// are too many. If the clock has given a number twice, it was lost or damaged: then all
// numbers so far count as drops of any tags.
func With(all []Drop, is Drop) []Drop {
	if slices.ContainsFunc(all, func(d Drop) bool { return d.From < is.To && is.From < d.To }) {
		return []Drop{{Span: Span{To: max(all[0].To, is.To)}}}
	}
	all = append(all, is)
	slices.SortFunc(all, func(a, b Drop) int { return cmp.Compare(b.To, a.To) })
	n := 0
	for i := range all {
		if n += max(1, len(all[i].tags)); n > MaxTags {
			all = all[:i]
			break
		}
	}
	// A drop earlier than all that there is room for: those are of a clock that was ahead, and lost.
	if !Has(all, is.To) {
		return []Drop{is}
	}
	return all
}

// Encode returns the item of a record. It ends with a checksum, as nothing else would show that
// a damaged hash has lost a drop.
func Encode(all []Drop) []byte {
	b := []byte(mark)
	for i := range all {
		b = binary.AppendUvarint(b, all[i].From)
		b = binary.AppendUvarint(b, all[i].To-all[i].From)
		b = binary.AppendUvarint(b, uint64(len(all[i].tags)))
		for _, hash := range all[i].tags {
			b = binary.BigEndian.AppendUint32(b, hash)
		}
	}
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// Decode is the inverse of Encode. Another item has no drops.
func Decode(item []byte) (all []Drop) {
	n := len(item) - crc32.Size
	if n < 0 || crc32.ChecksumIEEE(item[:n]) != binary.BigEndian.Uint32(item[n:]) {
		return nil
	}
	rest, ok := bytes.CutPrefix(item[:n], []byte(mark))
	number := func() uint64 {
		v, n := binary.Uvarint(rest)
		ok = ok && n > 0
		rest = rest[max(n, 0):]
		return v
	}
	for ok && len(rest) > 0 {
		from, length, tags := number(), number(), number()
		if ok = ok && length > 0 && from+length > from && tags <= uint64(len(rest)/4); !ok {
			return nil
		}
		d := Drop{Span: Span{from, from + length}}
		for ; tags > 0; tags-- {
			d.tags, rest = append(d.tags, binary.BigEndian.Uint32(rest)), rest[4:]
		}
		all = append(all, d)
	}
	return all
}
