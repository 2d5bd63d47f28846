// Package conformance asks any cache with a loader how it behaves when things
// go wrong: the leader of a shared load is cancelled, a loader panics, a key is
// invalidated while it is loaded, and so on.
//
// A library takes part through a small adapter, [Cache]. [Play] runs one
// [Scenario] against it and grades the outcome on the scenario's own scale,
// from worst to best, each grade with the reason for its place. [Matrix] runs
// every scenario against every library, each in a process of its own, so that
// hangs, crashes and leaked goroutines stay where they belong.
//
// Scenarios run in real time, with loads of 50 to 800 ms.
package conformance
