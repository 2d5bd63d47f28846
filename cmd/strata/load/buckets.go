package load

import (
	"slices"
	"time"
)

// Bucket counts the latencies from From to below To. To is 0 in the last bucket, which has
// no end. The buckets divide each power of ten at 1, 1.5, 2, 3, 5 and 7, so every second
// one begins at 1, 2 or 5.
type Bucket struct {
	From, To time.Duration
	Count    int64
}

// bounds are the ends of all buckets but the last.
var bounds = makeBounds() // read-only

func makeBounds() (all []time.Duration) {
	const least, most = 10 * time.Microsecond, 1000 * time.Second
	for decade := least; decade < most; decade *= 10 {
		for _, tenths := range []time.Duration{10, 15, 20, 30, 50, 70} {
			all = append(all, decade*tenths/10)
		}
	}
	return append(all, most)
}

// bucketOf returns the number of the bucket of d.
func bucketOf(d time.Duration) int {
	i, found := slices.BinarySearch(bounds, d)
	if found {
		i++
	}
	return i
}

// filled returns the buckets with these counts.
func filled(counts []int64) []Bucket {
	all := make([]Bucket, len(counts))
	for i, n := range counts {
		all[i].Count = n
		if i > 0 {
			all[i].From = bounds[i-1]
		}
		if i < len(bounds) {
			all[i].To = bounds[i]
		}
	}
	return all
}
