// Package lab has the caches, origins, tiers, stores and loggers that the tests of
// docs/promises.md share. Its caches are of strings and int64 where a test does not need
// another type: generic code is compiled for each pair of types in each package.
package lab
