// Package chaos runs a cluster of caches, each in a process of its own, on real
// Redis servers while processes are killed and stopped, connections are cut
// and slowed down, and Redis pauses, restarts empty or is replaced by a
// replica. What all callers saw is judged afterwards.
//
//	go test ./chaos -run TestChaos -v -for 10m
//
// It needs Linux.
package chaos
