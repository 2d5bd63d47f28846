package memcached

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/strata-cache/strata/internal/mcmeta"
)

// A request is one command for one key, in meta or in classic form, and knows which
// replies can belong to it. Invariant: a value reaches its caller only in a reply
// that fits: of a kind that answers the command, with the opaque of a meta command
// or the key of a classic one.

// op is what a request does.
type op uint8

const (
	opGet   op = iota // the value
	opGets            // the value, flags and CAS number
	opGat             // as opGets, and a new life
	opTouch           // a new life
	opSet
	opAdd
	opReplace
	opCAS
	opDelete
	opIncr
	opDecr
)

// reads reports whether a command can be sent again without harm.
func (o op) reads() bool { return o <= opTouch }

// stores reports whether a value follows the command.
func (o op) stores() bool { return o >= opSet && o <= opCAS }

// request is one command.
type request struct {
	op  op
	key wireKey
	// meta says that meta commands are used; then the reply has this opaque.
	meta   bool
	opaque uint32
	// quiet says that no reply is wanted if the command succeeds.
	quiet bool
	flags uint32
	// expiry is a time of expiry as the server wants it.
	expiry     int64
	cas, delta uint64
	// own is the number that a stored item gets, if the server lets clients choose it;
	// zero leaves it to the server.
	own   uint64
	value []byte
}

// appendHead appends the command without its value, of which size is the length with
// the key in front of it.
func (q *request) appendHead(dst []byte, size int64) []byte {
	if q.meta {
		return q.appendMeta(dst, size)
	}
	return q.appendClassic(dst, size)
}

// metaNames and metaWords are the commands, and their flags without a number.
var (
	metaNames = [...]string{"mg", "mg", "mg", "mg", "ms", "ms", "ms", "ms", "md", "ma", "ma"}                         // read-only
	metaWords = [...]string{" v", " v f c", " v f c", "", "", " ME", " MR", "", "", " v", " v MD"}                    // read-only
	names     = [...]string{"get", "gets", "gats", "touch", "set", "add", "replace", "cas", "delete", "incr", "decr"} // read-only
)

func (q *request) appendMeta(dst []byte, size int64) []byte {
	if q.key.binary {
		dst = mcmeta.AppendBinaryHead(dst, metaNames[q.op], q.key.text)
	} else {
		dst = mcmeta.AppendHead(dst, metaNames[q.op], q.key.text)
	}
	if q.op.stores() {
		dst = mcmeta.AppendNumber(dst, size)
	}
	dst = mcmeta.AppendWords(dst, metaWords[q.op])
	if q.key.binary {
		dst = mcmeta.AppendWords(dst, " b")
	}
	switch {
	case q.op == opGat, q.op == opTouch:
		dst = mcmeta.AppendTime(dst, 'T', q.expiry)
	case q.op.stores():
		if q.expiry != 0 {
			dst = mcmeta.AppendTime(dst, 'T', q.expiry)
		}
		if q.flags != 0 {
			dst = mcmeta.AppendFlag(dst, 'F', uint64(q.flags))
		}
		if q.op == opCAS {
			dst = mcmeta.AppendFlag(dst, 'C', q.cas)
		}
		if q.own != 0 {
			dst = mcmeta.AppendFlag(dst, 'E', q.own)
		}
	case q.op == opIncr, q.op == opDecr:
		dst = mcmeta.AppendFlag(dst, 'D', q.delta)
	}
	if q.quiet {
		dst = mcmeta.AppendWords(dst, " q")
	}
	return mcmeta.AppendEnd(mcmeta.AppendFlag(dst, 'O', uint64(q.opaque)))
}

func (q *request) appendClassic(dst []byte, size int64) []byte {
	if q.op == opGat {
		dst = mcmeta.AppendNumber(append(dst, "gats"...), q.expiry)
		return mcmeta.AppendEnd(append(append(dst, ' '), q.key.text...))
	}
	dst = mcmeta.AppendHead(dst, names[q.op], q.key.text)
	switch {
	case q.op == opTouch:
		dst = mcmeta.AppendNumber(dst, q.expiry)
	case q.op.stores():
		dst = mcmeta.AppendUint(dst, uint64(q.flags))
		dst = mcmeta.AppendNumber(mcmeta.AppendNumber(dst, q.expiry), size)
		if q.op == opCAS {
			dst = mcmeta.AppendUint(dst, q.cas)
		}
	case q.op == opIncr, q.op == opDecr:
		dst = mcmeta.AppendUint(dst, q.delta)
	}
	return mcmeta.AppendEnd(dst)
}

// appendAll appends the command with its value.
func (q *request) appendAll(dst []byte) []byte {
	if !q.op.stores() {
		return q.appendHead(dst, 0)
	}
	front := q.key.front()
	dst = q.appendHead(dst, int64(len(front)+len(q.value)))
	return mcmeta.AppendBlock(append(dst, front...), q.value)
}

// put puts the command into the buffer of a connection. A large value is not copied.
func (q *request) put(c *conn) {
	if !q.op.stores() {
		c.W = q.appendHead(c.W, 0)
		return
	}
	front := q.key.front()
	c.W = append(q.appendHead(c.W, int64(len(front)+len(q.value))), front...)
	c.Bulk(q.value)
	c.W = mcmeta.AppendEnd(c.W)
}

// fits reports whether r can be the reply, or the first line of it.
func (q *request) fits(r *mcmeta.Reply) bool {
	if r.Kind == mcmeta.Error {
		return true
	}
	if q.meta {
		return q.fitsMeta(r)
	}
	switch q.op {
	case opGet, opGets, opGat:
		return r.Kind == mcmeta.End || r.Kind == mcmeta.Item && string(r.Key) == q.key.text
	case opTouch:
		return r.Kind == mcmeta.Touched || r.Kind == mcmeta.NF
	case opDelete:
		return r.Kind == mcmeta.Deleted || r.Kind == mcmeta.NF
	case opIncr, opDecr:
		return r.Kind == mcmeta.Number || r.Kind == mcmeta.NF
	}
	return r.Kind == mcmeta.Stored || refusal(r.Kind)
}

// fitsMeta is fits for a meta command. Replies without a value may lack the opaque.
func (q *request) fitsMeta(r *mcmeta.Reply) bool {
	opaque, has := r.Flags.Get('O')
	n, ok := r.Flags.Uint('O')
	if has && (len(opaque) == 0 || !ok || n != uint64(q.opaque)) {
		return false
	}
	switch q.op {
	case opGet, opGets, opGat:
		return has && r.Kind == mcmeta.VA || r.Kind == mcmeta.EN
	case opTouch:
		return has && r.Kind == mcmeta.HD || r.Kind == mcmeta.EN
	case opIncr, opDecr:
		return has && r.Kind == mcmeta.VA || refusal(r.Kind)
	}
	return has && r.Kind == mcmeta.HD || refusal(r.Kind)
}

// refusal reports whether a reply says that nothing was done.
func refusal(k mcmeta.Kind) bool { return k == mcmeta.NF || k == mcmeta.NS || k == mcmeta.EX }

// verdict returns the error that a fitting reply stands for.
func verdict(r *mcmeta.Reply) error {
	switch r.Kind {
	case mcmeta.Error:
		return serverError(*r)
	case mcmeta.EN, mcmeta.End, mcmeta.NF:
		return ErrMiss
	case mcmeta.NS:
		return ErrNotStored
	case mcmeta.EX:
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
func (a *answer) take(r *mcmeta.Reply) {
	a.size, a.err = int(max(r.Size, 0)), verdict(r)
	switch r.Kind {
	case mcmeta.VA:
		flags, _ := r.Flags.Uint('f')
		a.flags = uint32(flags)
		a.cas, _ = r.Flags.Uint('c')
	case mcmeta.Item:
		a.flags, a.cas = r.ClientFlags, r.Number
	case mcmeta.Number:
		a.number = r.Number
	}
}

// takeValue appends data, which is the value on the wire, to dst.
func (a *answer) takeValue(q *request, dst, data []byte) {
	value, ok := q.key.open(data)
	if !ok { // another key with the same hash
		a.value, a.err = dst, ErrMiss
		return
	}
	if a.value = append(dst, value...); a.value == nil {
		a.value = []byte{} // there is a value, if an empty one
	}
}

// Keys says what becomes of keys that cannot be sent as they are: empty ones, those
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
	// value, and compared when the value is read. Only this client reads such
	// items; they cannot be counted with Increment.
	KeysHashed
)

// hashPrefix begins the names of keys that were hashed. A key that begins so is
// hashed, too.
const hashPrefix = "strata:sha256:"

// wireKey is a key as it is sent.
type wireKey struct {
	// text is the key of the command, and the key to be encoded if binary is set.
	text   string
	binary bool
	// full is the key that is stored in front of the value, and empty if none is.
	full string
}

// wire returns a key as it is sent.
func (k Keys) wire(key string) (wireKey, error) {
	plain := mcmeta.PlainKey(key)
	switch {
	case plain && (k != KeysHashed || !strings.HasPrefix(key, hashPrefix)):
		return wireKey{text: key}, nil
	case key == "":
	case k == KeysBase64 && len(key) <= mcmeta.MaxBinaryKey:
		return wireKey{text: key, binary: true}, nil
	case k == KeysHashed:
		sum := sha256.Sum256([]byte(key))
		return wireKey{text: hashPrefix + base64.RawURLEncoding.EncodeToString(sum[:]), full: key}, nil
	}
	return wireKey{}, badKey(key)
}

// badKey is the error for a key that cannot be sent. It shows the beginning of it.
func badKey(key string) error {
	const shown = 32
	return fmt.Errorf("%w: %d bytes, %.*q", ErrBadKey, len(key), shown, key)
}

// front returns the bytes that are stored in front of the value.
func (k *wireKey) front() []byte {
	if k.full == "" {
		return nil
	}
	return append(binary.AppendUvarint(nil, uint64(len(k.full))), k.full...)
}

// open removes the key in front of a value, and reports whether it is the right one.
func (k *wireKey) open(data []byte) (value []byte, ok bool) {
	if k.full == "" {
		return data, true
	}
	n, size := binary.Uvarint(data)
	if size <= 0 || n != uint64(len(k.full)) || uint64(len(data)-size) < n || string(data[size:size+int(n)]) != k.full {
		return nil, false
	}
	return data[size+int(n):], true
}
