package meta

import "iter"

// Flags are the flags of a meta command or of its reply, as they stand on the wire:
// each a letter with an optional token, together a set in any order.
type Flags []byte

// checkFlags reports whether f is well formed, and has each letter at most once.
func checkFlags(f Flags) bool {
	var seen [2]uint64
	for flag := range f.all() {
		c := flag[0]
		if c <= ' ' || c >= 0x7f || seen[c>>6]&(1<<(c&63)) != 0 {
			return false
		}
		seen[c>>6] |= 1 << (c & 63)
	}
	return true
}

// all yields each letter with its token.
func (f Flags) all() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest := []byte(f); len(rest) > 0; {
			var one []byte
			if one, rest = word(rest); len(one) > 0 && !yield(one) {
				return
			}
		}
	}
}

// Get returns the token of a flag, which may be empty, and whether the flag is
// there.
func (f Flags) Get(letter byte) (token []byte, ok bool) {
	for rest := []byte(f); len(rest) > 0; {
		var one []byte
		if one, rest = word(rest); len(one) > 0 && one[0] == letter {
			return one[1:], true
		}
	}
	return nil, false
}

// Has reports whether a flag is there.
func (f Flags) Has(letter byte) bool {
	_, ok := f.Get(letter)
	return ok
}

// Uint returns the token of a flag as a number. ok is false if there is no such
// flag, or if its token is no number.
func (f Flags) Uint(letter byte) (n uint64, ok bool) {
	token, ok := f.Get(letter)
	if !ok {
		return 0, false
	}
	return number(token)
}
