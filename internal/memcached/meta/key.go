package meta

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
)

// Carriage is the treatment of keys that cannot be sent as they are: empty ones, those
// longer than 250 bytes, and those with a space or a control character.
type Carriage uint8

// The treatments of such keys.
const (
	Plain  Carriage = iota // they are refused
	Base64                 // they are sent in base64, which the server decodes
	Hashed                 // a hash is sent, and the key is stored in front of the value
)

// hashPrefix begins the names of hashed keys. A key that begins so is hashed, too.
const hashPrefix = "strata:sha256:"

// Key is a key as it is sent.
type Key struct {
	// Text is the key of the command, and the key to be encoded if Binary is set.
	Text   string
	Binary bool
	// Full is the key stored in front of the value, and empty if none is.
	Full string
}

// KeyOf returns a key as it is sent, and false if it cannot be sent.
func KeyOf(c Carriage, key string) (k Key, ok bool) {
	plain := PlainKey(key)
	switch {
	case plain && (c != Hashed || !strings.HasPrefix(key, hashPrefix)):
		return Key{Text: key}, true
	case key == "":
	case c == Base64 && len(key) <= MaxBinaryKey:
		return Key{Text: key, Binary: true}, true
	case c == Hashed:
		sum := sha256.Sum256([]byte(key))
		return Key{Text: hashPrefix + base64.RawURLEncoding.EncodeToString(sum[:]), Full: key}, true
	}
	return Key{}, false
}

// KeysOf returns keys as they are sent, or nil if they are sent as they are. bad is the
// place of a key that cannot be sent, or -1.
func KeysOf(c Carriage, keys []string) (all []Key, bad int) {
	for i, key := range keys {
		one, ok := KeyOf(c, key)
		switch {
		case !ok:
			return nil, i
		case all == nil && !one.Binary && one.Full == "":
			continue
		case all == nil:
			all = make([]Key, len(keys))
			for j, plain := range keys[:i] {
				all[j].Text = plain
			}
		}
		all[i] = one
	}
	return all, -1
}

// Front returns the bytes stored in front of the value.
func (k *Key) Front() []byte {
	if k.Full == "" {
		return nil
	}
	return append(binary.AppendUvarint(nil, uint64(len(k.Full))), k.Full...)
}

// Open removes the key in front of a value, and reports whether it is the right one.
func (k *Key) Open(data []byte) (value []byte, ok bool) {
	if k.Full == "" {
		return data, true
	}
	n, size := binary.Uvarint(data)
	if size <= 0 || n != uint64(len(k.Full)) || uint64(len(data)-size) < n || string(data[size:size+int(n)]) != k.Full {
		return nil, false
	}
	return data[size+int(n):], true
}
