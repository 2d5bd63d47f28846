// Package servers starts real servers for tests, each as a process of its own
// on a free loopback port, with its data in a temporary directory, and ends
// them when the test ends. A server that is not installed is installed from
// the distribution's packages if the test may do that; otherwise the test
// fails and says what is missing: a test that was not run proves nothing.
package servers
