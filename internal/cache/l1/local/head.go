package local

import (
	"encoding/binary"

	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/remote"
)

// head is what Coded keeps of an entry beside its value. In bytes it is: the parts that follow, of
// one byte; the end as 8 bytes, unless there is none; the number of the store and the state, as
// varints; the spans, the record, its lives and its tags, as far as there are any.
type head struct {
	lives  expiry.Lives
	dead   int64
	number uint64
	record Record
}

// The parts of a head.
const (
	hasDead byte = 1 << iota
	hasSpans
	hasRecord
	hasOwn
	hasTags
)

// headRoom is enough for the head of most entries.
const headRoom = 48

func appendHead(b []byte, h head) []byte {
	t := h.record.Traits
	parts := part(h.dead != l1.Forever, hasDead) | part(h.lives.Fresh|h.lives.Soon != 0, hasSpans) |
		part(h.lives.State&expiry.Recorded != 0, hasRecord) | part(t.Lives() != nil, hasOwn) | part(len(t.Tags()) > 0, hasTags)
	b = append(b, parts)
	if parts&hasDead != 0 {
		b = binary.LittleEndian.AppendUint64(b, uint64(h.dead))
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, h.number), h.lives.State)
	if parts&hasSpans != 0 {
		b = binary.LittleEndian.AppendUint32(b, uint32(h.lives.Fresh))
		b = binary.LittleEndian.AppendUint32(b, uint32(h.lives.Soon))
	}
	if parts&hasRecord != 0 {
		b = binary.LittleEndian.AppendUint64(b, uint64(h.record.ID))
		b = binary.LittleEndian.AppendUint64(b, uint64(h.record.Born))
	}
	if parts&hasOwn != 0 {
		b = envelope.AppendLives(b, t.Lives())
	}
	if parts&hasTags != 0 {
		b = envelope.AppendTags(b, t.SeenAt(), t.Tags())
	}
	return b
}

// deadIn returns the end in the form of an entry.
func deadIn(form []byte) int64 {
	if form[0]&hasDead == 0 {
		return l1.Forever
	}
	return int64(binary.LittleEndian.Uint64(form[1:]))
}

// numberIn returns the number of the store in the form of an entry.
func numberIn(form []byte) uint64 {
	b := form[1:]
	if form[0]&hasDead != 0 {
		b = b[8:]
	}
	n, _ := binary.Uvarint(b)
	return n
}

// cutHead splits the form of an entry into its head and its encoded value. The form is what appendHead
// has written.
func cutHead(form []byte) (h head, payload []byte) {
	parts, b := form[0], form[1:]
	h.dead = deadIn(form)
	if parts&hasDead != 0 {
		b = b[8:]
	}
	var n int
	h.number, n = binary.Uvarint(b)
	b = b[n:]
	h.lives.State, n = binary.Uvarint(b)
	b = b[n:]
	if parts&hasSpans != 0 {
		h.lives.Fresh, h.lives.Soon = expiry.Span(binary.LittleEndian.Uint32(b)), expiry.Span(binary.LittleEndian.Uint32(b[4:]))
		b = b[8:]
	}
	if parts&hasRecord != 0 {
		h.record.ID, h.record.Born = remote.ID(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
		b = b[16:]
	}
	var own *expiry.Own
	if parts&hasOwn != 0 {
		own, b, _ = envelope.CutLives(b)
	}
	var tags []string
	var seen uint64
	if parts&hasTags != 0 {
		seen, tags, b, _ = envelope.CutTags(b)
	}
	h.record.Traits = NewTraits(tags, seen, own)
	return h, b
}

// part returns bit if set, else none.
func part(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}
