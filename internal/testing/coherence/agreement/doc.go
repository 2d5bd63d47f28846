// Package agreement holds the tests of how instances agree, and of failures, seen through
// the public API of caches only: the sections Agreement and When things fail of
// docs/promises.md. traps_* are known traps, outage_* outages.
package agreement
