package itemtier

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/strata-cache/strata/remote"
)

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
