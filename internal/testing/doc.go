// Package testing is for tests and measurements of this repository. No program of a user
// links it.
//
// Rooms:
//
//   - coherence/loads: the tests of docs/promises.md through the public API: one cache
//   - coherence/agreement: instances that agree, failures, known traps, outages
//   - coherence/cluster: simulated clusters in seeded schedules
//   - coherence/lab: the caches, origins, tiers and loggers of these tests; a store that
//     compares and swaps, in memory, with faults, and the checks of a store with several
//     servers; a cache whose numbers all differ, for the tests of collectors
//   - checker: the judge of simulated clusters; for tests
//   - netsim: a network in memory with faults; for tests
//   - fakes: a Redis server and a memcached server in memory; recorded conversations with a real
//     Redis, played back; for tests
//   - servers: real Redis servers, clusters and sentinels, each a process; for tests and
//     benchmarks
//   - kit: helpers that tests of several packages share: single leases of a Tier; these
//     documents, and a page followed as a reader does
//   - sim: runs eviction policies, the ones of the engine among them, on traces and
//     compares their hit ratios; the optimum
//   - sim/sized: the same for objects of different sizes, in a bound of bytes: objects, bytes and
//     seconds saved
package testing
