// Package cluster puts instances through seeded schedules of calls, faults and delays, and
// judges them by docs/promises.md.
//
// TestClusterKeepsItsPromisesOnEverySchedule and its like run the schedules: -schedules
// is their number, -seed replays one.
package cluster
