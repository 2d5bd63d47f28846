// Package chaos runs a cluster of caches, each in a process of its own, on real Redis servers, or
// memcached, while processes are killed and stopped, connections are cut, slowed down and
// swallowed, and Redis pauses, restarts empty or is replaced by a replica without the last writes.
// Afterwards the answers to all callers are judged by the promises of docs/promises.md;
// internal/testing/checker has the rules.
//
//	go test ./chaos -run TestChaos -v -for 10m
//	go test ./chaos -run TestChaos -v -for 1m -seed 7 -only promote,kill -every 2s
//	go test ./chaos -run TestChaos -v -for 5s -every 0 -break nobus
//	go test ./chaos -run TestChaos -v -for 3m -sentinel
//	go test ./chaos -run TestChaos -v -for 3m -cluster -every 10s
//
// With -cluster the processes use a Redis Cluster of three primaries with a replica each. The
// faults are those in cluster.go: primaries are killed, paused, replaced while they are well,
// and started empty, slots move, and processes are paused meanwhile.
//
// In all modes instances save their entries to files that all share, and load entries that any of
// them has saved, from a moment ago or from long before. Restored entries are judged as any other
// value. In all modes each process also has a cache of another service with the same name, on the
// same servers. Its values name that service, so that none of them passes for a value of the cache.
//
// With -repoint the addresses of Redis lead to another server from time to time, while the former
// one lives on and keeps some connections; the faults are in repoint.go.
//
// TestChaosOverMemcached has three servers of memcached as L2 in place of Redis, which are killed
// and stopped. It runs once with the bus of Redis and once without a bus. Without one an instance
// may serve entries that others have dropped until Memory.TTL ends.
//
// The flags: -for is the time for which faults are injected, -every the mean time between them (0
// for none), -only their kinds by the names in faults.go, -seed the number that decides which
// faults come when, -rate the calls of each process in a second, -strict the policy for a silent
// bus, and -break a way to break the cache, to see that it is found out. With -sentinel the
// processes find Redis by three sentinels, and the faults are in sentinel.go: they reach processes,
// Redis and a sentinel, but not connections.
//
// The report counts reads of dropped values by the time since the drop: reads by instances that
// heard of drops, where it must be less than a second, and reads by instances that were cut off. A
// seed repeats the faults, not the schedule.
//
// A process keeps its records in a file that outlives it; the origin and the injector are in the
// process of the test. All times come from one clock of the host. Only the actions of the injector
// can excuse a broken promise for a while, never the opinion of an instance about itself.
//
// It needs Linux.
package chaos
