// Package itemtier is the Tier over a fleet of servers that store single items:
// each has a version, and can be written if it still has the version that was read.
// memcached is such a store. It has no scripts, no channels and no transactions.
//
// # Items
//
// An item has the whole state of one key: values of all schemas, leases, the token and
// the hold. A large value has an item of its own, and the state has the number of that. internal/cache/entryrules decides each operation. A change reads the item, decides,
// and writes the result under the version that it read; if another client was first, it
// begins again.
//
//	item              on the server of     holds
//	entry of a key    the key              an entryrules.State
//	large value       the key              the value, which never changes
//	drops, expiries   each server          how often everything there was dropped
//	clock             its own              the number of drops of tags
//	tag               the tag              the clock at its last drops
//
// # Losses
//
// A server may evict any item, lose all of them, or come back after a while with those
// that it had. A lost item never revives a value:
//
//   - An entry that is lost has no rights, so no late value is stored under it.
//   - A large value that is lost is absent, and its state gives leases.
//   - Counters of drops that are lost come back at random numbers, and no value has those.
//   - A tag that is lost counts as dropped now.
//   - A clock that is lost comes back at the server's time in ms, times 2²². No lease
//     has a later one: that would take 2²² drops of tags in a ms. The time is known to
//     two seconds at worst; a clock that is lost twice within them may come back too
//     early, unless an instance that has seen it counts first.
//
// The server of a key changes with the list of servers only, so the drop of a key reaches the
// one server that may have a value of it, or fails and is tried again. If keys moved away from a server
// that does not answer, and back, a drop in between would miss the value that it kept.
// So a server that does not answer costs its keys the shared tier, and nothing else.
//
// With another list keys do move, and a server that was left out may return. Each server of
// a new list counts a drop of everything before it is used: no value from before is read.
//
// Invariant: a value is stored only by a write under the version of a state in which
// entryrules has found its right.
package itemtier
