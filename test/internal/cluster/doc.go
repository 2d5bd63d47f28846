// Package cluster runs instances of a cache as processes of their own, with
// what stands around them: an origin, proxies that fail on request, and the
// records that the processes leave behind, also when they are killed.
//
// It needs Linux: its times are those of CLOCK_MONOTONIC, which all processes
// of a host share.
package cluster
