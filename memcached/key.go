package memcached

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/strata-cache/strata/internal/mcmeta"
)

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
