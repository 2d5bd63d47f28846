package format

import (
	"encoding/binary"
	"math"
	"time"
	"unsafe"
)

// cutter cuts fields from the beginning of b. bad becomes true if a field is missing,
// out of its range, or in another form than the shortest one; b is empty then.
type cutter struct {
	b   []byte
	bad bool
}

func (c *cutter) fail() { c.b, c.bad = nil, true }

// check fails unless ok is true.
func (c *cutter) check(ok bool) {
	if !ok {
		c.fail()
	}
}

func (c *cutter) number() uint64 {
	n, size := binary.Uvarint(c.b)
	if size <= 0 || size > 1 && c.b[size-1] == 0 {
		c.fail()
		return 0
	}
	c.b = c.b[size:]
	return n
}

// upTo is number for one of at most a value.
func (c *cutter) upTo(most uint64) uint64 {
	n := c.number()
	if n > most {
		c.fail()
		return 0
	}
	return n
}

// bytes returns n bytes without room behind them, so that appending to them
// changes no other field.
func (c *cutter) bytes(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.fail()
		return nil
	}
	piece := c.b[:n:n]
	c.b = c.b[n:]
	return piece
}

func (c *cutter) text() []byte { return c.bytes(c.number()) }

func (c *cutter) byte() byte {
	if len(c.b) == 0 {
		c.fail()
		return 0
	}
	first := c.b[0]
	c.b = c.b[1:]
	return first
}

func (c *cutter) uint64() uint64 {
	b := c.bytes(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// name returns a text of a section.
func (c *cutter) name() string { return string(c.bytes(c.upTo(MaxName))) }

func (c *cutter) header() (h Header) {
	h.Version = Version
	h.Created = time.UnixMilli(int64(c.upTo(maxCreated)))
	h.Stream, h.Streams = int(c.upTo(MaxStreams)), int(c.upTo(MaxStreams))
	h.Mode = Mode(c.byte())
	copy(h.ID[:], c.bytes(uint64(len(h.ID))))
	c.check(h.Stream < h.Streams && (h.Mode == Keys || h.Mode == Values) && len(c.b) == 0)
	return h
}

func (c *cutter) section() (s Section, position int) {
	s = Section{Name: c.name(), Space: c.name(), Codec: c.name(), Fingerprint: c.uint64()}
	position = int(c.upTo(MaxPosition))
	c.check(len(c.b) == 0)
	return s, position
}

// entry cuts off an entry. It leaves the tags undecoded, and returns them as they are in
// the stream. part says that the entry came in parts: then its value has no length before
// it, and is the rest of the record.
func (c *cutter) entry(e *Entry, part bool) (tags cutter) {
	flags := c.byte()
	*e = Entry{NotFound: flags&flagNotFound != 0, Expired: flags&flagExpired != 0, Weight: 1, Age: Unknown, Uses: int(flags >> usesShift)}
	e.Key = c.text()
	e.Fresh, e.Left = c.life()
	if flags&flagID != 0 {
		e.ID = c.uint64()
		// A field that says nothing is left out: there is one form for each entry.
		c.check(e.ID != 0)
	}
	if flags&flagWeight != 0 {
		e.Weight = int64(c.upTo(math.MaxInt64))
		c.check(e.Weight != 1)
	}
	if flags&flagAge != 0 {
		e.Age = time.Duration(c.upTo(uint64(maxMillis))) * time.Millisecond
	}
	if flags&flagTags != 0 {
		tags = c.tags()
	}
	if !e.NotFound {
		e.Value = c.value(part)
	}
	return tags
}

func (c *cutter) value(part bool) []byte {
	if part {
		return c.bytes(uint64(len(c.b)))
	}
	b := c.bytes(valueLength)
	if b == nil {
		return nil
	}
	return c.bytes(uint64(length(b)))
}

// life is the counterpart of appendLife.
func (c *cutter) life() (fresh, left time.Duration) {
	u := c.number()
	if u == 0 {
		return Forever, Forever
	}
	f := unzigzag(u - 1)
	c.check(-maxMillis <= f && f <= maxMillis)
	fresh = time.Duration(f) * time.Millisecond
	if u = c.number(); u == 0 {
		return fresh, Forever
	}
	// The bound keeps the number in the range of int64; the check below refuses it.
	more := min(u-1, 1<<62)
	c.check(more <= uint64(maxMillis-f))
	return fresh, fresh + time.Duration(more)*time.Millisecond
}

// tags checks the tags of an entry, and returns them with their number before them.
func (c *cutter) tags() cutter {
	// The tags are only checked here: the list of strings, which costs memory, is made for a caller
	// that wants it.
	from := c.b
	n := c.upTo(MaxTags)
	c.check(n > 0)
	for range n {
		c.text()
	}
	return cutter{b: from[:len(from)-len(c.b)]}
}

// strings returns the tags that the method tags has returned. If alias is true they
// share its memory.
func (c cutter) strings(alias bool) []string {
	if len(c.b) == 0 {
		return nil
	}
	all := make([]string, c.number())
	for i := range all {
		b := c.text()
		if alias && len(b) > 0 {
			all[i] = unsafe.String(&b[0], len(b))
		} else {
			all[i] = string(b)
		}
	}
	return all
}

func (c *cutter) drop() (d Drop) {
	flags := c.byte()
	c.check(flags&^(flagExpire|flagAll) == 0)
	d.Expire, d.All = flags&flagExpire != 0, flags&flagAll != 0
	if !d.All {
		d.Name = c.text()
	}
	return d
}

func (c *cutter) counts() Counts {
	return Counts{Entries: c.number(), Bytes: c.number(), Drops: c.number(), Skipped: c.number()}
}
