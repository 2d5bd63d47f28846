// Package rig has the parts that the benchmarks share: a Redis server of their
// own, the values and keys they use, the way they put load on something and
// time it, and the statistics of interleaved rounds.
package rig
