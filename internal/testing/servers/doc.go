// Package servers starts real servers for tests and benchmarks, each as a
// process of its own on a free loopback port, with its data in a temporary
// directory. A server that is not installed is installed from the
// distribution's packages if this process may do that; otherwise the error is
// [ErrMissing], and a test fails: a test that was not run proves nothing.
package servers
