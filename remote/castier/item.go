package castier

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/remote"
)

// Items begin with four bytes that name their kind and the version of their format.
const (
	entryMark   = "st\xe0\x01"
	tagMark     = "st\xe1\x01"
	carriedMark = "st\xe2\x01"
	// missingMark begins the item in place of a tag that was never used, or was lost. Behind it
	// is a random number. To other versions this is no tag.
	missingMark = "st\xe5\x01"
)

// errForeign means that an item was written by another program, or belongs to a key
// with the same hash.
var errForeign = errors.New("castier: no item of this tier")

// encodeEntry returns the item of a state. name is the key if the item's key is its
// hash, else it is empty.
func encodeEntry(name string, s entryrules.State) []byte {
	b := append(make([]byte, 0, sizeOf(name, s)), entryMark...)
	b = appendText(b, name)
	b = binary.AppendVarint(b, s.Until)
	b = binary.AppendUvarint(b, s.Token.Token)
	b = binary.AppendVarint(b, s.Token.Until)
	b = binary.AppendVarint(b, s.Hold.Until)
	b = binary.AppendVarint(b, s.Hold.Length)
	b = binary.AppendUvarint(b, uint64(len(s.Slots)))
	for i := range s.Slots {
		b = appendSlot(b, &s.Slots[i])
	}
	return b
}

// sizeOf is about how many bytes an item has, at least.
func sizeOf(name string, s entryrules.State) int {
	n := len(entryMark) + len(name) + 64
	for i := range s.Slots {
		n += len(s.Slots[i].Value.Data) + len(s.Slots[i].Value.Namespace) + 128
	}
	return n
}

const (
	slotSoft = 1 << iota
	slotAwaited
)

func appendSlot(b []byte, s *entryrules.Slot) []byte {
	var flags byte
	if s.Value.Soft {
		flags |= slotSoft
	}
	if s.Awaited {
		flags |= slotAwaited
	}
	b = append(appendText(b, s.Schema), flags)
	b = binary.AppendUvarint(b, s.Value.ID)
	b = binary.AppendVarint(b, s.Value.Fresh)
	b = binary.AppendVarint(b, s.Value.Left)
	b = appendText(b, s.Value.Namespace)
	data := s.Value.Data
	// The IDs from before the value was extended are kept as well: a reader that knows one of them
	// need not read the bytes again.
	if _, is := referred(data); is {
		data = appendEarlier(bytes.Clone(data), s.Value.Earlier)
	}
	b = appendText(b, string(data))
	b = binary.AppendUvarint(b, s.Lease.Token)
	b = binary.AppendVarint(b, s.Lease.Until)
	return binary.AppendVarint(b, s.Lease.Length)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decodeEntry is the inverse of encodeEntry. Data of the values is part of item. It
// fails with errForeign.
func decodeEntry(item []byte, name string) (s entryrules.State, err error) {
	d := decoder{rest: item}
	d.mark(entryMark)
	// Another key with the same hash, which is as good as no item.
	if d.text() != name {
		return s, errForeign
	}
	s.Until = d.signed()
	s.Token = entryrules.Token{Token: d.number(), Until: d.signed()}
	s.Hold = entryrules.Hold{Until: d.signed(), Length: d.signed()}
	for n := d.number(); n > 0 && !d.bad; n-- {
		s.Slots = append(s.Slots, d.slot())
	}
	// Bytes behind the end mean that another version has written the item, with a part that must
	// not get lost.
	if d.bad || len(d.rest) > 0 {
		return entryrules.State{}, errForeign
	}
	return s, nil
}

// tag is the state of a tag.
type tag struct{ dropped, expired uint64 }

// encodeTag returns the item of a tag; name is as in encodeEntry.
func encodeTag(name string, t tag) []byte {
	b := appendText([]byte(tagMark), name)
	return binary.AppendUvarint(binary.AppendUvarint(b, t.dropped), t.expired)
}

func decodeTag(item []byte, name string) (t tag, err error) {
	d := decoder{rest: item}
	d.mark(tagMark)
	same := d.text() == name
	t = tag{d.number(), d.number()}
	if d.bad || !same || len(d.rest) > 0 {
		return tag{}, errForeign
	}
	return t, nil
}

// decoder reads the parts of an item. From the first cut or wrong part on it is bad,
// and all further parts are zero.
type decoder struct {
	rest []byte
	bad  bool
}

// fail makes d bad.
func (d *decoder) fail() { d.bad, d.rest = true, nil }

func (d *decoder) mark(want string) {
	rest, ok := bytes.CutPrefix(d.rest, []byte(want))
	if !ok {
		d.fail()
		return
	}
	d.rest = rest
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) signed() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}
	// The capacity ends with the part: an append must not write into the next one.
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) text() string { return string(d.bytes()) }

func (d *decoder) flags() byte {
	if len(d.rest) == 0 {
		d.fail()
		return 0
	}
	f := d.rest[0]
	d.rest = d.rest[1:]
	return f
}

func (d *decoder) slot() entryrules.Slot {
	s := entryrules.Slot{Schema: d.text()}
	flags := d.flags()
	s.Awaited = flags&slotAwaited != 0
	s.Value = entryrules.Value{
		ID: d.number(), Fresh: d.signed(), Left: d.signed(), Soft: flags&slotSoft != 0, Namespace: d.text(), Data: d.bytes(),
	}
	d.takeEarlier(&s.Value)
	s.Lease = entryrules.Lease{Token: d.number(), Until: d.signed(), Length: d.signed()}
	return s
}

// maxKey is the most bytes that a key of a store may have.
const maxKey = 250

// maxName is the most bytes that a key or a tag of a cache may have. An item with a hashed
// key has room for it beside a value.
const maxName = 64 << 10

// checkName returns an error if a key or tag is too long.
func checkName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("%w: %d bytes, at most %d", remote.ErrKeyTooLong, len(name), maxName)
	}
	return nil
}

// The kinds of items, as the character before the name in their keys. A hashed key has
// a kind of its own, so that it never meets a key that looks like it.
const (
	entryItem, hashedEntry = 'k', 'K'
	tagItem, hashedTag     = 't', 'T'
	largeItem, hashedLarge = 'v', 'V'
	dropsItem              = 'd'
	expiriesItem           = 'x'
	clockItem              = 'c'
	recentItem             = 'r'
	// Of a fleet, each server has these.
	fleetDropsItem    = 'D'
	fleetExpiriesItem = 'X'
	carriedItem       = 'e'
)

// prefixOf returns the beginning of all keys of a cache name.
func prefixOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "strata:" + base64.RawURLEncoding.EncodeToString(sum[:16]) + ":"
}

// itemKey returns the key of an item, and whether name is in it only as a hash. The
// item of a hashed name has to hold the name, so that a reader can compare it.
func itemKey(prefix string, kind, hashed byte, name string) (key string, isHash bool) {
	if len(prefix)+1+len(name) <= maxKey && plain(name) {
		return prefix + string(kind) + name, false
	}
	// A long name, or one with bytes that a store does not accept, becomes a hash.
	sum := sha256.Sum256([]byte(name))
	return prefix + string(hashed) + base64.RawURLEncoding.EncodeToString(sum[:]), true
}

// plain reports whether name can be part of a key as it is.
func plain(name string) bool {
	for i := range len(name) {
		if name[i] <= ' ' || name[i] == 0x7f {
			return false
		}
	}
	return true
}
