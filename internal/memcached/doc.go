// Package memcached is the machinery of the memcached client. Its Tier is the one of
// package castier.
//
// Rooms:
//
//   - meta: the text protocol of memcached, meta and classic, in both directions, and
//     keys as they are sent; opens no sockets
//   - roster: the servers of a client: which one a key belongs to, as other clients place
//     keys; which ones come, leave, or are left alone because they do not answer
package memcached
