// Package cluster runs instances of a cache as processes of their own, with
// their surroundings: an origin, proxies that fail on request, and the records
// that the processes leave behind, also when they are killed.
//
// It needs Linux: its times come from CLOCK_MONOTONIC, which all processes of a host share.
package cluster
