package layout

import (
	"bytes"
	"strconv"
)

// HasBytes reports whether the value with that id has the bytes of the value with the id
// known, by the field of an entry with its earlier ids. The field may belong to another
// value.
func HasBytes(id uint64, earlier []byte, known uint64) bool {
	if known == 0 || id == known {
		return known != 0
	}
	of, rest := cutNumber(earlier, 16)
	for of == id && len(rest) > 0 {
		text, more, _ := bytes.Cut(rest, []byte(" "))
		if n, err := strconv.ParseUint(string(text), 16, 64); err == nil && n == known {
			return true
		}
		rest = more
	}
	return false
}
