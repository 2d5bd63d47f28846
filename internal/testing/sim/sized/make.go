package sized

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"github.com/strata-cache/strata/internal/testing/sim"
)

// Suffix ends the names of files with traces that Read reads.
const Suffix = ".kv.gz"

// largest is the largest size of an object that Read accepts.
const largest = 1 << 40

// Read reads a trace: gzip of pairs of little-endian uint64, key and size, one per request, in
// order. It stops after limit requests; a limit of 0 means none.
func Read(r io.Reader, limit int) ([]Request, error) {
	words, err := sim.Read(r, 2*limit)
	if err != nil {
		return nil, err
	}
	if len(words)%2 != 0 {
		return nil, fmt.Errorf("%w: the last request has no size", sim.ErrMalformed)
	}
	requests := make([]Request, len(words)/2)
	for i := range requests {
		key, size := words[2*i], words[2*i+1]
		if size > largest {
			return nil, fmt.Errorf("%w: request %d is for %d bytes", sim.ErrMalformed, i, size)
		}
		requests[i] = Request{Key: key, Size: int64(size)}
	}
	return requests, nil
}

// Web returns the size of a file of a web server: nine of ten are log-normal, and the others
// have a Pareto tail (Barford, Crovella: "Generating representative web workloads for network and
// server performance evaluation", SIGMETRICS, 1998).
func Web(key uint64) int64 {
	random := of(key)
	if random.Float64() < 0.93 {
		return bytes(math.Exp(9.357 + 1.318*random.NormFloat64()))
	}
	return bytes(133_000 * math.Pow(1-random.Float64(), -1/1.1))
}

// ETC returns the size of a value of the pool ETC of Facebook's memcached: a Pareto distribution
// (Atikoglu, Xu, Frachtenberg, Jiang, Paleczny: "Workload analysis of a large-scale key-value
// store", SIGMETRICS, 2012).
func ETC(key uint64) int64 {
	const scale, shape = 214.476, 0.348238
	return bytes(scale / shape * (math.Pow(1-of(key).Float64(), -shape) - 1))
}

// of returns random numbers that are the same for each request of a key.
func of(key uint64) *rand.Rand { return rand.New(rand.NewPCG(key, 1)) }

// bytes bounds a size: at most 1 GiB.
func bytes(size float64) int64 { return int64(max(1, min(size, 1<<30))) }
