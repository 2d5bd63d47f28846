// Package loads holds the tests for the promises of docs/promises.md about one cache,
// seen through its public API only: the sections Loads, Time and space, and Metrics.
// Files are named after the files of the root package that they test.
package loads
