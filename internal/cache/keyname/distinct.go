package keyname

import "hash/maphash"

// Distinct returns keys without repetitions, and without keys unequal to themselves,
// such as NaN. If it leaves out none it returns keys itself.
func Distinct[K comparable](keys []K) []K {
	if len(keys) <= maxFew && fewDistinct(keys) {
		return keys
	}
	seen := make(map[K]struct{}, len(keys))
	all := make([]K, 0, len(keys))
	for _, k := range keys {
		if _, again := seen[k]; !again && k == k { // a NaN cannot be found again
			seen[k] = struct{}{}
			all = append(all, k)
		}
	}
	return all
}

// maxFew is the largest number of keys that fewDistinct can compare.
const maxFew = 128

var fewSeed = maphash.MakeSeed() // read-only

// fewDistinct reports whether few keys are all different, and equal to themselves. It
// does so without an allocation, in a hash table of their positions.
func fewDistinct[K comparable](keys []K) bool {
	var table [2 * maxFew]uint8 // zero: free, else the position and one
	for i, k := range keys {
		if k != k {
			return false
		}
		// The table is at most half full, so that a free place is near, and the place wraps around
		// with its type.
		at := uint8(maphash.Comparable(fewSeed, k))
		for ; table[at] != 0; at++ {
			if keys[table[at]-1] == k {
				return false
			}
		}
		table[at] = uint8(i + 1)
	}
	return true
}
