package ledger

import "github.com/strata-cache/strata/remote"

// Digest returns a number for p: equal positions have the same, different ones
// share it with a chance of one in 2^64.
func Digest(p remote.Position) uint64 {
	d := mix(hashString(p.Epoch), 0, 0) ^
		mixCount(countDrops, p.Drops) ^ mixCount(countExpiries, p.Expiries) ^ mixCount(countClock, p.Clock)
	for i, version := range p.Lanes {
		// The number of the lane is mixed in, so that two lanes with swapped versions have another
		// digest.
		d ^= mixVersion(i, version)
	}
	return d
}

// Counts have numbers of their own among lanes.
const (
	countDrops = -2 - iota
	countExpiries
	countClock
)

func mixCount(which int, n uint64) uint64 { return mix(uint64(which), n, 0) }

func mixVersion(lane int, w remote.LaneVersion) uint64 { return mix(uint64(lane), w.Count, w.Nonce) }

// mix is three rounds of the finalizer of SplitMix64, by Steele, Lea and Flood:
// all instances must agree on it.
func mix(a, b, c uint64) uint64 { return round(round(round(a)^b) ^ c) }

func round(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func hashString(s string) (h uint64) {
	for i := range len(s) {
		h = round(h ^ uint64(s[i]))
	}
	return h
}
