package strata

import (
	"fmt"
	"hash/maphash"

	"github.com/strata-cache/strata/internal/journal"
)

// maxKeyText is the length of the text of a key that is shown, in bytes.
const maxKeyText = 200

// shownKey is key as text, or a hash of it if keys may not be shown.
func (c *Cache[K, V]) shownKey(key K, seed maphash.Seed) string {
	if !c.o.ShowKeys {
		return fmt.Sprintf("#%016x", maphash.Comparable(seed, key))
	}
	name, err := c.nameOf(key)
	if err != nil {
		name = fmt.Sprint(key)
	}
	return journal.Line(name, maxKeyText)
}
