//go:build !race

package memcached_test

const raceEnabled = false
