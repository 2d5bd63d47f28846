// Package placement compares where package memcached and other clients put keys. It is
// apart from the measurements, since dskit brings many packages.
package placement
