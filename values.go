package strata

import (
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"reflect"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/internal/cache/lossy"
	"github.com/strata-cache/strata/internal/cache/origin"
	"github.com/strata-cache/strata/remote"
)

// inspectOneIn is the number of hits with one inspection: it compares the value with
// the hash that its entry had at first.
const inspectOneIn = 64

// clone is the user's Clone, if there is one.
func (c *Cache[K, V]) clone(v V) (copied V) {
	if c.o.Memory.Clone == nil {
		return v
	}
	copied = v // stands if it panics
	defer c.contain("Memory.Clone")
	return c.o.Memory.Clone(v)
}

// own returns the value of a flight's result to one of its callers. A Loader may still ask for a stale value by Previous.
func (c *Cache[K, V]) own(r *flight.Result[V]) V {
	if !c.o.Memory.Encoded || !r.Shared && !r.Offered && r.Instead == nil {
		return c.clone(r.Value)
	}
	return c.near.Values.Copy(r.Value)
}

// mark makes e ready for L1: it notes a hash of its value in its lives, or encodes the value, unless
// form is its encoded value. It reports whether L1 can keep e.
func (c *Cache[K, V]) mark(e *entry[K, V], form []byte) bool {
	if c.o.Memory.DetectMutation {
		e.Value.State |= c.hash(e.Value.V)
	}
	err := c.near.Values.Pack(e, form)
	if err != nil {
		c.notStored("L1", e.Key, err)
	}
	return err == nil
}

// inspect compares e's value with its hash now and then. An entry with a value that
// has changed is dropped.
func (c *Cache[K, V]) inspect(key K, e *entry[K, V]) {
	if rand.Uint32N(inspectOneIn) != 0 || c.hash(e.Value.V) == e.Value.State&expiry.HashMask {
		return
	}
	if c.memory.DeleteEntry(e) {
		c.memory.Notify([]removal[K, V]{{Entry: e, Reason: l1.Deleted}})
	}
	c.mutated(key, e.Value.V)
}

// mutated counts and logs that the value of key was changed.
func (c *core) mutated(key, value any) {
	c.counts.mutations.Add(1)
	about := c.origin.About(key, slog.String("type", fmt.Sprintf("%T", value)))
	c.settings.Logger.Error("strata: a cached value was changed by a caller", about...)
}

// hash is a hash of how v is encoded, in the bits of expiry.HashMask, or zero if it
// cannot be.
func (c *Cache[K, V]) hash(v V) (h uint64) {
	defer c.contain("Codec")
	b, err := origin.Hashed(c.encoding).Append(nil, v)
	if err != nil {
		return 0
	}
	return uint64(crc32.ChecksumIEEE(b)) & expiry.HashMask
}

// encode appends v as the Codec has it. A panic of the Codec is an error.
func (c *Cache[K, V]) encode(b []byte, v V) (all []byte, err error) {
	err = errCodecPanicked // stands if it panics
	defer c.contain("Remote.Codec")
	return c.encoding.Append(b, v)
}

// notStored counts a value of key missing in a tier because of err, and logs the first one. The
// error of a Codec outside package codec may have a value in its text.
func (c *core) notStored(tier string, key any, err error) {
	if c.counts.encodeErrors.Add(1) > 1 {
		return
	}
	why := fmt.Sprintf("%T", err)
	if e := (*codec.Error)(nil); errors.As(err, &e) {
		why = e.Error()
	} else if errors.Is(err, remote.ErrValueTooLarge) {
		why = remote.ErrValueTooLarge.Error()
	}
	c.settings.Logger.Warn("strata: a value is served but not stored in "+tier+". Stats.EncodeErrors counts all such values",
		c.origin.About(key, slog.String("error", why))...)
}

// decode is the opposite of encode, for a value of this version of the program (0) or
// an older one.
func (c *Cache[K, V]) decode(b []byte, version int) (v V, err error) {
	err = errCodecPanicked // stands if it panics
	defer c.contain("Remote.Codec")
	if version > 0 {
		return c.older[version-1].Decode(b)
	}
	return c.encoding.Decode(b)
}

// nameOf returns the name of key in L2. A panic of the user's Key, or of a method of
// the key, is an error.
func (c *Cache[K, V]) nameOf(key K) (name string, err error) {
	err = errKeyPanicked // stands if it panics
	defer c.contain("Remote.Key")
	if name, err = c.names.Of(key); err == nil && c.tooLong(len(name)) {
		return "", ErrKeyTooLong
	}
	return name, err
}

// checkKey returns ErrKeyTooLong for a string longer than a key may be. Keys of other
// types have a length only by their names; see nameOf.
func (c *Cache[K, V]) checkKey(key K) error {
	if c.texts && c.tooLong(envelope.Length(key)) {
		return ErrKeyTooLong
	}
	return nil
}

// tooLong reports whether a key or the name of one has too many bytes.
func (c *core) tooLong(n int) bool {
	most := c.settings.Limits.MaxKeyBytes
	return most > 0 && n > most
}

// contain keeps a panic of a user's callback from ending the process or
// leaving the cache in a state of its own.
func (c *core) contain(callback string) {
	if p := recover(); p != nil {
		c.counts.callbackPanics.Add(1)
		c.settings.Logger.Error("strata: callback panicked", slog.String("cache", c.settings.Name), slog.String("callback", callback), slog.Any("panic", p))
	}
}

// form says how values are kept in L2.
type form struct {
	// schema is the fingerprint of stored values, older are the other fingerprints
	// that can be read.
	schema uint64
	older  []uint64
	// advice is a sentence about parts that L2 does not keep; none if it keeps all.
	advice []string
}

// format returns the form of the values in L2, and the readers of values of older versions
// of the program.
func (r *Remote[K, V]) format() (f form, older []codec.Older[V]) {
	f.schema = codec.Fingerprint(r.Codec)
	if c, ok := r.Codec.(codec.Upgrader[V]); ok {
		older = c.Older()
	}
	for _, o := range older {
		f.older = append(f.older, o.Fingerprint)
	}
	f.advice = lossy.Advice(r.Codec, reflect.TypeFor[V]())
	return f, older
}
