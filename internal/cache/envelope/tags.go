package envelope

import (
	"encoding/binary"
	"fmt"
)

// Bounds of the tags of one value.
const (
	// MaxTags is the largest number of tags of a value, and MaxTag the greatest
	// length of a tag in bytes.
	MaxTags = 64
	MaxTag  = 512
)

// ErrTag is the error of a tag that no value can have.
var ErrTag = fmt.Errorf("strata: a tag is empty or longer than %d bytes", MaxTag) // read-only

// CheckTag returns ErrTag for a tag that no value can have.
func CheckTag(tag string) error {
	if tag == "" || len(tag) > MaxTag {
		return ErrTag
	}
	return nil
}

// AppendTags appends to dst, which Begin has started, the tag clock of a
// value's load and the tags of the value. The caller then appends the payload
// and calls Seal with the flag [Tagged].
func AppendTags(dst []byte, clock uint64, tags []string) []byte {
	dst = binary.AppendUvarint(dst, clock)
	dst = binary.AppendUvarint(dst, uint64(len(tags)))
	for _, t := range tags {
		dst = append(binary.AppendUvarint(dst, uint64(len(t))), t...)
	}
	return dst
}

// CutTags splits a payload that Open has returned with the flag [Tagged] into
// clock, tags and the payload proper. ok is false if b does not have that form.
func CutTags(b []byte) (clock uint64, tags []string, payload []byte, ok bool) {
	c := cutter{b: b, ok: true}
	clock = c.number()
	n := c.number()
	if n > MaxTags {
		return 0, nil, nil, false
	}
	for range n {
		tags = append(tags, string(c.bytes(c.number())))
	}
	if !c.ok {
		return 0, nil, nil, false
	}
	return clock, tags, c.b, true
}

// cutter cuts pieces from the beginning of b. ok becomes false if a piece is
// missing.
type cutter struct {
	b  []byte
	ok bool
}

func (c *cutter) number() uint64 {
	n, size := binary.Uvarint(c.b)
	if size <= 0 {
		c.ok = false
		return 0
	}
	c.b = c.b[size:]
	return n
}

func (c *cutter) bytes(n uint64) []byte {
	if n > MaxTag || n > uint64(len(c.b)) {
		c.ok = false
		return nil
	}
	piece := c.b[:n]
	c.b = c.b[n:]
	return piece
}
