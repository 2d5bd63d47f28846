// Package coherence holds the tests of what docs/promises.md promises of a
// cache, seen through its public API only: how values live, are shared, expire
// and are dropped on one instance (named after the files of the root package
// that they test), and how instances agree, in simulated clusters with faults
// (cluster_*), in known traps (traps_*) and in outages (outage_*).
//
// TestClusterKeepsItsPromisesOnEverySchedule runs seeded schedules: -schedules
// is their number, -seed replays one.
package coherence
