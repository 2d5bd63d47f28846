// Package memcached is the machinery of the memcached client, and the Tier over stores of
// single items.
//
// Rooms:
//
//   - meta: the text protocol of memcached, meta and classic, in both directions, and
//     keys as they are sent; opens no sockets
//   - roster: the servers of a client: which one a key belongs to, as other clients place
//     keys; which ones come, leave, or are left alone because they do not answer
//   - itemtier: the Tier over servers that store single items with versions, such as
//     memcached
//   - itemtier/model: a store of such items in memory, for tests
//   - itemtier/storetest: checks a Store of package itemtier: the model of a fleet that
//     the tests of the tier run on, and the real ones, behave alike
package memcached
