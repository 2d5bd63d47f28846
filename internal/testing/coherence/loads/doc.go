// Package loads holds the tests of what docs/promises.md promises of one cache, seen
// through its public API only: its sections Loads, Time and space, and Metrics. Files are
// named after the files of the root package that they test.
package loads
