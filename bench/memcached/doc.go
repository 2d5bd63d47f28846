// Package memcached compares clients of memcached on a real server, as benchmarks.
package memcached
