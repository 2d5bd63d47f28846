package rig

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
)

// Profile is the value that the benchmarks cache: 256 bytes of JSON, give or
// take a few for the length of its numbers.
type Profile struct {
	ID       int64    `json:"id"`
	Name     string   `json:"name"`
	Email    string   `json:"email"`
	City     string   `json:"city"`
	Roles    []string `json:"roles"`
	Score    float64  `json:"score"`
	Verified bool     `json:"verified"`
	Bio      string   `json:"bio"`
}

// ProfileOf returns the profile of user i.
func ProfileOf(i int) Profile {
	return Profile{
		ID:       int64(i),
		Name:     fmt.Sprintf("User Number %05d", i),
		Email:    fmt.Sprintf("user%05d@example.com", i),
		City:     "Seyðisfjörður",
		Roles:    []string{"reader", "writer"},
		Score:    float64(i%100) / 4,
		Verified: i%2 == 0,
		Bio:      "Reads a lot, writes now and then, and is here so that all of this makes 256 bytes of JSON text.",
	}
}

// Keys returns the keys of n users.
func Keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "user:" + strconv.Itoa(i)
	}
	return keys
}

// Zipf returns n draws from 0 to keys-1 in which draw k has a chance in
// proportion to (1+k)^-s. A random permutation decides which keys are popular,
// so their order does not.
func Zipf(n, keys int, s float64, seed uint64) []int32 {
	r := rand.New(rand.NewPCG(seed, seed))
	draw := zipf(r, keys, s)
	place := r.Perm(keys)
	draws := make([]int32, n)
	for i := range draws {
		draws[i] = int32(place[draw()])
	}
	return draws
}

// zipf returns a source of draws. The generator of math/rand/v2 needs an s
// above 1; for a smaller s a draw is looked up among the sums of all chances.
func zipf(r *rand.Rand, keys int, s float64) func() int {
	if s > 1 {
		z := rand.NewZipf(r, s, 1, uint64(keys-1))
		return func() int { return int(z.Uint64()) }
	}
	sums := make([]float64, keys)
	sum := 0.0
	for k := range sums {
		sum += math.Pow(float64(1+k), -s)
		sums[k] = sum
	}
	return func() int { return min(sort.SearchFloat64s(sums, r.Float64()*sum), keys-1) }
}
