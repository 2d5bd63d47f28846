package memcached

import (
	"fmt"

	"github.com/strata-cache/strata/internal/memcached/meta"
)

// A request is a meta.Request. A client turns its reply into an error or an answer; here is how.

// request is one command.
type request = meta.Request

// put puts a command into the buffer of a connection. A large value is not copied.
func (c *conn) put(q *request) {
	if !q.Op.Stores() {
		c.W = q.AppendTo(c.W, 0)
		return
	}
	front := q.Key.Front()
	c.W = append(q.AppendTo(c.W, int64(len(front)+len(q.Value))), front...)
	c.Bulk(q.Value)
	c.W = meta.AppendEnd(c.W)
}

// verdict returns the error that a fitting reply stands for.
func verdict(r *meta.Reply) error {
	switch r.Kind {
	case meta.Error:
		return serverError(*r)
	case meta.EN, meta.End, meta.NF:
		return ErrMiss
	case meta.NS:
		return ErrNotStored
	case meta.EX:
		return ErrConflict
	}
	return nil
}

// answer is the outcome of a request.
type answer struct {
	// value has the value appended to it.
	value  []byte
	flags  uint32
	cas    uint64
	number uint64
	err    error
	// size is the length of the value on the wire.
	size int
}

// take makes the answer of a fitting reply, all but the value.
func (a *answer) take(r *meta.Reply) {
	a.size, a.err = int(max(r.Size, 0)), verdict(r)
	switch r.Kind {
	case meta.VA:
		flags, _ := r.Flags.Uint('f')
		a.flags = uint32(flags)
		a.cas, _ = r.Flags.Uint('c')
	case meta.Item:
		a.flags, a.cas = r.ClientFlags, r.Number
	case meta.Number:
		a.number = r.Number
	}
}

// takeValue appends data, which is the value on the wire, to dst.
func (a *answer) takeValue(q *request, dst, data []byte) {
	value, ok := q.Key.Open(data)
	if !ok { // another key with the same hash
		a.value, a.err = dst, ErrMiss
		return
	}
	if a.value = append(dst, value...); a.value == nil {
		a.value = []byte{} // there is a value, if an empty one
	}
}

// Keys is the treatment of keys that cannot be sent as they are: empty ones, those
// longer than 250 bytes, and those with a space or a control character.
type Keys uint8

// The treatments of such keys.
const (
	// KeysPlain refuses them with ErrBadKey.
	KeysPlain Keys = iota
	// KeysBase64 sends them in base64, which the server decodes, so that other
	// clients find them under the same key. They have at most 186 bytes and need
	// meta commands; GetMany reads them one by one.
	KeysBase64
	// KeysHashed sends a hash of them. The key itself is stored in front of the
	// value, where it counts for Options.MaxValue, and compared when the value is read. Only this client reads such
	// items; they cannot be counted with Increment.
	KeysHashed
)

// wire returns a key as it is sent.
func (k Keys) wire(key string) (meta.Key, error) {
	wire, ok := meta.KeyOf(meta.Carriage(k), key)
	if !ok {
		return wire, badKey(key)
	}
	return wire, nil
}

// badKey is the error for a key that cannot be sent. It shows the beginning of it.
func badKey(key string) error {
	const shown = 32
	return fmt.Errorf("%w: %d bytes, %.*q", ErrBadKey, len(key), shown, key)
}

// room returns an error if a value of size bytes is too large for an item of k, which has most bytes. A key that is stored
// in front of the value counts as well, as it does for the values that the client accepts.
func room(k *meta.Key, size int64, most int) error {
	if size+int64(len(k.Front())) > int64(most) {
		return tooLarge(size)
	}
	return nil
}

// tooLarge is the error for a value that the client does not send.
func tooLarge(size int64) error { return fmt.Errorf("%w: %d bytes", ErrTooLarge, size) }
