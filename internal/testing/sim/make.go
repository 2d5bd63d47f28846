package sim

import (
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// Take returns the first n keys of an endless trace.
func Take(keys iter.Seq[uint64], n int) []uint64 {
	all := make([]uint64, 0, n)
	if n < 1 {
		return all
	}
	for key := range keys {
		if all = append(all, key); len(all) == n {
			break
		}
	}
	return all
}

// Zipf asks for n keys at random without end; the k-th has a share proportional to
// 1/k^skew.
func Zipf(n int, skew float64, seed uint64) iter.Seq[uint64] {
	sums := zipfSums(n, skew)
	return func(yield func(uint64) bool) {
		random := source(seed)
		for yield(draw(sums, random)) {
		}
	}
}

// Loop asks for n keys one after the other, again and again.
func Loop(n int) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i := 0; yield(uint64(i % n)); i++ {
		}
	}
}

// Zigzag asks for n keys one after the other forwards, then backwards, and so on. The
// keys at the turning points are asked for once per turn.
func Zigzag(n int) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		period := max(1, 2*n-2)
		for i := 0; ; i++ {
			at := i % period
			if !yield(uint64(min(at, period-at))) {
				return
			}
		}
	}
}

// ScanAndHot mixes two readers: with the given share each request is the next key of
// a scan that asks for no key twice, else one of n keys as Zipf(n, 1) draws them.
func ScanAndHot(n int, share float64, seed uint64) iter.Seq[uint64] {
	sums := zipfSums(n, 1)
	return func(yield func(uint64) bool) {
		random := source(seed)
		scanned := uint64(n)
		for {
			key := draw(sums, random)
			if random.Float64() < share {
				key = scanned
				scanned++
			}
			if !yield(key) {
				return
			}
		}
	}
}

// Recent asks with the given share for a key that was asked for a moment ago: up to most
// requests before, as often 1 to 10 as 10 to 100. The other keys are new. So recency alone counts.
func Recent(share float64, most int, seed uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		random := source(seed)
		past, fresh := make([]uint64, most), uint64(0)
		for i := 0; ; i++ {
			key := fresh
			if before := int(math.Pow(float64(most), random.Float64())); random.Float64() < share && before <= i {
				key = past[(i-before)%most]
			} else {
				fresh++
			}
			if past[i%most] = key; !yield(key) {
				return
			}
		}
	}
}

// Reread asks for new keys, and for the given share of them once more: after least to most
// requests, or some more if these are for others. No key is asked for three times.
func Reread(share float64, least, most int, seed uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		random := source(seed)
		due := make([]uint64, 2*most+1) // by request, from now on; zero for a new key
		for i, fresh := 0, uint64(0); ; i++ {
			key := due[i%len(due)]
			due[i%len(due)] = 0
			if key == 0 {
				fresh++
				key = fresh
				if random.Float64() < share {
					at := i + least + random.IntN(most-least+1)
					for due[at%len(due)] != 0 {
						at++
					}
					due[at%len(due)] = key
				}
			}
			if !yield(key) {
				return
			}
		}
	}
}

// Walk asks for one of n keys after its neighbour, and turns around at each end and, on average,
// after the given number of keys. So a key is read again sooner the later it was read.
func Walk(n, straight int, seed uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		random := source(seed)
		at, step := n/2, 1
		for yield(uint64(at)) {
			if random.IntN(straight) == 0 {
				step = -step
			}
			if at+step < 0 || at+step >= n {
				step = -step
			}
			at = max(0, min(n-1, at+step))
		}
	}
}

// Shift asks for n keys as Zipf(n, 1) does, and after each period of requests gives
// every share to another key.
func Shift(n, period int, seed uint64) iter.Seq[uint64] {
	sums := zipfSums(n, 1)
	return func(yield func(uint64) bool) {
		random := source(seed)
		for i := 0; ; i++ {
			moved := uint64(i/period) * uint64(n/3+1)
			if !yield((draw(sums, random) + moved) % uint64(n)) {
				return
			}
		}
	}
}

// Phases asks without end for the given number of keys of each trace in turn, the keys
// of each made distinct from the keys of the others.
func Phases(each int, traces ...iter.Seq[uint64]) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		var pulls []func() (uint64, bool)
		for _, t := range traces {
			next, stop := iter.Pull(t)
			defer stop()
			pulls = append(pulls, next)
		}
		for i := 0; ; i++ {
			which := i / each % len(pulls)
			key, _ := pulls[which]()
			if !yield(key<<8 | uint64(which)) {
				return
			}
		}
	}
}

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// zipfSums returns the cumulative shares of n keys.
func zipfSums(n int, skew float64) []float64 {
	sums := make([]float64, n)
	total := 0.0
	for i := range sums {
		total += math.Pow(float64(i+1), -skew)
		sums[i] = total
	}
	return slices.Clip(sums)
}

// draw returns a key with the probability of its share.
func draw(sums []float64, random *rand.Rand) uint64 {
	return uint64(sort.SearchFloat64s(sums, random.Float64()*sums[len(sums)-1]))
}
